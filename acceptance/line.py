"""A line of what is promised, and what a run showed of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from acceptance.site import Site

__all__ = ["Check", "Line", "Shown", "Verdict", "checked", "not_shown"]


class Verdict(StrEnum):
    """What a run says of a line."""

    HOLDS = "holds"
    SHORT = "falls short"
    NOT_SHOWN = "not shown here"  # needs a server or a file that this machine does not have


class Shown(NamedTuple):
    """A verdict, and the figure it rests on."""

    verdict: Verdict
    figure: str


class Check(NamedTuple):
    """One figure of a line, and whether it is what was promised."""

    figure: str
    good: bool


@dataclass(frozen=True, slots=True)
class Line:
    """What is promised, the command that a reader would run to see it, and how it is shown here.

    Attributes:
        name: Short and unique; names the line on the command line.
        says: The promise, one sentence.
        command: What shows it.
        show: Runs that, and judges.
        alone: It measures time, so nothing may run beside it.
    """

    name: str
    says: str
    command: str
    show: Callable[[Site], Shown]
    alone: bool = False


def checked(*checks: Check) -> Shown:
    """Holds if every check does; those that do not are marked in the figure."""
    figure = "; ".join(check.figure if check.good else f"**{check.figure}**" for check in checks)
    return Shown(Verdict.HOLDS if all(check.good for check in checks) else Verdict.SHORT, figure)


def not_shown(why: str) -> Shown:
    """What cannot be shown on this machine, and what it would need."""
    return Shown(Verdict.NOT_SHOWN, why)
