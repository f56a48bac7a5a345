"""Capturing what logs hold: whole logs at once, and turns that one refused turn must not hold up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from neuralstream.errors import InputError

if TYPE_CHECKING:
    from neuralstream.stream import NeuralStream
    from neuralstream.types import Turn

__all__ = ["Captures", "Imported", "Kept", "import_turns", "keep"]

_AT_ONCE = 64
"""Turns captured between two steps of the progress."""


class Captures(Protocol):
    """What keeps turns: `NeuralStream`, or the client of one in another process."""

    def capture(self, turn: Turn) -> bool:
        """Keep a turn; True where it is new."""
        ...

    def capture_all(self, turns: Iterable[Turn]) -> int:
        """Keep many turns, in order; returns how many were new."""
        ...


class Kept(NamedTuple):
    """How many turns were new, and why others were refused, by turn id."""

    new: int
    refused: dict[str, str]


class Imported(NamedTuple):
    """What became of a log: turns new to memory, turns it knew or had no use for, sessions, and what was refused."""

    new: int
    known: int
    sessions: int
    refused: dict[str, str]


def keep(memory: Captures, turns: Sequence[Turn]) -> Kept:
    """Capture turns in order; one that is refused, such as a turn another session has, holds up no other.

    Raises:
        MissingPartError: the buffer cannot be reached.
        StoreError: the data folder is full.
    """
    try:
        return Kept(memory.capture_all(turns), {})
    except InputError:
        # Those before the refused one are in, and captured again do nothing.
        new, refused = 0, {}
        for turn in turns:
            try:
                new += memory.capture(turn)
            except InputError as error:
                refused[turn.turn_id] = str(error)
        return Kept(new, refused)


def import_turns(
    memory: NeuralStream, turns: Iterable[Turn], progress: Callable[[int], object] = lambda _: None
) -> Imported:
    """Capture a log's turns, end its sessions, and wait until all is indexed and distilled.

    Args:
        memory: what captures.
        turns: of any users and sessions.
        progress: told how many turns are done.
    """
    new = done = 0
    refused: dict[str, str] = {}
    sessions: set[tuple[str, str]] = set()
    ahead = iter(turns)
    while some := list(islice(ahead, _AT_ONCE)):
        kept = keep(memory, some)
        new += kept.new
        refused |= kept.refused
        sessions |= {(turn.user_id, turn.session_id) for turn in some if turn.turn_id not in kept.refused}
        done += len(some)
        progress(done)
    for user_id, session_id in sorted(sessions):
        memory.end_session(session_id, user_id=user_id)
    memory.flush()
    return Imported(new, done - new - len(refused), len(sessions), refused)
