"""A model on an Ollama server, through its own API: `/v1` there knows neither num_ctx nor think."""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm.base import Answer, ModelFacts, Request, check_fits, check_whole, without_thinking
from neuralstream.ollama_server import OllamaError, OllamaServer
from neuralstream.tokens import count_tokens
from neuralstream.transport import TOO_LONG

if TYPE_CHECKING:
    from collections.abc import Callable

    from neuralstream.config import LlmSettings

__all__ = ["OllamaModel"]

_log = logging.getLogger(__name__)


class OllamaModel:
    """A model on an Ollama server, asked at the first need. A context manager.

    Args:
        url: http(s):// of the server.
        model: its name there, with or without a tag.
        settings: context, choices, timeout and tries.
        sleep: waits between tries, seconds.
    """

    def __init__(
        self, url: str, model: str, settings: LlmSettings, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.name = model
        self._settings = settings
        self.server = OllamaServer(
            url,
            model,
            timeout=settings.timeout,
            too_slow="raise llm.timeout or set a smaller gem_model",
            tries=settings.tries,
            sleep=sleep,
        )

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together; see `LanguageModel`."""
        trained = self._ask(self.server.trained_context)
        return min(self._settings.num_ctx, trained or self._settings.num_ctx)

    @property
    def thinks(self) -> bool:
        """Whether the server says that the model can think before it answers."""
        return "thinking" in (self._ask(self.server.show).capabilities or ())

    def look(self) -> ModelFacts:
        """What the server says of the model; see `LiveModel`."""
        return ModelFacts(self.server.where, self._ask(self.server.trained_context), self.thinks)

    def answer(self, request: Request) -> Answer:
        """The model's answer; see `LanguageModel`."""
        context = self.context_tokens
        check_fits(request, context)
        thinks = self.thinks
        if thinks and _may_think_anyway(self.name):
            _recommend_instruct(self.name)
        started = time.monotonic()
        told = self._ask(
            lambda: self.server.request(
                lambda client: client.chat(
                    self.name,
                    request.messages,
                    # The option is sent to models that can think only; others may refuse the request.
                    think=False if thinks else None,
                    format=dict(request.schema) if request.schema is not None else None,
                    options={
                        "num_ctx": self._settings.num_ctx,
                        "num_predict": request.max_tokens,
                        "temperature": self._settings.temperature,
                        "seed": self._settings.seed,
                    },
                    keep_alive=self._settings.keep_alive.total_seconds(),
                )
            )
        )
        seconds = time.monotonic() - started
        check_whole(request, told.prompt_eval_count, told.eval_count, context)
        written = told.message.content or ""
        if told.message.thinking or "</think>" in written:
            _recommend_instruct(self.name)
        return Answer(
            text=without_thinking(written),
            finish="length" if told.done_reason == "length" else "stop",
            prompt_tokens=told.prompt_eval_count or request.tokens,
            answer_tokens=told.eval_count or count_tokens(written),
            seconds=seconds,
        )

    def close(self) -> None:
        """Close the connections to the server."""
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OllamaError as error:
            if TOO_LONG.search(str(error)):
                raise ContextOverflowError(f"{error}; raise llm.num_ctx, or lower batch_size") from error
            raise MissingPartError(f"{error}; its log says more") from error


def _may_think_anyway(model: str) -> bool:
    """Whether a tag is one that ignores `think`: several of qwen3's, plain ones too, have become thinking-only."""
    base, _, tag = model.rpartition("/")[2].partition(":")
    return "thinking" in tag or (base == "qwen3" and "instruct" not in tag)


@lru_cache
def _recommend_instruct(model: str) -> None:
    """Say once what to do about a model that thinks before it answers."""
    _log.warning(
        "%s may think before it answers, which takes time, fills the context and breaks JSON; an instruct tag, such as "
        "gem_model = 'qwen3:4b-instruct', does not",
        model,
    )
