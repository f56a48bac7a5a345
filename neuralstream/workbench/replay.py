"""Replaying a log into a memory, as a host would have reported it.

A log has no live usage. Where `context_window` is set, a host is simulated: its context grows by what is said (or to
what the log says the model held), it reports that after every turn, and at `compact_at` percent it compacts to
`compact_to`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.tokens import count_tokens
from neuralstream.types import Turn, Usage

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.stream import NeuralStream

__all__ = ["Replayed", "replay"]

_AT_ONCE = 64
"""Turns captured between two steps of the progress, where no host is simulated."""


class Replayed(NamedTuple):
    """What became of a log's turns: those new to memory, those it knew or had no use for, and their sessions."""

    new: int
    known: int
    sessions: int


def replay(
    memory: NeuralStream,
    turns: Iterable[Turn],
    usage: Mapping[str, Usage],
    progress: Callable[[int], object] = lambda _: None,
) -> Replayed:
    """Capture turns in order, end every session, and wait until all is indexed and distilled.

    Args:
        memory: what captures; its settings say whether a host is simulated.
        turns: of any users and sessions.
        usage: by turn id, the context's use where the log tells; it may fill up while `turns` is read.
        progress: told how many turns are done.
    """
    new = done = 0
    sessions: dict[tuple[str, str], _Host] = {}
    ahead = iter(turns)
    at_once = 1 if memory.settings.context_window else _AT_ONCE
    while some := list(islice(ahead, at_once)):
        new += memory.capture_all(some)
        done += len(some)
        for turn in some:
            host = sessions.setdefault((turn.user_id, turn.session_id), _Host(memory.settings))
            host.after(memory, turn, usage.get(turn.turn_id))
        progress(done)
    for user_id, session_id in sorted(sessions):
        memory.end_session(session_id, user_id=user_id)
    memory.flush()
    return Replayed(new, done - new, len(sessions))


class _Host:
    """The context of one session's model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tokens = 0

    def after(self, memory: NeuralStream, turn: Turn, logged: Usage | None) -> None:
        """Take in a turn, report the context's use, and compact where it is nearly full."""
        window = self._settings.context_window
        if window is None:
            return
        known = logged.tokens if logged else None
        self._tokens = known if known is not None else self._tokens + count_tokens(turn.transcript)
        usage = Usage(tokens=self._tokens, context_window=window)
        memory.turn_end(turn.session_id, usage, user_id=turn.user_id, turn_id=turn.turn_id)
        if 100 * self._tokens >= self._settings.compact_at * window:
            memory.end_session(turn.session_id, reason="compaction", user_id=turn.user_id)
            self._tokens = round(window * self._settings.compact_to / 100)
