"""Following session logs as they grow: what is complete is captured, each turn once.

A log that changed is read as a whole, since a conversation is a path through a tree whose end may move; what was taken
from it before is known by its turn ids. So rotation, truncation, rewriting and torn lines are no special cases. These
are:

- The last exchange of a session waits until it is over: the next one begins, the log says so, or nothing was written
  for a while. What joins it later is captured as a turn of its own, under the id of its first message.
- An exchange that waits when its log is cut or removed is captured as it was seen.
- A large log is not read again before ten times as long has passed as its reading took.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.errors import LogFormatError
from neuralstream.importing import keep
from neuralstream.logs.sources import Piece, growing_files, is_server, memory_lists
from neuralstream.serve.positions import Positions, Seen, Taken
from neuralstream.types import Turn, Usage

if TYPE_CHECKING:
    from neuralstream.logs import Log
    from neuralstream.stream import NeuralStream

__all__ = ["Polled", "Watcher"]

_SETTLED_SECONDS = 60.0
"""Silence after which a reply counts as the last one of its exchange, where the log does not tell."""

_REST = 10.0
"""Rest after a long reading, in times of its length."""

_LONG_READING_SECONDS = 1.0


@dataclass
class Polled:
    """What one look at all logs brought.

    Attributes:
        captured: new turns by session.
        logs: how many logs there are.
        problems: what could not be read or captured, for people.
    """

    captured: Counter[str] = field(default_factory=Counter)
    logs: int = 0
    problems: list[str] = field(default_factory=list)


class _Exchange(NamedTuple):
    """A turn, the id of each part's message, and the places of the parts that memory lacks."""

    turn: Turn
    keys: tuple[str, ...]
    lacking: list[int]

    def taken(self) -> list[Taken]:
        """What memory has once this is captured."""
        last = {self.keys[place]: place for place in self.lacking}
        return [Taken(self.turn.user_id, key, self.keys[: place + 1].count(key)) for key, place in last.items()]

    def missing(self) -> Turn | None:
        """The turn, or one of what joined it after it was captured; None where that is no more than a tool's result."""
        first = self.lacking[0]
        parts = tuple(self.turn.parts[place] for place in self.lacking)
        if all(part.role == "tool" for part in parts):
            return None
        if len(parts) == len(self.turn.parts):
            return self.turn
        before = self.keys[:first].count(self.keys[first])
        # The id that it would have if what came before were gone.
        key = f"{self.keys[first]}+{before}" if before else self.keys[first]
        return replace(self.turn, turn_id=key, parts=parts)


class Watcher:
    """Looks at logs whenever it is asked to.

    Args:
        memory: what captures.
        sources: files, folders, and addresses of Redis servers with mem-redis lists; they need not exist yet.
        positions: how far it has read.
        clock: seconds since 1970, as files' times are given.
    """

    def __init__(
        self,
        memory: NeuralStream,
        sources: Sequence[str],
        positions: Positions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._memory = memory
        self._sources = sources
        self._positions = positions
        self._clock = clock
        self._waiting: dict[str, list[_Exchange]] = {}
        self._lists_changed: dict[str, tuple[str, float]] = {}
        self._rest_until: dict[str, float] = {}

    def poll(self) -> Polled:
        """Read what changed and capture what is complete in it.

        Raises:
            MissingPartError: a server cannot be reached; what is not captured is read again next time.
            StoreError: the data folder is full.
        """
        polled = Polled()
        names = set()
        for piece in self._pieces():
            names.add(piece.name)
            polled.logs += 1
            if self._is_due(piece):
                self._read(piece, polled)
        for name in self._waiting.keys() - names:
            self._capture_lost(name, (), polled)
        return polled

    def _pieces(self) -> Iterator[Piece]:
        settings = self._memory.settings
        for source in self._sources:
            if is_server(source):
                for piece in memory_lists(source, settings.user_id):
                    yield self._dated(piece)
            else:
                path = Path(source).expanduser().absolute()
                yield from growing_files(path, user_id=settings.user_id, max_tool_chars=settings.max_tool_chars)

    def _dated(self, piece: Piece) -> Piece:
        """A list tells no time of change: it is when the change was seen."""
        stamp, at = self._lists_changed.get(piece.name, ("", 0.0))
        if stamp != piece.stamp:
            at = self._clock()
            self._lists_changed[piece.name] = (piece.stamp, at)
        return piece._replace(changed_at=at)

    def _is_due(self, piece: Piece) -> bool:
        return (
            self._positions.is_due(piece.stamp, self._clock())
            and self._rest_until.get(piece.name, 0.0) <= time.monotonic()
        )

    def _read(self, piece: Piece, polled: Polled) -> None:
        started = time.monotonic()
        try:
            log = piece.read()
            turns = list(log)
        except LogFormatError as error:
            polled.problems.append(str(error))
            self._positions.record(piece.name, Seen(piece.stamp, None), ())
            self._capture_lost(piece.name, (), polled)
            return
        took = time.monotonic() - started
        if took > _LONG_READING_SECONDS:
            self._rest_until[piece.name] = time.monotonic() + _REST * took
        read = [self._exchange(turn, log.keys.get(turn.turn_id) or (turn.turn_id,) * len(turn.parts)) for turn in turns]
        ready, waiting, due = self._sort(piece, log, read)
        self._capture(piece.name, ready, polled)
        self._report_usage(log, ready)
        taken = [one for exchange in ready for one in exchange.taken()]
        self._positions.record(piece.name, Seen(piece.stamp, due), taken)
        self._capture_lost(piece.name, read, polled)
        if waiting:
            self._waiting[piece.name] = waiting

    def _sort(
        self, piece: Piece, log: Log, read: Sequence[_Exchange]
    ) -> tuple[list[_Exchange], list[_Exchange], float | None]:
        """What to capture, what may still grow, and when that counts as complete."""
        last = {(turn.user_id, turn.session_id): turn.turn_id for turn, *_ in read}
        ready, waiting = [], []
        due: float | None = None
        for exchange in read:
            turn = exchange.turn
            if not exchange.lacking:
                continue
            complete_at = 0.0
            if last[turn.user_id, turn.session_id] == turn.turn_id and turn.turn_id not in log.ended:
                complete_at = piece.changed_at + self._patience(turn)
            if complete_at <= self._clock():
                ready.append(exchange)
            else:
                waiting.append(exchange)
                due = min(due or complete_at, complete_at)
        return ready, waiting, due

    def _exchange(self, turn: Turn, keys: tuple[str, ...]) -> _Exchange:
        counts: Counter[str] = Counter()
        lacking = []
        for place, key in enumerate(keys):
            counts[key] += 1
            if counts[key] > self._positions.parts(turn.user_id, key):
                lacking.append(place)
        return _Exchange(turn, keys, lacking)

    def _patience(self, turn: Turn) -> float:
        """Seconds of silence after which a turn counts as complete."""
        idle = self._memory.settings.idle_timeout.total_seconds()
        return min(idle, _SETTLED_SECONDS) if turn.parts[-1].role == "assistant" else idle

    def _capture(self, name: str, exchanges: Sequence[_Exchange], polled: Polled) -> None:
        """Capture what memory lacks of some turns."""
        by_session: defaultdict[str, list[Turn]] = defaultdict(list)
        for exchange in exchanges:
            if missing := exchange.missing():
                by_session[missing.session_id].append(missing)
        for session_id, turns in by_session.items():
            kept = keep(self._memory, turns)
            if kept.new:
                polled.captured[session_id] += kept.new
            polled.problems += [f"{name}: {reason}" for reason in kept.refused.values()]

    def _report_usage(self, log: Log, exchanges: Sequence[_Exchange]) -> None:
        """How full each session's context is by now: the context trigger."""
        window = self._memory.settings.context_window
        for turn in {(turn.user_id, turn.session_id): turn for turn, *_ in exchanges}.values():
            if usage := log.usage.get(turn.turn_id):
                known = usage if usage.context_window else Usage(tokens=usage.tokens, context_window=window)
                self._memory.turn_end(turn.session_id, known, user_id=turn.user_id, turn_id=turn.turn_id)

    def _capture_lost(self, name: str, read: Sequence[_Exchange], polled: Polled) -> None:
        """Capture messages that waited in a log and that no log holds any more."""
        waited = self._waiting.pop(name, [])
        waiting = (exchange for others in self._waiting.values() for exchange in others)
        held = {(one.turn.user_id, key) for one in (*read, *waiting) for key in one.keys}
        lost = []
        for one in (self._exchange(exchange.turn, exchange.keys) for exchange in waited):
            gone = [place for place in one.lacking if (one.turn.user_id, one.keys[place]) not in held]
            if gone:
                lost.append(one._replace(lacking=gone))
        if lost:
            self._capture(name, lost, polled)
            self._positions.take(taken for exchange in lost for taken in exchange.taken())
