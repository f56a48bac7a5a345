"""From a model's answer to gems that can be stored, or to an error that tells the model what was wrong.

A gem is refused alone, with its reason; the answer is refused where no gem of it is left. A refused gem loses nothing:
its turns stay searchable as they are, which is better than a wrong statement in their place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from neuralstream.analysis import is_stop_word, words
from neuralstream.extract.answers import ParseError, read_answer
from neuralstream.extract.drafts import GemDraft
from neuralstream.extract.grounds import Grounds
from neuralstream.extract.kinds import tags_of
from neuralstream.fence import strip_fences
from neuralstream.types import GemTag

__all__ = ["ParseError", "Parsed", "parse_answer"]

_LONGEST = 1000
"""Characters of a statement; what is longer was copied, not distilled."""

_MOST_CITED = 100
_ENDLESS = 1e9
"""No grade; larger whole numbers do not even fit into a float."""

_MOST_TEXTS = 5
_LONGEST_WITHOUT_COMMA = 5
"""Entries of a gem's lists that are looked at; words of an entry that may stand in a text with commas."""

_UNSEEN = re.compile(r"[\x00-\x1f\x7f\u200b\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")
_TURNS = re.compile(r"(?:turns?|no\.?|numbers?|and|to|[\[\](),;#–—_\s-]|\d)+", re.IGNORECASE)
_RANGE = re.compile(r"(\d{1,9})(?:\s*(?:[-–—]|to)\s*(\d{1,9}))?", re.IGNORECASE)
_NUMBER = re.compile(r"(?P<number>\d{1,9}(?:\.\d+)?)\s*(?:(?P<percent>%)|/\s*(?P<most>\d{1,9}))?")

_SOURCE_KEYS = (
    "source_turns", "source_turn", "sources", "source", "turns", "turn", "turn_range", "turn_numbers", "citations",
    "turn_ids", "references",
)  # fmt: skip
_TAG_KEYS = ("tags", "tag", "type", "kind", "category")
_TOPIC_KEYS = ("topics", "topic", "keywords", "subjects")
_QUESTION_KEYS = ("questions", "question")
_IMPORTANCE_KEYS = ("importance", "salience", "priority", "relevance")
_CONFIDENCE_KEYS = ("confidence", "certainty", "probability")

_TAG_WORDS: Mapping[str, GemTag] = {
    **{tag: tag for tag in get_args(GemTag)},
    "task": "todo", "to-do": "todo", "to do": "todo", "to_do": "todo", "action": "todo", "action item": "todo",
    "reminder": "todo", "plan": "todo", "choice": "decision", "information": "fact", "info": "fact", "event": "fact",
    "habit": "preference", "like": "preference", "rule": "preference", "snippet": "code",
    "command": "code", "config": "code", "code note": "code", "code_note": "code",
}  # fmt: skip
_SHARE_WORDS = {
    "very high": 0.95, "critical": 0.95, "certain": 0.95, "high": 0.85, "medium": 0.5, "moderate": 0.5, "normal": 0.5,
    "low": 0.2, "very low": 0.1, "none": 0.0,
}  # fmt: skip


class Parsed(NamedTuple):
    """The gems of an answer that can be used, why others were refused, and whether the text breaks off."""

    drafts: tuple[GemDraft, ...]
    refused: tuple[str, ...]
    cut: bool


class _RefusedError(ValueError):
    """A gem cannot be used."""


def parse_answer(text: str, grounds: Grounds) -> Parsed:
    """The gems of an answer.

    Args:
        text: what the model wrote.
        grounds: what it was shown, on which every gem has to rest.

    Raises:
        ParseError: there is no answer in it, or none of its gems can be used.
    """
    written = read_answer(text)
    drafts: dict[tuple[str, ...], GemDraft] = {}
    refused: list[str] = []
    for item in written.items:
        try:
            draft = _draft(item, grounds)
        except _RefusedError as reason:
            refused.append(f"{_excerpt(item)}: {reason}")
            continue
        key = tuple(words(draft.content))
        if key in drafts:
            refused.append(f"{_excerpt(item)}: said twice")
        else:
            drafts[key] = draft
    if refused and not drafts:
        raise ParseError("No gem of the answer can be used.\n" + "\n".join(f"- {reason}" for reason in refused))
    return Parsed(tuple(sorted(drafts.values(), key=lambda draft: draft.turns)), tuple(refused), written.cut)


def _draft(item: Mapping[str, Any], grounds: Grounds) -> GemDraft:
    content = _content(item.get("content"))
    turns = _turns(_first(item, _SOURCE_KEYS), grounds)
    if reason := grounds.objection(content, turns):
        raise _RefusedError(reason)
    confidence = _share(_first(item, _CONFIDENCE_KEYS))
    if grounds.doubts(content):
        confidence = min(0.5, 1.0 if confidence is None else confidence)
    return GemDraft(
        content=content,
        turns=turns,
        tags=_tags(_first(item, _TAG_KEYS)) or tags_of(content) or ("fact",),
        importance=_share(_first(item, _IMPORTANCE_KEYS)),
        confidence=confidence,
        topics=tuple(dict.fromkeys(topic.casefold() for topic in _texts(_first(item, _TOPIC_KEYS), most_words=5))),
        questions=_texts(_first(item, _QUESTION_KEYS), most_words=40),
        summary=summary if isinstance(summary := item.get("summary"), str) and summary != content else "",
    )


def _content(value: Any) -> str:
    text = _line(value) if isinstance(value, str) else ""
    if strip_fences(text) != text:
        raise _RefusedError("it holds a tag of injected memory")
    if not any(not is_stop_word(word) for word in words(text)):
        raise _RefusedError("content says nothing")
    if len(text) > _LONGEST:
        raise _RefusedError(f"content has {len(text)} characters, and a statement at most {_LONGEST}")
    return text


def _turns(value: Any, grounds: Grounds) -> tuple[int, ...]:
    """The turns of the batch that are cited; a range has to exist from end to end."""
    if value is None and len(grounds.numbers) == 1:
        return grounds.numbers
    cited = {number for number in _cited(value, grounds) if number in grounds.numbers}
    if not cited:
        numbers = ", ".join(map(str, grounds.numbers))
        raise _RefusedError(f"source_turns is {str(value)[:40]!r}, and has to hold numbers out of {numbers}")
    return tuple(sorted(cited))


def _cited(value: Any, grounds: Grounds) -> list[int]:
    """The numbers in whatever form they were written."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return [number for entry in value[:_MOST_CITED] for number in _cited(entry, grounds)]
    if isinstance(value, str):
        return _cited_in(value.strip(), grounds)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return [int(value)] if number and value in grounds.shown else []


def _cited_in(text: str, grounds: Grounds) -> list[int]:
    """The numbers in a text such as "turn 4", "[4], [5]", "3-5", or a turn's id; a name with digits holds none."""
    if text in grounds.ids:
        return [grounds.ids[text]]
    found: list[int] = []
    if _TURNS.fullmatch(text):
        for first, last in _RANGE.findall(text):
            low, high = int(first), int(last or first)
            if {low, high} <= grounds.shown:
                found += [number for number in grounds.numbers if low <= number <= high]
    return found


def _tags(value: Any) -> tuple[GemTag, ...]:
    found = []
    for text in _texts(value, most_words=3):
        word = text.casefold()
        found += [tag for name in (word, word.removesuffix("s")) if (tag := _TAG_WORDS.get(name))]
    return tuple(dict.fromkeys(found))


def _share(value: Any) -> float | None:
    """A number from 0 to 1, out of one on that scale, a percentage, a grade out of ten or a word; None where none."""
    if isinstance(value, str):
        value = _share_in(value.strip().casefold())
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _ENDLESS:
        return None
    share = float(value)
    if share > 1:
        share /= 10 if share <= 10 else 100
    return round(min(1.0, share), 3)


def _share_in(text: str) -> float | None:
    if text in _SHARE_WORDS:
        return _SHARE_WORDS[text]
    match = _NUMBER.match(text)
    if match is None:
        return None
    scale = 100.0 if match["percent"] else float(match["most"] or 1)
    return float(match["number"]) / scale if scale else None


def _texts(value: Any, *, most_words: int) -> tuple[str, ...]:
    """Short texts out of a list, or out of a text with commas; at most five."""
    listed = isinstance(value, str) and most_words <= _LONGEST_WITHOUT_COMMA
    entries = re.split(r"[,;|]", value) if listed else value
    entries = entries if isinstance(entries, list) else [entries]
    texts = [_line(entry) for entry in entries if isinstance(entry, str)]
    return tuple(dict.fromkeys(text for text in texts if text and len(text.split()) <= most_words))[:_MOST_TEXTS]


def _line(text: str) -> str:
    """On one line, without what cannot be seen or stored."""
    return " ".join(_UNSEEN.sub(" ", text).split())


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((item[key] for key in keys if item.get(key) not in (None, "", [])), None)


def _excerpt(item: Mapping[str, Any]) -> str:
    content = _line(str(item.get("content", "")))
    return repr(content if len(content) <= 60 else content[:60] + "…")
