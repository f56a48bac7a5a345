"""Markdown tables for a comment on a pull request: short, and safe with other people's text in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuralstream.workbench.report import markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_code", "folded", "unfolding", "without_constants"]

OPEN = 5
"""Rows that are seen before a table is unfolded."""

Rows = list[list[Any]]


def as_code(rows: Sequence[Sequence[Any]], *names: str) -> Rows:
    """A table whose named columns are code: text there cannot end a row, call a person (@ada), be markup or a link."""
    columns, *lines = rows
    return [
        list(columns),
        *([_code(cell) if name in names else cell for name, cell in zip(columns, line, strict=True)] for line in lines),
    ]


def without_constants(rows: Sequence[Sequence[Any]], *names: str) -> Rows:
    """A table without those of the named columns that hold one value throughout."""
    columns, *lines = rows
    kept = [n for n, name in enumerate(columns) if name not in names or len({line[n] for line in lines}) > 1]
    return [[row[n] for n in kept] for row in rows]


def folded(rows: Sequence[Sequence[Any]]) -> str:
    """A table of which the first rows are seen, and the rest when it is unfolded."""
    columns, *lines = rows
    shown = markdown_table([columns, *lines[:OPEN]])
    if not lines[OPEN:]:
        return shown
    return f"{shown}\n\n{unfolding(f'{len(lines) - OPEN} more', markdown_table([columns, *lines[OPEN:]]))}"


def unfolding(summary: str, text: str) -> str:
    """Markdown that is seen when its summary is unfolded."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _code(cell: Any) -> Any:
    """Text in one line between backticks; numbers and what is missing as they are."""
    if not isinstance(cell, str) or not cell.strip():
        return cell
    text = " ".join(cell.split()).replace("`", "'").replace("|", "\\|")
    return f"`{text}`"
