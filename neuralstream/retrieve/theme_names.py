"""What themes are called: the words that more of their turns than of the others hold, as people wrote them.

What carries no content is left out by language: "die" is an article in a German turn and a word in an English one. The
language of a turn is the one most of whose stop words it holds (Grefenstette, "Comparing two language identification
schemes", 1995); where none or several win, it is English.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from neuralstream.analysis import analyse_whole_words, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["Names", "content_tokens"]

_COMMON = 0.03
"""Share of all turns from which a word is not distinctive: in a chat, such as "great" or "photo"."""

_FEW = 10
"""Turns in which a word is distinctive however few turns there are."""

_SURFACE = re.compile(r"[^\W_]+(?:[._-][^\W_]+)*")
_PARTS = re.compile(r"[._-]")
_DEFAULT = "english"


def content_tokens(text: str) -> list[str]:
    """The tokens of a text's words, repeated as often as they occur, without stop words of its language and English.

    What is stored of a turn holds pieces of words too, in languages other than English, and would name a theme by them.
    """
    stops = _stop_tokens(_language(text))
    return [token for token in analyse_whole_words(text) if token not in stops]


class Names:
    """What is distinctive within all turns that are looked at.

    Args:
        turns: the distinct tokens of each.
    """

    def __init__(self, turns: Sequence[AbstractSet[str]]) -> None:
        self._turns = len(turns)
        self._frequency = Counter(token for tokens in turns for token in tokens)
        self._common = max(_FEW, _COMMON * len(turns))

    def distinctive(self, tokens: Iterable[str]) -> list[str]:
        """Those of the tokens that are not said all the time."""
        return [token for token in tokens if self._frequency[token] <= self._common]

    def terms(self, tokens: Sequence[AbstractSet[str]], texts: Sequence[str], most: int) -> tuple[str, ...]:
        """Terms of some of the turns, best first, written as they mostly are there; no term is part of another.

        Args:
            tokens: the distinct tokens of each of these turns.
            texts: what each says.
            most: how many terms.
        """
        inside = Counter(token for some in tokens for token in some if len(token) > 1 and not token.isdecimal())
        score = {token: self._score(token, count, len(tokens)) for token, count in inside.items()}
        written = _surfaces(texts)
        chosen: list[str] = []
        for token in sorted(inside, key=lambda token: (-score[token], -len(token), token)):
            surface = written.get(token, token)
            if len(chosen) < most and not any(_overlap(surface, other) for other in chosen):
                chosen.append(surface)
        return tuple(chosen)

    def _score(self, token: str, count: int, size: int) -> float:
        """The token's share of these turns times how much more often than elsewhere they hold it.

        A class-based TF-IDF (Grootendorst, "BERTopic", 2022) over turns instead of words: one turn that repeats a word
        makes no theme of it.
        """
        return count / size * math.log(count * self._turns / (size * self._frequency[token]))


def _language(text: str) -> str:
    """The language whose stop words the text has most of."""
    votes: Counter[str] = Counter()
    languages = _languages()
    for word in words(text):
        votes.update(languages.get(word, ()))
    return max(sorted(votes), key=lambda language: (votes[language], language == _DEFAULT), default=_DEFAULT)


@lru_cache(maxsize=1)
def _languages() -> Mapping[str, tuple[str, ...]]:
    """Languages by stop word."""
    from stop_words import AVAILABLE_LANGUAGES

    found: dict[str, tuple[str, ...]] = {}
    for language in sorted(AVAILABLE_LANGUAGES):
        for word in _stop_words(language):
            found[word] = (*found.get(word, ()), language)
    return found


def _stop_words(language: str) -> frozenset[str]:
    """Single stop words, lower-case and without accents, as `words` reads a text."""
    from stop_words import get_stop_words

    read = (list(words(entry)) for entry in get_stop_words(language))
    return frozenset(entry[0] for entry in read if len(entry) == 1)


@lru_cache(maxsize=64)
def _stop_tokens(language: str) -> frozenset[str]:
    """The tokens that stop words of a language, and of English, are analysed to."""
    return frozenset(
        token for word in _stop_words(language) | _stop_words(_DEFAULT) for token in analyse_whole_words(word)
    )


def _surfaces(texts: Iterable[str]) -> Mapping[str, str]:
    """How each token is written most often, compounds whole and by their parts."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for surface in _SURFACE.findall(text):
            for part in {surface, *_PARTS.split(surface)}:
                token = _token(part)
                if token:
                    counts[token][part] += 1
    return {token: min(seen, key=lambda part: (-seen[part], part)) for token, seen in counts.items()}


@lru_cache(maxsize=65_536)
def _token(surface: str) -> str | None:
    """The token that stands for a word or compound as a whole."""
    tokens = analyse_whole_words(surface)
    return tokens[-1] if tokens else None


def _overlap(one: str, other: str) -> bool:
    return one.casefold() in other.casefold() or other.casefold() in one.casefold()
