"""What a statement says in particular: its numbers and what they measure, its names, what turns it round.

Two nearly equal sentences say different things where these differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from neuralstream.analysis import analyse, is_stop_word, words
from neuralstream.entities import find_entities

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Particulars", "particulars", "plain"]

# Words that turn a statement round. Two gems of which only one has such a word do not say the same.
_TURNING_WORDS = """
    not no never none neither nor without cannot t nicht kein keine keinen nie niemals ohne pas jamais sans sin
    nunca non mai senza nao sem niet geen nooit zonder bez nigdy inte aldrig utan on off enabled disabled enable
    disable true false before after more less above below over under up down in out open closed opened close start
    stop started stopped add remove added removed increase decrease increased decreased first last min max allow
    deny allowed denied accept reject accepted rejected always sometimes old new yes primary secondary left right
"""
_TURNING = frozenset(_TURNING_WORDS.split())

_NOT = re.compile(r"n['\u2019]t\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_CAPITAL = re.compile(r"[^\W\d_]\w*")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")

_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug"
    "|sept|sep|oct|nov|dec"
)
_MOMENT = re.compile(
    rf"""\b(?: \d{{4}}-\d\d-\d\d | \d{{1,2}}(?:st|nd|rd|th)?[ ](?:{_MONTHS})\b\.?(?:[ ]\d{{4}})?
        | (?:{_MONTHS})[ ](?:\d{{1,2}}(?:st|nd|rd|th)?(?:,[ ]\d{{4}})?|\d{{4}})
        | \d{{1,2}}:\d\d(?::\d\d)?(?:[ ]?[ap]m)?
        | (?:mon|tues|wednes|thurs|fri|satur|sun)days? )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_HOUR = re.compile(r"\b(?:\d{1,2}:\d\d(?:[ ]?[ap]m)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day)", re.IGNORECASE)
_CALLED = re.compile(r"(?P<start>(?:^|[.!?:;] ?))?(?P<name>[^\W\d_a-z]\w+(?: [^\W\d_a-z]\w+)*)")
_IDENTIFIER = re.compile(r"\b[A-Za-z]{1,6}[-_#]?\d+(?:[-.]\d+)*\b|#\d+\b|(?<=[a-z] )[A-HJ-Z]\b")
"""`BH-114`, `INC-2093`, `s1`, `#1841`: names that have digits in them, not amounts; and the B of "rig B"."""

_NEWS_WORDS = "now jetzt nu maintenant désormais ahora ora adesso agora teraz"
_NEWS = frozenset(_NEWS_WORDS.split())
"""They stand between a thing and its amount, and belong to neither."""


@dataclass(frozen=True, slots=True)
class Particulars:
    """What a statement says in particular.

    Attributes:
        numbers: every number, those of dates and identifiers too.
        words: all words and entities.
        names: capitalised words, but for those without content, and entities; none with digits.
        turning: negations and words for opposite states.
        topic: stems of its words of content, without numbers, dates and turning words.
        identifiers: names that have digits in them, casefolded.
        amounts: numbers that are no part of a date, a time or an identifier.
        slots: amounts by what they are of: the stems before and after them ("port", "mb").
        hours: times of day and weekdays, casefolded.
        called: runs of capitalised words, casefolded; a lone one that begins a sentence is no name.
    """

    numbers: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    turning: frozenset[str]
    topic: frozenset[str]
    identifiers: frozenset[str]
    amounts: frozenset[str]
    slots: Mapping[tuple[str, str], frozenset[str]]
    hours: frozenset[str]
    called: frozenset[str]

    def agrees_with(self, other: Particulars) -> bool:
        """Whether both have the same numbers and turning words, and one has all names of the other."""
        named = self.names <= other.words or other.names <= self.words
        return (self.numbers, self.turning) == (other.numbers, other.turning) and named


@lru_cache(maxsize=4096)
def particulars(text: str) -> Particulars:
    """What a text says in particular."""
    capitals = {word.casefold() for word in _CAPITAL.findall(text) if word[0].isupper()}
    # Those with digits in them are numbers or identifiers.
    entities = frozenset(found for found in find_entities(text) if not any(char.isdigit() for char in found))
    said = frozenset(words(text))
    timeless = _MOMENT.sub(" ", text)
    identifiers = frozenset(found.casefold() for found in _IDENTIFIER.findall(timeless))
    stated = _NOT.sub(" not", _IDENTIFIER.sub(" ", timeless))
    return Particulars(
        numbers=frozenset(_NUMBER.findall(text)),
        words=said | {word.casefold() for word in _CAPITAL.findall(text)} | entities,
        names=frozenset(word for word in capitals if word.isalpha() and not is_stop_word(word)) | entities,
        turning=said & _TURNING,
        topic=frozenset(stem for stem in _stems(stated) if not stem[0].isdigit()),
        identifiers=identifiers,
        amounts=frozenset(_NUMBER.findall(stated)),
        slots=_slots(stated),
        hours=frozenset(found.casefold() for found in _HOUR.findall(text)),
        called=_called(stated),
    )


def plain(text: str) -> str:
    """A text without what makes no difference: case, spacing, the final stop."""
    return " ".join(text.casefold().split()).rstrip(".!… ")


def _called(text: str) -> frozenset[str]:
    found = (match for match in _CALLED.finditer(text) if match["name"][0].isupper())
    return frozenset(match["name"].casefold() for match in found if match["start"] is None or " " in match["name"])


def _stems(text: str) -> list[str]:
    return [
        stem
        for word in words(text)
        if not is_stop_word(word) and word not in _TURNING | _NEWS
        for stem in analyse(word)
    ]


def _slots(text: str) -> dict[tuple[str, str], frozenset[str]]:
    tokens = _TOKEN.findall(text)
    found: dict[tuple[str, str], set[str]] = {}
    for place, token in enumerate(tokens):
        if token[0].isdigit():
            before = next((stem for word in reversed(tokens[max(0, place - 3) : place]) for stem in _stems(word)), "")
            after = next((stem for word in tokens[place + 1 : place + 2] for stem in _stems(word)), "")
            found.setdefault((before, after), set()).add(token)
    return {slot: frozenset(values) for slot, values in found.items()}
