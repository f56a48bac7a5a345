"""A turn as people said it: without injected memory, what a host wrote around the words, and broken characters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from neuralstream.fence import strip_fences
from neuralstream.hosttext import is_noise, strip_host_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.types import Part, Turn

__all__ = ["clean_turn"]

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""NUL, which engines refuse, and lone surrogates, which UTF-8 cannot write."""


def clean_turn(turn: Turn, *, max_chars: int = 200_000) -> Turn | None:
    """The turn without what nobody said. Cleaning a clean turn changes nothing.

    Args:
        turn: as it was handed over.
        max_chars: longest text of all parts together. Beyond it the longest parts are cut, and say so at their end.

    Returns:
        The cleaned turn, or None when nothing but tool calls is left.
    """
    parts = turn.parts
    # What is taken out can bring together what has to go too, so this ends only when nothing changes any more.
    while (cleaned := _cut([part for part in map(_clean, parts) if not _is_empty(part)], max_chars)) != parts:
        parts = cleaned
    if all(part.role == "tool" for part in parts):
        return None
    return turn if parts == turn.parts else turn.with_parts(parts)


def _clean(part: Part) -> Part:
    text = strip_fences(_UNSTORABLE.sub("", part.text))
    # A tool's output may well begin with a timestamp of its own.
    text = text.strip() if part.role == "tool" else strip_host_text(text)
    return part if text == part.text else replace(part, text=text)


def _is_empty(part: Part) -> bool:
    return not part.text or (part.role != "tool" and is_noise(part.text, part.role))


def _cut(parts: Sequence[Part], most: int) -> tuple[Part, ...]:
    """Parts of at most `most` characters together; short ones stay whole."""
    longest, left = most, most
    for waiting, length in zip(range(len(parts), 0, -1), sorted(len(part.text) for part in parts), strict=True):
        if length > left // waiting:
            longest = left // waiting
            break
        left -= length
    return tuple(
        part if len(part.text) <= longest else replace(part, text=_cut_text(part.text, longest)) for part in parts
    )


def _cut_text(text: str, longest: int) -> str:
    mark = f"\n[cut: {len(text)} characters]"
    kept = text[: max(0, longest - len(mark))].rstrip()
    return kept + mark if kept else text[:longest].rstrip()
