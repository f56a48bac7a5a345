"""A scripted Ollama server."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from neuralstream.embed.vectors import means_of_chunks
from neuralstream.testing.fakes import FakeEmbedder
from neuralstream.testing.server import Reply, ScriptedChat, ScriptedServer, ServerRequest
from neuralstream.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuralstream.embed.base import Embedder

__all__ = ["OllamaReply", "ScriptedOllama"]

_DEFAULT_CONTEXT = 4096


class OllamaReply(Reply):
    """What the server does; `error` words it as Ollama does."""

    @classmethod
    def error(cls, message: str, status: int = 500) -> OllamaReply:
        """An error as Ollama words it."""
        return cls({"error": message}, status)


class ScriptedOllama(ScriptedServer):
    """An HTTP server on this machine that answers like Ollama, or as told. A context manager.

        with ScriptedOllama({"qwen3": ScriptedChat('{"gems": []}')}) as server:
            server.script("/api/chat", [OllamaReply.error("busy", 503)])
            settings = Settings(ollama_url=server.url)

    Unscripted, its embedders embed (an input longer than the context is refused, or cut if the request allows it), its
    chat models chat (a prompt longer than the context is cut without a word), it lists and shows them, and tells a
    version; anything else is an error.

    Args:
        models: embedders and chat models by name.
        context_length: tokens the models were made for.

    Attributes:
        url: where it listens.
        requests: what was asked, in order.
    """

    def __init__(
        self, models: Mapping[str, Embedder | ScriptedChat] | None = None, *, context_length: int = 8192
    ) -> None:
        self.models: dict[str, Embedder | ScriptedChat] = (
            {"snowflake-arctic-embed2": FakeEmbedder(), "qwen3": ScriptedChat()} if models is None else dict(models)
        )
        self.context_length = context_length
        super().__init__()

    def behave(self, request: ServerRequest) -> Any:
        """What Ollama would do."""
        if request.path == "/api/version":
            return {"version": "0.12.6"}
        if request.path == "/api/tags":
            return {"models": [{"model": _tagged(name), "digest": _digest(name, m)} for name, m in self.models.items()]}
        name = str(request.body.get("model", "")).removesuffix(":latest")
        model = self.models.get(name)
        if model is None:
            return OllamaReply.error(f'model "{name}" not found, try pulling it first', 404)
        if request.path == "/api/show":
            capabilities = model.capabilities if isinstance(model, ScriptedChat) else ["embedding"]
            return {"model_info": {"scripted.context_length": self.context_length}, "capabilities": capabilities}
        return self._run(name, model, request)

    def _run(self, name: str, model: Embedder | ScriptedChat, request: ServerRequest) -> Any:
        if request.path == "/api/chat" and isinstance(model, ScriptedChat):
            return self._chat(name, model, request.body)
        if request.path == "/api/embed" and not isinstance(model, ScriptedChat):
            return self._embed(name, model, request.body)
        return OllamaReply.error(f'"{name}" does not support {request.path}', 501)

    def _embed(self, name: str, model: Embedder, body: Mapping[str, Any]) -> Any:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        longest = self._context(body)
        if body.get("truncate", True):
            texts = [text[: longest * 4] for text in texts]
        elif any(count_tokens(text) > longest for text in texts):
            return OllamaReply.error("the input length exceeds the context length", 400)
        return {"model": name, "embeddings": means_of_chunks(model.embed_chunks(texts), model.dim).tolist()}

    def _chat(self, name: str, model: ScriptedChat, body: Mapping[str, Any]) -> Any:
        if "think" in body and "thinking" not in model.capabilities:
            return OllamaReply.error(f'"{name}" does not support thinking', 400)
        longest = body.get("options", {}).get("num_predict", -1)
        said = model.chat(body["messages"], max_tokens=longest, context=self._context(body))
        return {
            "model": name,
            "message": {"role": "assistant", "content": said.text},
            "done": True,
            "done_reason": said.finish,
            "prompt_eval_count": said.prompt_tokens,
            "eval_count": said.answer_tokens,
        }

    def _context(self, body: Mapping[str, Any]) -> int:
        return min(self.context_length, int(body.get("options", {}).get("num_ctx", _DEFAULT_CONTEXT)))


def _tagged(name: str) -> str:
    return name if ":" in name else f"{name}:latest"


def _digest(name: str, model: Embedder | ScriptedChat) -> str:
    return hashlib.sha256(name.encode()).hexdigest() if isinstance(model, ScriptedChat) else model.digest
