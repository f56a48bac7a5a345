"""What the commands print: results to stdout, everything else to stderr.

On a terminal tables are drawn with rich, which respects NO_COLOR. Elsewhere a table is lines of tab-separated cells
under a line of names, for `cut`, `awk` and spreadsheets; `--json` prints one JSON document either way.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

import typer

from neuralstream.cli.drawing import draw_table
from neuralstream.clock import short_time

__all__ = [
    "Progress",
    "answering",
    "note",
    "note_warnings",
    "print_json",
    "print_table",
    "print_text",
    "progress",
    "show_time",
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that could steer a terminal: remembered text is not trusted."""

_PLAIN_SECONDS = 5.0
"""Time between progress lines where there is no terminal."""

Progress = Callable[[str, int, int | None], None]

_to_a_program: ContextVar[bool] = ContextVar("_to_a_program", default=False)
"""Whether the command at work prints one JSON document, for a program to read."""


@contextmanager
def answering(*, as_json: bool) -> Iterator[None]:
    """A command is at work, which prints JSON or not."""
    before = _to_a_program.set(as_json)
    try:
        yield
    finally:
        _to_a_program.reset(before)


def print_json(document: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


def print_text(text: str) -> None:
    """Print text, without characters that could steer a terminal."""
    typer.echo(_CONTROL.sub("", text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; None is an empty cell, and a float has four decimals, on a terminal three."""
    terminal = sys.stdout.isatty()
    cells = [[_cell(value, decimals=3 if terminal else 4) for value in row] for row in rows]
    if terminal:
        numeric = [all(isinstance(row[place], int | float | None) for row in rows) for place in range(len(columns))]
        draw_table(columns, cells, numeric)
        return
    for line in ([*columns], *cells):
        typer.echo("\t".join(" ".join(cell.split()) for cell in line))


def note(message: str) -> None:
    """Tell the reader something that is not the result."""
    typer.echo(_CONTROL.sub("", message), err=True)


def note_warnings() -> None:
    """Tell the reader what the core warns of, as long as the command sets up no logging of its own."""
    core = logging.getLogger("neuralstream")
    if not any(isinstance(handler, _Notes) for handler in core.handlers):
        core.addHandler(_Notes(logging.WARNING))


class _Notes(logging.Handler):
    """Log records as notes; none where the program's own handlers show them."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            note(f"{record.levelname.lower()}: {self.format(record)}")


@contextmanager
def progress() -> Iterator[Progress]:
    """Show how far something long has come: a bar on a terminal, a line every few seconds elsewhere, nothing with JSON.

    Yields:
        A function that is told the stage, what is done, and how much there is to do (None where that is unknown).
    """
    if _to_a_program.get():
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        yield _plain_progress()
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(),
    )  # fmt: skip
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda stage, done, total: bar.update(task, description=stage, completed=done, total=total)


def show_time(moment: datetime | None) -> str:
    """A time for people, to the minute, UTC."""
    return "" if moment is None else short_time(moment)


def _plain_progress() -> Progress:
    shown_at = time.monotonic()

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _PLAIN_SECONDS:
            shown_at = time.monotonic()
            note(f"{stage}: {done}" + ("" if total is None else f" of {total}"))

    return report


def _cell(value: object, *, decimals: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{decimals}f}"
    if isinstance(value, datetime):
        return show_time(value)
    return _CONTROL.sub("", str(value))
