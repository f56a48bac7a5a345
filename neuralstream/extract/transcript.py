"""Turns as a model reads them: one flat, dated transcript with turn numbers, inside a fence.

    [12] Wed 2026-03-04 14:05 user: Move redis to 6381,
      and leave 6379 alone.
    [12] assistant: Done.

A transcript and not chat roles: a model that sees roles goes on with the conversation. The weekday stands there because
people say "next Tuesday". A line that begins with a number in brackets is ours: text that goes over several lines is
indented, so nothing that was said can pass for another turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from neuralstream.clock import short_time
from neuralstream.extract.base import Batch
from neuralstream.fence import fenced, strip_fences
from neuralstream.types import Part, Turn

__all__ = ["Numbered", "fence", "number_turns", "render_transcript", "render_turn"]

_NOTHING = "(nothing)"


class Numbered(NamedTuple):
    """Turns by number, oldest first."""

    history: dict[int, Turn]
    turns: dict[int, Turn]


def number_turns(batch: Batch) -> Numbered:
    """A batch's turns by their index in the session, or by their place where these do not tell them apart."""
    turns = (*batch.history, *batch.turns)
    places = [turn.index for turn in turns if turn.index is not None]
    if len(set(places)) < len(turns):
        places = list(range(len(turns)))
    numbered = list(zip(places, turns, strict=True))
    return Numbered(dict(numbered[: len(batch.history)]), dict(numbered[len(batch.history) :]))


def render_transcript(turns: Mapping[int, Turn]) -> str:
    """Turns by number, oldest first, fenced as quoted text."""
    return fence([render_turn(number, turn) for number, turn in turns.items()])


def fence(lines: Sequence[str]) -> str:
    """Lines as quoted text, which says so where there are none."""
    return fenced(lines or [_NOTHING])


def render_turn(number: int, turn: Turn) -> str:
    """One turn; the first of its parts has the date, unless the log had none."""
    date = "" if turn.time_estimated else f" {turn.at():%a} {short_time(turn.at())}"
    lines = []
    for part in turn.parts:
        lines.append(f"[{number}]{date} {' '.join(part.label.split())}: {_said(part)}")
        date = ""
    return "\n".join(lines)


def _said(part: Part) -> str:
    # What memory put into a context before is no part of the conversation: it would be distilled once more.
    return "\n  ".join(line for line in strip_fences(part.text).splitlines() if line.strip())
