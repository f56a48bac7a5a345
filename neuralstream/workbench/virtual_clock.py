"""Time as a log tells it: a clock that a replay moves, in minutes and in turns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

__all__ = ["Moment", "VirtualClock"]


class Moment(NamedTuple):
    """A point of a replay: its time, and how many turns, of any user, had been said by then."""

    at: datetime
    turns: int


@dataclass(slots=True)
class VirtualClock:
    """Shows the time of what is replayed; `NeuralStream(clock=...)` takes it.

    Attributes:
        now: the time shown, aware UTC.
        turns: turns said so far.
    """

    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    turns: int = 0

    def __call__(self) -> datetime:
        """The time shown."""
        return self.now

    @property
    def moment(self) -> Moment:
        """Both scales at once."""
        return Moment(self.now, self.turns)
