"""Every call counted: how it ended, what it took."""

from __future__ import annotations

import threading
from dataclasses import astuple, dataclass
from operator import add
from typing import Self

from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm.base import Answer, LanguageModel, Request

__all__ = ["Calls", "CountedModel"]


@dataclass(frozen=True, slots=True)
class Calls:
    """Totals since a model was opened.

    Attributes:
        ok: answers that ended by themselves.
        length: answers that were cut off at `max_tokens`.
        overflow: prompts that did not fit into the context, noticed before or after the call.
        failed: calls without an answer.
        recorded: of the answers, those that came from a cassette.
        prompt_tokens, answer_tokens: of the answers.
        seconds: that the answers took, recorded ones when they were made.
    """

    ok: int = 0
    length: int = 0
    overflow: int = 0
    failed: int = 0
    recorded: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """Calls, however they ended."""
        return self.ok + self.length + self.overflow + self.failed

    def __add__(self, other: Calls) -> Calls:
        return Calls(*map(add, astuple(self), astuple(other)))


class CountedModel:
    """A model whose calls are counted. Threads may share it.

    Args:
        model: who answers.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self._lock = threading.Lock()
        self._calls = Calls()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def context_tokens(self) -> int:
        """Tokens of prompt and answer together; see `LanguageModel`."""
        return self.model.context_tokens

    @property
    def calls(self) -> Calls:
        """The totals so far."""
        with self._lock:
            return self._calls

    def answer(self, request: Request) -> Answer:
        """The model's answer; see `LanguageModel`."""
        try:
            answer = self.model.answer(request)
        except ContextOverflowError:
            self._add(Calls(overflow=1))
            raise
        except MissingPartError:
            self._add(Calls(failed=1))
            raise
        self._add(
            Calls(
                ok=int(answer.finish == "stop"),
                length=int(answer.finish == "length"),
                recorded=int(answer.recorded),
                prompt_tokens=answer.prompt_tokens,
                answer_tokens=answer.answer_tokens,
                seconds=answer.seconds,
            )
        )
        return answer

    def close(self) -> None:
        """Close the model."""
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, calls: Calls) -> None:
        with self._lock:
            self._calls += calls
