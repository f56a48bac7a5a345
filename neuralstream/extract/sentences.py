"""Text taken apart: code blocks, and the sentences of what is left."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["CodeBlock", "Prose", "split_text"]

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_TABLE_RULE = re.compile(r"[\s|:-]+")
_BULLET = re.compile(r"(?:[-*•–]|\d{1,2}[.)])\s+|#{1,6}\s+|>\s*")
# Possessive, and never starting inside a run of marks: otherwise "!!!!…" takes quadratic time.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]*+(?=\s)|[。！？]+[」』”]*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|e\.g|i\.e|etc|vs|approx|no|nr|dr|mr|mrs|ms|prof|st|ca|z\.B|d\.h|bzw|usw|p\.ej|p\.m|a\.m)\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\s*\d{1,2}\.$")


class CodeBlock(NamedTuple):
    """A fenced block: its language, empty where the fence names none, and what is inside."""

    language: str
    text: str


class Prose(NamedTuple):
    """A text's sentences in order, and its code blocks in order."""

    sentences: tuple[str, ...]
    code: tuple[CodeBlock, ...]


def split_text(text: str) -> Prose:
    """Take a message apart.

    A line break ends a sentence, since people write lists; a bullet or a heading mark is dropped; a table's row becomes
    one sentence, its cells joined by commas.

    Args:
        text: a message as it was written, Markdown or plain, in any language; time grows linearly with its length.
    """
    code = tuple(
        CodeBlock(match[1].casefold(), match[2].strip("\n")) for match in _FENCE.finditer(text) if match[2].strip()
    )
    sentences: list[str] = []
    for line in _FENCE.sub("\n", text).splitlines():
        plain = line.strip()
        if plain.startswith("|"):
            plain = _table_row(plain)
        else:
            plain = plain[bullet.end() :] if (bullet := _BULLET.match(plain)) else plain
        sentences.extend(_sentences(plain))
    return Prose(tuple(sentences), code)


def _table_row(line: str) -> str:
    if _TABLE_RULE.fullmatch(line):
        return ""
    return ", ".join(cell.strip() for cell in line.strip("|").split("|") if cell.strip())


def _sentences(line: str) -> list[str]:
    found, start = [], 0
    for match in _END.finditer(line):
        piece = line[start : match.end()]
        if _ABBREVIATION.search(piece[-12:]) or _NUMBERED.match(piece):
            continue
        found.append(piece.strip())
        start = match.end()
    found.append(line[start:].strip())
    return [sentence for sentence in found if any(char.isalnum() for char in sentence)]
