"""The baseline everybody has: the query's text, found word for word inside a turn or gem.

It reads every point that the filter lets through, so its cost grows with the corpus (about 40 ms per 1,000 turns); no
other mode does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fold", "score"]


def score(needle: str, data: Mapping[str, Any]) -> float:
    """The share of a text that the query makes up, 0 where it is not in it.

    Args:
        needle: the query, folded.
        data: a turn or gem as `to_dict` gives it.
    """
    text = fold(data["content"] if "content" in data else "\n".join(part["text"] for part in data["parts"]))
    return len(needle) / len(text) if needle and needle in text else 0.0


def fold(text: str) -> str:
    """A text with case folded and every run of white space as one blank."""
    return " ".join(text.casefold().split())
