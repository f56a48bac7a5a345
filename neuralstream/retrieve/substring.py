"""The baseline everybody has: the query's text, found word for word inside a turn or gem.

The engine narrows down to texts that hold all the query's whole words; a query of one or two words, which may be parts
of longer ones, reads every point that the filter lets through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuralstream.analysis import analyse_whole_words

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fold", "score", "whole_terms"]

_MARKS = " .,;:!?\"'()[]…"


def score(needle: str, data: Mapping[str, Any]) -> float:
    """The share of a text that the query makes up, 0 where it is not in it.

    Args:
        needle: the query, folded.
        data: a turn or gem as `to_dict` gives it.
    """
    text = fold(data["content"] if "content" in data else "\n".join(part["text"] for part in data["parts"]))
    return len(needle) / len(text) if needle and needle in text else 0.0


def fold(text: str) -> str:
    """A text with case folded, every run of white space as one blank, and no marks around it."""
    return " ".join(text.casefold().split()).strip(_MARKS)


def whole_terms(needle: str) -> tuple[str, ...]:
    """Tokens that every text holds in which the needle occurs: those of its words but the first and the last."""
    return tuple(dict.fromkeys(analyse_whole_words(" ".join(needle.split()[1:-1]))))
