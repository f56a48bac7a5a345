"""What a model was shown, and what does not rest on it: an example, injected memory, an invented name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from neuralstream.analysis import is_stop_word, words
from neuralstream.english import reads_english
from neuralstream.entities import find_entities
from neuralstream.fence import strip_fences
from neuralstream.types import Turn

__all__ = ["Grounds"]

_RESTATED = 0.9
"""Share of a gem's words in a line of injected memory from which it says no more than that line."""

_ALIKE = 0.8
"""Similarity (difflib's ratio) of a name to a word that was said, from which it is that word, spelt otherwise."""

_ENTRY = re.compile(r"^-?\s*\d{4}-\d\d-\d\d\s*\[[^\]]*\]\s*(?:[\w ,]{1,40}:)?")
"""How a line of a context block begins."""

_CAPITAL = re.compile(r"\b(?=[^\W\d_a-zà-ÿ])[^\W\d_][a-zà-öø-ÿ]+(?![\w-])")
"""A word with one capital letter, its first; no acronym, and no part of an identifier."""

_ADJECTIVE = re.compile(r"(?:ish|ese|[ei]an|french|dutch|german|greek|czech|swiss|day|days)$")
"""Languages, people of a place, and days, which are written as names are."""

_FORM_WORDS = """
    user assistant tool january february march april may june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday
"""
_ALWAYS_KNOWN = frozenset(_FORM_WORDS.split())
"""What a transcript's form says: who speaks, and when."""


@dataclass(frozen=True)
class Grounds:
    """What an answer has to rest on.

    Attributes:
        batch: the turns to distil, by number; only they can be cited.
        history: the earlier turns that were shown, by number.
        examples: statements of the prompt's own examples.
    """

    batch: Mapping[int, Turn]
    history: Mapping[int, Turn]
    examples: tuple[str, ...] = ()

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the turns that can be cited."""
        return tuple(self.batch)

    @cached_property
    def shown(self) -> frozenset[int]:
        """Numbers of every turn that was shown."""
        return frozenset((*self.batch, *self.history))

    @cached_property
    def ids(self) -> dict[str, int]:
        """Numbers of the batch's turns by their ids, which some models have seen elsewhere and cite."""
        return {turn.turn_id: number for number, turn in self.batch.items()}

    def objection(self, content: str, turns: Iterable[int]) -> str:
        """Why a statement cannot be a gem; empty where it can."""
        said = tuple(words(content))
        if said in self._examples:
            return "it is an example of the instructions, not of the conversation"
        if self._restates(said, turns):
            return "it repeats memory that was put into the conversation"
        if reads_english(said) is False:
            return ""
        for name in _names(content):
            # A known word in a name makes it somebody or something known: "Café Lantern", a first name with a surname.
            if not any(self._knows(word) or _ADJECTIVE.search(word) for word in name.split()):
                return f"nobody said {name!r}"
        return ""

    def doubts(self, content: str) -> bool:
        """Whether it has a capital word nobody said: part of a name, or just the model's own word."""
        capital = [word for word in _CAPITAL.findall(content) if not is_stop_word(word.casefold())]
        return not all(self._knows(word) for word in capital)

    @cached_property
    def _examples(self) -> frozenset[tuple[str, ...]]:
        return frozenset(tuple(words(example)) for example in self.examples)

    @cached_property
    def _injected(self) -> list[frozenset[str]]:
        """Words of each line that memory had put into a turn."""
        lines: list[frozenset[str]] = []
        for turn in (*self.history.values(), *self.batch.values()):
            for part in turn.parts:
                kept = strip_fences(part.text)
                if kept != part.text:
                    outside = set(kept.splitlines())
                    inside = (line for line in part.text.splitlines() if line not in outside)
                    lines += [frozenset(words(_ENTRY.sub("", line))) for line in inside]
        return lines

    def _restates(self, said: tuple[str, ...], turns: Iterable[int]) -> bool:
        content = {word for word in said if not is_stop_word(word)}
        if not content or not any(len(content & line) >= _RESTATED * len(content) for line in self._injected):
            return False
        cited = (strip_fences(part.text) for number in turns for part in self.batch[number].parts)
        told = {word for text in cited for word in words(text)}
        return len(content & told) < _RESTATED * len(content)

    def _knows(self, name: str) -> bool:
        plain = " ".join(words(name))
        if plain in self._said or any(_related(plain, word) for word in self._said):
            return True
        return bool(get_close_matches(plain, self._said, n=1, cutoff=_ALIKE))

    @cached_property
    def _said(self) -> frozenset[str]:
        turns = (*self.history.values(), *self.batch.values())
        texts = [strip_fences(part.text) for turn in turns for part in turn.parts]
        texts += [part.label for turn in turns for part in turn.parts]
        texts += [turn.user_id for turn in turns]
        return frozenset((*_ALWAYS_KNOWN, *(word for text in texts for word in words(text))))


def _names(content: str) -> list[str]:
    """Names in a text: whole where they have several words, and only where a capital letter can mean nothing else."""
    capital = {word.casefold() for word in _CAPITAL.findall(content)}
    named = [entity for entity in find_entities(content) if capital.issuperset(entity.split())]
    inside = {word for entity in named if " " in entity for word in entity.split()}
    return [entity for entity in named if entity not in inside]


def _related(name: str, word: str) -> bool:
    """Whether one is the other with an ending: "Postgres" and "PostgreSQL", "Canada" and "Canadian"."""
    shorter, longer = sorted((name, word), key=len)
    # The last letter may change in a long word; in a short one it makes another name, such as Marta and Martin.
    stem = shorter[:-1] if len(shorter) >= 6 else shorter
    return len(shorter) >= 4 and longer.startswith(stem)
