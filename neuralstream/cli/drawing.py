"""Tables on a terminal, never wider than it is.

Headings break between words, numbers never do, and a long text folds. Where all columns cannot stand beside each other,
the rest follows in further tables, after the columns that tell the rows apart.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["draw_table"]

_GAP = 2
_SHORT = 20
"""A text of at most so many characters is not folded; a longer one gets at least this room."""

_KEY = 3
"""Columns that may lead every part of a table."""

_PIECES = re.compile(r"[^\s@._]+[\s.]?|[@._][^\s@._]*\s?")
"""Where a heading may break: "evidence", "@1000"; "context", "_threshold"."""


class _Column(NamedTuple):
    heading: str
    cells: list[str]
    is_number: bool
    room: int


def draw_table(columns: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    """Print a table.

    Args:
        columns: headings.
        cells: the rows' texts.
        numeric: by column, whether it holds numbers, which are aligned on the right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    made = [
        _column(name, [row[place] for row in cells], is_number)
        for place, (name, is_number) in enumerate(zip(columns, numeric, strict=True))
    ]
    for shown in _beside(made, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
        for column in shown:
            table.add_column(
                column.heading,
                justify="right" if column.is_number else "left",
                overflow="fold",
                min_width=min(column.room, console.width),
                vertical="top",
            )
        for row in zip(*(column.cells for column in shown), strict=True):
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()


def _column(name: str, cells: list[str], is_number: bool) -> _Column:
    longest = max(map(len, cells), default=0)
    room = longest if is_number else min(longest, _SHORT)
    lines: list[str] = []
    for piece in _PIECES.findall(name):
        if lines and len((lines[-1] + piece).rstrip()) <= max(room, 8):
            lines[-1] += piece
        else:
            lines.append(piece)
    lines = [line.rstrip() for line in lines]
    return _Column("\n".join(lines), cells, is_number, max(room, *map(len, lines), 1))


def _beside(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Columns that have room beside each other; those that tell the rows apart lead them all."""
    key = columns[: _key_length(columns)]
    tables = [list(key)]
    for column in columns[len(key) :]:
        there = tables[-1]
        if len(there) > len(key) and sum(one.room + _GAP for one in there) + column.room > width:
            tables.append(list(key))
        tables[-1].append(column)
    return tables


def _key_length(columns: Sequence[_Column]) -> int:
    """How many of the first columns tell every row from the others; 1 where none do."""
    for count in range(1, min(len(columns), _KEY) + 1):
        rows = [*zip(*(column.cells for column in columns[:count]), strict=True)]
        if len(set(rows)) == len(rows):
            return count
    return 1
