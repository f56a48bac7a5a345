"""A gem as a model told it, checked; and the gem that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neuralstream.dates import resolve_dates
from neuralstream.entities import find_entities
from neuralstream.extract.base import Batch
from neuralstream.extract.sentences import split_text
from neuralstream.fence import strip_fences
from neuralstream.text import encodable, shortened
from neuralstream.types import Gem, GemTag, Source, Turn

__all__ = ["GemDraft", "make_gem"]

_IMPORTANCE: Mapping[GemTag, float] = {"decision": 0.7, "preference": 0.65, "todo": 0.6, "code": 0.5, "fact": 0.5}
_CONFIDENCE = 0.8
"""Where the model told none."""

_SUMMARY, _SNIPPET, _CODE, _CONTEXT = 80, 400, 1200, 200
"""Longest, in characters."""

_TOPICS = 3


@dataclass(frozen=True, slots=True)
class GemDraft:
    """What a model said in one gem.

    Attributes:
        turns: numbers of the source turns, ascending, all of the batch.
        importance, confidence: 0 to 1, None where none was told.
    """

    content: str
    turns: tuple[int, ...]
    tags: tuple[GemTag, ...]
    importance: float | None = None
    confidence: float | None = None
    topics: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    summary: str = ""


def make_gem(draft: GemDraft, batch: Batch, numbered: Mapping[int, Turn], *, model: str, prompt: str) -> Gem:
    """The gem of a draft.

    Args:
        draft: what the model said.
        batch: the whole batch, whose last turn dates the gem.
        numbered: the batch's turns by number.
        model, prompt: what made it.
    """
    cited = [numbered[number] for number in draft.turns]
    first, newest = cited[0], cited[-1]
    # What the model left relative is relative to the day it was said.
    content = draft.content if newest.time_estimated else resolve_dates(draft.content, newest.at().date())
    source_turns = tuple(turn.turn_id for turn in cited)
    entities = dict.fromkeys(
        [*(name.casefold() for turn in cited for name in turn.speakers), *find_entities(draft.content)]
    )
    tags = draft.tags
    return Gem(
        gem_id=Gem.make_id(first.user_id, first.session_id, source_turns, content),
        content=content,
        summary=shortened(draft.summary or _first_sentence(draft.content), _SUMMARY),
        source=Source(first.session_id, first.at().date().isoformat(), f"{draft.turns[0]}-{draft.turns[-1]}"),
        source_turns=source_turns,
        created_at=batch.turns[-1].at(),
        user_id=first.user_id,
        topics=draft.topics or tuple(entities)[:_TOPICS],
        tags=tags,
        importance=max(_IMPORTANCE[tag] for tag in tags) if draft.importance is None else draft.importance,
        confidence=_CONFIDENCE if draft.confidence is None else draft.confidence,
        entities=tuple(entities),
        context=_before(first, batch),
        snippet=_snippet(cited, tags),
        valid_from=newest.at(),
        model=model,
        prompt=prompt,
        questions=draft.questions,
    )


def _first_sentence(content: str) -> str:
    return next(iter(split_text(content).sentences), content)


def _before(turn: Turn, batch: Batch) -> str:
    """How the turn before ends: what the first source turn may answer."""
    turns = (*batch.history, *batch.turns)
    place = turns.index(turn)
    return shortened(_said(turns[place - 1]).splitlines()[-1], _CONTEXT) if place and _said(turns[place - 1]) else ""


def _snippet(cited: list[Turn], tags: tuple[GemTag, ...]) -> str:
    """What was said word for word: of code its first block, else the beginning of the source turns."""
    said = "\n".join(_said(turn) for turn in cited)
    code = split_text(said).code if "code" in tags else ()
    return shortened(code[0].text, _CODE) if code else shortened(said, _SNIPPET)


def _said(turn: Turn) -> str:
    text = "\n".join(f"{part.label}: {strip_fences(part.text)}" for part in turn.parts)
    return encodable(text).replace("\0", "").strip()
