"""A model behind an OpenAI-compatible chat API: vLLM, llama.cpp, LM Studio, a cloud.

The dialects differ. Some servers cannot follow a JSON schema, some not even promise JSON; newer models want
`max_completion_tokens`, and models that reason choose their own temperature; what a server refused once is not sent
again.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm.base import Answer, ModelFacts, Request, check_fits, check_whole, without_thinking
from neuralstream.tokens import count_tokens
from neuralstream.transport import TOO_LONG, Address, retried

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neuralstream.config import LlmSettings

__all__ = ["OpenAICompatibleModel"]

_log = logging.getLogger(__name__)

_FORMATS = ("json_schema", "json_object", None)
"""How an answer's form is asked for, best first; the last leaves it to the prompt."""

_FORM = re.compile(r"response.?format|json.?schema|json.?object|grammar|structured.?output|\bstrict\b", re.IGNORECASE)
"""What servers name when they cannot give an answer's form: OpenAI, Groq, vLLM, llama.cpp."""

_OPTIONAL = ("temperature", "seed")
_UNWANTED = re.compile(
    r"unsupported|not support|not permitted|not allowed|forbidden|unrecognized|unknown|unexpected|deprecated",
    re.IGNORECASE,
)
"""What a request can do without, and how servers say that they do not take it."""

_CONTEXT_KEYS = ("max_model_len", "context_length", "max_context_length", "context_window")
"""What servers call a model's context in `/models`: vLLM, OpenRouter, LM Studio, Groq."""


class OpenAICompatibleModel:
    """A model behind `/chat/completions`, asked at the first need. A context manager; threads may share it.

    Args:
        url: http(s)://…/v1 of the server.
        model: its name there.
        settings: context, choices, timeout and tries.
        api_key: the server's key, where it wants one.
        sleep: waits between tries, seconds.
    """

    def __init__(
        self,
        url: str,
        model: str,
        settings: LlmSettings,
        *,
        api_key: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = model
        self._address = Address.parse(url)
        self._settings = settings
        self._api_key = api_key
        self._sleep = sleep
        self._lock = threading.RLock()
        self._opened: Any = None
        self._listed: dict[str, Any] | None = None
        self._format = 0
        self._length_key = "max_tokens"
        self._unwanted: frozenset[str] = frozenset()

    @property
    def where(self) -> str:
        """The server in words, without credentials."""
        return f"the OpenAI-compatible server at {self._address.url}"

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together; see `LanguageModel`."""
        told = self.told_context()
        return min(self._settings.num_ctx, told or self._settings.num_ctx)

    def told_context(self) -> int | None:
        """The context that the server tells of in its list of models; None where it does not."""
        entry = self.listed().get(self.name, {})
        # llama.cpp: what it was started with, else what the model was made for.
        meta = entry.get("meta") or {}
        told = [entry.get(key) for key in _CONTEXT_KEYS] + [meta.get("n_ctx") or meta.get("n_ctx_train")]
        return min((int(value) for value in told if isinstance(value, int) and value > 0), default=None)

    def listed(self) -> Mapping[str, Mapping[str, Any]]:
        """The server's list of models by name, asked once; empty where it keeps none."""
        with self._lock:
            if self._listed is None:
                try:
                    models = self._request("GET", "/models")["data"]
                    self._listed = {str(model["id"]): model for model in models}
                except (_RefusalError, KeyError, TypeError):
                    self._listed = {}
            return self._listed

    def look(self) -> ModelFacts:
        """What the server says of the model; see `LiveModel`."""
        listed = self.listed()
        if listed and self.name not in listed:
            raise MissingPartError(
                f"{self.where} does not have {self.name}; set gem_model to one of {', '.join(sorted(listed)[:10])}"
            )
        return ModelFacts(self.where, self.told_context())

    def answer(self, request: Request) -> Answer:
        """The model's answer; see `LanguageModel`."""
        context = self.context_tokens
        check_fits(request, context)
        started = time.monotonic()
        told = self._complete(request)
        seconds = time.monotonic() - started
        try:
            choice = told["choices"][0]
            written = _text(choice["message"].get("content"))
            usage = told.get("usage") or {}
            read, wrote = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise MissingPartError(
                f"{self.where} answered without a message: {str(told)[:200]}; its log says more"
            ) from error
        check_whole(request, read, wrote, context)
        return Answer(
            text=without_thinking(written),
            finish="length" if choice.get("finish_reason") == "length" else "stop",
            prompt_tokens=read or request.tokens,
            answer_tokens=wrote or count_tokens(written),
            seconds=seconds,
        )

    def close(self) -> None:
        """Close the connections to the server."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _complete(self, request: Request) -> Any:
        """The server's completion, asked in the dialect it understands."""
        while True:
            format_index, length_key, unwanted = self._format, self._length_key, self._unwanted
            body = {
                "model": self.name,
                "messages": request.messages,
                **{name: getattr(self._settings, name) for name in _OPTIONAL if name not in unwanted},
                length_key: request.max_tokens,
                **_response_format(request.schema, _FORMATS[format_index]),
            }
            try:
                return self._request("POST", "/chat/completions", body)
            except _RefusalError as error:
                if TOO_LONG.search(error.text):
                    raise ContextOverflowError(f"{error}; raise its limit, or lower batch_size") from error
                named = [name for name in _OPTIONAL if name in body and name in error.text]
                if length_key == "max_tokens" and "max_completion_tokens" in error.text:
                    self._length_key = "max_completion_tokens"
                elif named and _UNWANTED.search(error.text):
                    self._unwanted = unwanted | {named[0]}
                    _log.warning("%s takes no %s; answers may differ from call to call", self.name, named[0])
                elif "response_format" in body and _FORM.search(error.text):
                    self._format = format_index + 1
                else:
                    raise MissingPartError(f"{error}; its log says more") from error

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The server's JSON; transport faults are tried again.

        Raises:
            _RefusalError: the request is at fault.
            MissingPartError: the server does not answer, took too long, wants a key, or has no such model.
        """
        import httpx

        def call() -> Any:
            return self._client().request(method, path, json=body).raise_for_status().json()

        try:
            return retried(call, tries=self._settings.tries, sleep=self._sleep)
        except httpx.HTTPStatusError as error:
            status, text = error.response.status_code, error.response.text
            if status in {401, 403}:
                raise MissingPartError(f"{self.where} wants another key ({status}); set openai_api_key") from None
            if status == 404 and body is not None:
                raise MissingPartError(
                    f"{self.where} does not have {self.name}, or is none ({text[:200]}); set gem_model to a name it "
                    "lists, and openai_url to its address, which mostly ends in /v1"
                ) from None
            raise _RefusalError(f"{self.where} refused {self.name} ({status}): {text[:200]}", text) from None
        except httpx.ReadTimeout as error:
            seconds = self._settings.timeout.total_seconds()
            raise MissingPartError(
                f"{self.where} did not answer {self.name} within {seconds:g} s; raise llm.timeout or set a smaller "
                "gem_model"
            ) from error
        except httpx.TransportError as error:
            raise MissingPartError(
                f"{self.where} does not answer ({type(error).__name__}); start it there, or unset openai_url"
            ) from error
        except ValueError as error:
            raise MissingPartError(
                f"{self.where} answered with something else than JSON: {error}; check openai_url"
            ) from error

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                import httpx

                headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else None
                self._opened = httpx.Client(
                    base_url=self._address.url,
                    auth=None if self._api_key else self._address.auth,
                    headers=headers,
                    timeout=self._settings.timeout.total_seconds(),
                )
            return self._opened


class _RefusalError(Exception):
    """The server refused a request; `text` is all it said."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def _text(content: Any) -> str:
    """What was written: a text, or the texts among parts, thinking left out."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _count(told: Any) -> int | None:
    """A number of tokens; None where none is told."""
    return told if isinstance(told, int) and told > 0 else None


def _response_format(schema: Mapping[str, Any] | None, kind: str | None) -> dict[str, Any]:
    if schema is None or kind is None:
        return {}
    if kind == "json_schema":
        named = {"name": "answer", "schema": dict(schema), "strict": True}
        return {"response_format": {"type": kind, "json_schema": named}}
    return {"response_format": {"type": kind}}
