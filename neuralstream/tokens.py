"""The one way tokens are counted."""

from __future__ import annotations

__all__ = ["CHARS_PER_TOKEN", "count_tokens"]

CHARS_PER_TOKEN = 4
"""The rule of thumb of every provider's documentation; it needs no tokenizer and is the same for every model."""


def count_tokens(text: str) -> int:
    """Tokens in a text, estimated as characters / 4, rounded up.

    Text outside the Latin scripts is nearer one token a character: such characters count whole.
    """
    wide = sum(1 for char in text if char >= "\u2e80") if not text.isascii() else 0
    return -(-(len(text) - wide) // CHARS_PER_TOKEN) + wide
