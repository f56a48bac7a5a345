"""A scripted OpenAI-compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuralstream.testing.server import Reply, ScriptedChat, ScriptedServer, ServerRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OpenAIReply", "ScriptedOpenAI"]


class OpenAIReply(Reply):
    """What the server does; `error` words it as OpenAI does."""

    @classmethod
    def error(cls, message: str, status: int = 400, *, code: str | None = None) -> OpenAIReply:
        """An error as OpenAI words it."""
        return cls({"error": {"message": message, "type": "invalid_request_error", "code": code}}, status)

    @classmethod
    def answer(cls, text: str | None, finish: str = "stop", **usage: int) -> OpenAIReply:
        """A completion; `usage` such as prompt_tokens=12."""
        message = {"role": "assistant", "content": text}
        return cls({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


class ScriptedOpenAI(ScriptedServer):
    """An HTTP server on this machine that answers like vLLM, or as told. A context manager.

        with ScriptedOpenAI({"qwen3": ScriptedChat('{"gems": []}')}) as server:
            server.script("/v1/chat/completions", [OpenAIReply.error("busy", 503)])
            settings = Settings(openai_url=server.url)

    Unscripted, its models chat (a prompt that does not fit is refused) and are listed with their context.

    Args:
        models: chat models by name.
        context_length: tokens of their context.
        api_key: without it, requests are refused; None takes all.

    Attributes:
        url: where it listens, with `/v1`.
        requests: what was asked, in order; paths begin with `/v1`.
    """

    def __init__(
        self,
        models: Mapping[str, ScriptedChat] | None = None,
        *,
        context_length: int = 8192,
        api_key: str | None = None,
    ) -> None:
        self.models = {"qwen3": ScriptedChat()} if models is None else dict(models)
        self.context_length = context_length
        self.api_key = api_key
        super().__init__()
        self.url += "/v1"

    def behave(self, request: ServerRequest) -> Any:
        """What vLLM would do."""
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return OpenAIReply.error("Unauthorized", 401)
        if request.path == "/v1/models":
            return {"data": [{"id": name, "max_model_len": self.context_length} for name in self.models]}
        if request.path != "/v1/chat/completions":
            return OpenAIReply.error(f"{request.path} is not there", 404)
        model = self.models.get(request.body["model"])
        if model is None:
            return OpenAIReply.error(f"The model `{request.body['model']}` does not exist.", 404)
        longest = int(request.body.get("max_tokens", self.context_length))
        said = model.chat(request.body["messages"], max_tokens=longest, context=self.context_length)
        if said.cut:
            return OpenAIReply.error(f"This model's maximum context length is {self.context_length} tokens.")
        return OpenAIReply.answer(
            said.text, said.finish, prompt_tokens=said.prompt_tokens, completion_tokens=said.answer_tokens
        )
