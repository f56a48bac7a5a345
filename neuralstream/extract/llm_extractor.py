"""Gems by a language model: one prompt, one batch, and an answer that is checked before anything is made of it.

What does not fit is never cut silently. History is trimmed, oldest first; a batch that is too long by itself, or whose
answer was cut off, is asked again in halves, never in the same words. An answer that cannot be used is shown to the
model once with what is wrong with it; after that the batch fails, with the answer kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.errors import ContextOverflowError, ExtractionError
from neuralstream.extract.base import Extraction
from neuralstream.extract.drafts import GemDraft, make_gem
from neuralstream.extract.grounds import Grounds
from neuralstream.extract.parse import ParseError, parse_answer
from neuralstream.extract.schemas import SCHEMAS
from neuralstream.extract.transcript import fence, number_turns, render_transcript, render_turn
from neuralstream.llm import Answer, Request
from neuralstream.text import encodable
from neuralstream.tokens import CHARS_PER_TOKEN, count_tokens
from neuralstream.types import Gem, Turn

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.extract.base import Batch
    from neuralstream.extract.prompts import Prompt
    from neuralstream.llm import LanguageModel

__all__ = ["LlmExtractor"]

_log = logging.getLogger(__name__)

_SHOWN_ANSWER, _SHOWN_REASON = 400, 200
"""Tokens of a wrong answer, and of what is wrong with it, that are shown when it is asked for again."""


class LlmExtractor:
    """Distils with a language model; implements `extract.base.Extractor`.

    Args:
        model: answers; closed with the extractor.
        prompt: how it is asked.
        settings: `llm.max_tokens` bounds one answer.
    """

    def __init__(self, model: LanguageModel, prompt: Prompt, settings: Settings) -> None:
        self._model = model
        self._prompt = prompt
        self._settings = settings.llm

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def prompt(self) -> str:
        """The prompt's name and version, such as "curator@1"."""
        return str(self._prompt)

    @property
    def digest(self) -> str:
        """SHA-256 of what of it can change a gem: the model, the prompt, and how the model is asked."""
        llm = self._settings
        parts = [self.name, self._prompt.digest, llm.num_ctx, llm.max_tokens, llm.temperature, llm.seed]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def close(self) -> None:
        """Close the model."""
        self._model.close()

    def extract(self, batch: Batch) -> Extraction:
        """The gems of a batch, by the turns they cite.

        Raises:
            ExtractionError: the model's answer cannot be used, not even the second one; `answer` holds it.
            ContextOverflowError: one turn alone does not fit into the model's context.
            MissingPartError: the model does not answer.
        """
        history, turns = number_turns(batch)
        asked = _Asking(self._model, self._prompt, self._settings.max_tokens)
        try:
            drafts = asked.distil(turns, history)
        except ExtractionError as error:
            error.cost = asked.spent.cost()
            raise
        gems: dict[str, Gem] = {}
        for draft in drafts:
            gem = make_gem(draft, batch, turns, model=self.name, prompt=self.prompt)
            gems.setdefault(gem.gem_id, gem)
        return Extraction(tuple(gems.values()), asked.spent.cost())


class _Wrong(NamedTuple):
    """An answer that could not be used, and why."""

    answer: str
    reason: str


@dataclass
class _Spent:
    """What a batch's calls cost, as `Extraction.cost` names it."""

    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0
    repairs: int = 0
    invalid: int = 0
    split: int = 0
    recorded: int = 0

    def cost(self) -> dict[str, Any]:
        """By name, with the tokens in all."""
        return {**asdict(self), "tokens": self.prompt_tokens + self.answer_tokens}

    def add(self, answer: Answer) -> None:
        """Count a call."""
        self.calls += 1
        self.prompt_tokens += answer.prompt_tokens
        self.answer_tokens += answer.answer_tokens
        self.seconds += answer.seconds
        self.recorded += answer.recorded


@dataclass
class _Asking:
    """One batch's calls."""

    model: LanguageModel
    prompt: Prompt
    max_tokens: int
    spent: _Spent = field(default_factory=_Spent)

    def distil(
        self, turns: Mapping[int, Turn], history: Mapping[int, Turn], wrong: _Wrong | None = None
    ) -> list[GemDraft]:
        """The gems of some turns, in as many calls as it takes; `wrong` is the answer they had before."""
        request, grounds = self._request(turns, history, wrong)
        if request is None:
            return self._halves(turns, history, wrong)
        self.spent.repairs += wrong is not None
        try:
            answer = self._answer(request)
        except ContextOverflowError:
            # The estimate was too low. Without history there is more room; then with fewer turns.
            return self.distil(turns, {}, wrong) if grounds.history else self._halves(turns, history, wrong)
        cut = answer.finish == "length"
        try:
            parsed = parse_answer(answer.text, grounds)
            cut = cut or parsed.cut
        except ParseError as error:
            if not (cut and len(turns) > 1):
                return self._again(turns, history, _Wrong(answer.text, str(error)), wrong)
        if cut and len(turns) > 1:
            return self._halves(turns, history)
        for reason in parsed.refused:
            _log.info("refused a gem of %s by %s: %s", self.prompt, self.model.name, reason)
        return list(parsed.drafts)

    def _again(
        self, turns: Mapping[int, Turn], history: Mapping[int, Turn], wrong: _Wrong, before: _Wrong | None
    ) -> list[GemDraft]:
        """Show the model what was wrong, once."""
        if before is not None:
            raise self._useless(wrong)
        self.spent.invalid += 1
        return self.distil(turns, history, wrong)

    def _halves(
        self, turns: Mapping[int, Turn], history: Mapping[int, Turn], wrong: _Wrong | None = None
    ) -> list[GemDraft]:
        if len(turns) == 1 and wrong is not None:
            raise self._useless(wrong)
        if len(turns) == 1:
            number, turn = next(iter(turns.items()))
            size = count_tokens(render_turn(number, turn))
            raise ContextOverflowError(
                f"turn {turn.turn_id} of about {size} tokens does not fit into the context of {self.model.name}, "
                f"{self.model.context_tokens} tokens, with prompt {self.prompt} and an answer of {self.max_tokens}; "
                "raise llm.num_ctx or lower llm.max_tokens, then run `neuralstream deadletters retry`"
            )
        self.spent.split += 1
        middle = len(turns) // 2
        first = dict(islice(turns.items(), middle))
        second = dict(islice(turns.items(), middle, None))
        return self.distil(first, history) + self.distil(second, {**history, **first})

    def _useless(self, wrong: _Wrong) -> ExtractionError:
        said = encodable(wrong.answer).strip()
        return ExtractionError(f"{self.model.name} with prompt {self.prompt}: {wrong.reason}", answer=said)

    def _answer(self, request: Request) -> Answer:
        answer = self.model.answer(request)
        self.spent.add(answer)
        return answer

    def _request(
        self, turns: Mapping[int, Turn], history: Mapping[int, Turn], wrong: _Wrong | None
    ) -> tuple[Request | None, Grounds]:
        """What to ask, with as much history as fits; None where the turns do not fit without any."""
        correction = "" if wrong is None else _correction(wrong)
        room = self.model.context_tokens - self.max_tokens
        request = self._rendered(turns, {}, correction)
        kept: list[int] = []
        left = room - request.tokens
        for number in reversed(list(history)):
            left -= count_tokens(render_turn(number, history[number])) + 1
            if left < 0:
                break
            kept.append(number)
        shown = {number: history[number] for number in reversed(kept)}
        grounds = Grounds(turns, shown, self.prompt.examples)
        if request.tokens > room:
            return None, grounds
        return (self._rendered(turns, shown, correction) if shown else request), grounds

    def _rendered(self, turns: Mapping[int, Turn], history: Mapping[int, Turn], correction: str) -> Request:
        values = {
            "history": render_transcript(history),
            "batch": render_transcript(turns),
            "numbers": ", ".join(map(str, turns)),
        }
        system, user = self.prompt.render(**{name: values[name] for name in self.prompt.variables})
        return Request(
            prompt=f"{user}{correction}",
            system=system,
            schema=SCHEMAS[self.prompt.schema].json_schema(tuple(turns)),
            max_tokens=self.max_tokens,
            about={
                "prompt": str(self.prompt),
                "turns": [turn.turn_id for turn in turns.values()],
                "history": [turn.turn_id for turn in history.values()],
            },
        )


def _correction(wrong: _Wrong) -> str:
    """What follows the prompt when it is asked again. The answer quotes the conversation, so it is fenced like it."""
    return "\n\n".join(
        (
            "",
            "Your last answer could not be used:",
            fence([wrong.answer[: _SHOWN_ANSWER * CHARS_PER_TOKEN]]),
            wrong.reason[: _SHOWN_REASON * CHARS_PER_TOKEN],
            "Answer again, with JSON alone.",
        )
    )
