"""What every room does to a text: make it encodable, cut it to a length."""

from __future__ import annotations

__all__ = ["encodable", "excerpt", "shortened"]


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot write, as question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def excerpt(text: str, limit: int) -> str:
    """The start of a text on one line, at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def shortened(text: str, length: int) -> str:
    """The start of a text as it stands, at most `length` characters and "…", cut between words where that is near."""
    if len(text) <= length:
        return text
    head = text[:length]
    return (head[: head.rfind(" ")] if " " in head[length // 2 :] else head).rstrip() + "…"
