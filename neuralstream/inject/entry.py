"""One hit as one line of a context block.

    - 2026-05-08 [s1#3] user: Move redis to 6381 | assistant: Done, 6379 stays for staging.
    - 2026-05-09 [gem 5ab1c0de] decision: Redis listens on port 6381.

`s1#3` is the turn with index 3 of session s1; a session or gem whose id is a UUID goes by its first 8 digits. Whatever
a stored text holds, it stays on its line and inside the fence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.analysis import analyse
from neuralstream.fence import escape_fences
from neuralstream.tokens import count_tokens
from neuralstream.types import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neuralstream.types import Hit

__all__ = ["entry_date", "render_entry"]

_PIECE = 240
"""Characters of a passage's smallest step; a longer sentence is cut between words."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_INVISIBLE = re.compile("[\u115f\u1160\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Variation selectors and fillers: nothing to see, and Unicode counts them as printable."""


class _Piece(NamedTuple):
    """A sentence of a part, or a stretch of one."""

    part: int
    label: str
    text: str


def render_entry(hit: Hit, *, query: str = "", max_tokens: int | None = None) -> str:
    """The line that stands for a hit in a context block, without a line break.

    Args:
        hit: a turn or a gem.
        query: what is asked; a text that is too long is cut to the passage with most of its words.
        max_tokens: longest line, in tokens; None leaves it whole.

    Returns:
        Date, reference and text; "…" where something was cut. At least the date and the reference, whatever the limit.
    """
    whole = _line(hit, " | ".join(_said(label, text) for label, text in _parts(hit)))
    if max_tokens is None or count_tokens(whole) <= max_tokens:
        return whole
    return _passage(hit, set(analyse(query)), max_tokens)


def entry_date(hit: Hit) -> str:
    """The day of a turn, or of a gem's first source turn, as YYYY-MM-DD."""
    return hit.item.at().date().isoformat() if isinstance(hit.item, Turn) else hit.item.source.date


def _line(hit: Hit, text: str) -> str:
    item = hit.item
    if isinstance(item, Turn):
        reference = f"{_short(item.session_id)}#{item.index or 0}"
    else:
        reference = f"gem {_short(item.gem_id)}"
    return escape_fences(_plain(f"- {entry_date(hit)} [{reference}] {text}"))


def _parts(hit: Hit) -> list[tuple[str, str]]:
    """Label and text of what is said; a gem's label is what it is, unless it is a plain fact."""
    if isinstance(hit.item, Turn):
        return [(part.label, part.text) for part in hit.item.parts]
    return [(", ".join(tag for tag in hit.item.tags if tag != "fact"), hit.item.content)]


def _said(label: str, text: str) -> str:
    return f"{label}: {text}" if label else text


def _passage(hit: Hit, terms: set[str], max_tokens: int) -> str:
    """The piece with most of the terms, and as many pieces after and before it, by turns, as fit."""
    pieces = [
        _Piece(number, label, piece) for number, (label, text) in enumerate(_parts(hit)) for piece in _pieces(text)
    ]
    best = max(range(len(pieces)), key=lambda at: (len(terms.intersection(analyse(pieces[at].text))), -at), default=0)
    first, last = best, min(best + 1, len(pieces))
    line = _excerpt(hit, pieces, first, last)
    steps = [(0, 1), (-1, 0)]
    while steps:
        before, after = steps.pop(0)
        if first + before < 0 or last + after > len(pieces):
            continue
        wider = _excerpt(hit, pieces, first + before, last + after)
        if count_tokens(wider) <= max_tokens:
            first, last, line = first + before, last + after, wider
            steps.append((before, after))
    return line if count_tokens(line) <= max_tokens else _clipped(line, len(_line(hit, "")), max_tokens)


def _excerpt(hit: Hit, pieces: Sequence[_Piece], first: int, last: int) -> str:
    text = ""
    for at in range(first, last):
        piece = pieces[at]
        if at == first or piece.part != pieces[at - 1].part:
            text += " | " if text else ""
            text += _said(piece.label, "… " if at == first > 0 else "")
        text += piece.text + " "
    return _line(hit, text + ("…" if last < len(pieces) else ""))


def _pieces(text: str) -> Iterator[str]:
    """Sentences, and stretches of those that are too long."""
    for sentence in _SENTENCE_END.split(text):
        rest = sentence.strip()
        while len(rest) > _PIECE:
            cut = rest.rfind(" ", _PIECE // 2, _PIECE)
            cut = _PIECE if cut < 0 else cut
            yield rest[:cut]
            rest = rest[cut:].lstrip()
        if rest:
            yield rest


def _clipped(line: str, shortest: int, max_tokens: int) -> str:
    """The longest beginning that fits with "…" behind it, at least `shortest` characters."""
    low, high = shortest, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(line[:middle] + "…") <= max_tokens else (low, middle - 1)
    return line[:low].rstrip() + "…"


def _short(identifier: str) -> str:
    return identifier[:8] if _UUID.fullmatch(identifier) else identifier


def _plain(text: str) -> str:
    """One line of what can be seen: no control, zero-width or surrogate characters, one space between words."""
    if not text.isprintable():
        text = "".join(char for char in text if char.isprintable() or char.isspace())
    return " ".join(_INVISIBLE.sub("", text).split())
