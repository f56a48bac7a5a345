"""The signal "speaker": whether a question names who is speaking."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from neuralstream.analysis import is_stop_word, words

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["speaks"]

_ROLES = {"user": frozenset({"i"}), "assistant": frozenset({"you", "assistant"})}
"""What a user calls the two sides of a talk with an assistant. Not "me" and "my", which are also in "what did you tell
me", nor "user", which in a developer's log is a table."""


def speaks(speakers: Iterable[str], query_words: frozenset[str]) -> float:
    """How far a question names one of those who speak in a turn.

    Args:
        speakers: each part's name, or its role where it has none (`Part.label`).
        query_words: the question's words, as `analysis.words` gives them: lower case, "Ada's" as "ada" and "s".

    Returns:
        0 to 1: the share of the best-named speaker's name, so that of two Annas the one whose family name is asked for
        comes first. Parts that are everyday words ("Will") do not count. A user is "I", an assistant "you": a
        question with both, and an exchange in which both speak, prefer neither.
    """
    return max((_share(speaker, query_words) for speaker in speakers), default=0.0)


def _share(speaker: str, query_words: frozenset[str]) -> float:
    if role := _ROLES.get(speaker):
        return float(not role.isdisjoint(query_words))
    parts = _parts(speaker)
    return len(parts & query_words) / len(parts) if parts else 0.0


@lru_cache(maxsize=1024)
def _parts(speaker: str) -> frozenset[str]:
    return frozenset(word for word in words(speaker) if len(word) > 1 and not is_stop_word(word))
