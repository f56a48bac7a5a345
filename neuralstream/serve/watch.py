"""Following session logs as they grow: what is complete is captured, each turn once.

A log that changed is read as a whole, since a conversation is a path through a tree whose end may move; what was taken
from it before is known by its turn ids. So rotation, truncation, rewriting and torn lines are no special cases. These
are:

- The last exchange of a session waits until it is over: the next one begins, the log says so, or nothing was written
  for a while. What joins it later is captured as a turn of its own, under the id of its first message.
- An exchange that waits when its log is cut or removed is captured as it was seen.
- While memory cannot be reached, logs are read on, and what is ready is kept as it was first to be sent: an answer may
  have been lost after the turn was kept, and sent with more in it, it would be known already.
- A large log is not read again before ten times as long has passed as its reading took.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from neuralstream.errors import InputError, LogFormatError, NeuralStreamError
from neuralstream.importing import Captures, keep
from neuralstream.logs.sources import Piece, growing_files, is_server, memory_lists
from neuralstream.serve.positions import Positions, Seen, Taken
from neuralstream.types import DEFAULT_USER, EndReason, Turn, Usage

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.logs import Log

__all__ = ["Memory", "Polled", "Watcher"]

_SETTLED_SECONDS = 60.0
"""Silence after which a reply counts as the last one of its exchange, where the log does not tell."""

_REST = 10.0
"""Rest after a long reading, in times of its length."""

_LONG_READING_SECONDS = 1.0

_MOST_UNSENT = 5_000
"""Exchanges that are held while memory cannot be reached; logs hold the rest."""


class Memory(Captures, Protocol):
    """What a watcher asks of memory; `NeuralStream` answers it in this process, and a client from another one."""

    def turn_end(
        self, session_id: str, usage: Usage | None, *, user_id: str | None = None, turn_id: str | None = None
    ) -> bool:
        """Report how full the context is after a turn."""
        ...

    def end_session(
        self,
        session_id: str,
        *,
        reason: EndReason = "end",
        user_id: str | None = None,
    ) -> None:
        """Distil what a session has left."""
        ...


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


class _Parcel(NamedTuple):
    """What one reading of a log has for memory: turns, and how full contexts are after them."""

    name: str
    turns: list[Turn]
    usage: list[tuple[Turn, Usage]]


class Watcher:
    """Looks at logs whenever it is asked to.

    Args:
        memory: what captures.
        settings: whose turns they are, how much of a tool's result is kept, and how long a session may be idle.
        sources: files, folders, and addresses of Redis servers with mem-redis lists; they need not exist yet.
        positions: how far it has read.
        clock: seconds since 1970, as files' times are given.
    """

    def __init__(
        self,
        memory: Memory,
        settings: Settings,
        sources: Sequence[str],
        positions: Positions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._memory = memory
        self._settings = settings
        self._sources = sources
        self._positions = positions
        self._clock = clock
        self._waiting: dict[str, list[_Exchange]] = {}
        self._unsent: deque[_Parcel] = deque()
        self._polled = Polled()
        self._sessions: set[tuple[str, str]] = set()
        self._lists_changed: dict[str, tuple[str, float]] = {}
        self._rest_until: dict[str, float] = {}

    def poll(self, *, send: bool = True) -> Polled:
        """Read what changed and capture what is complete in it.

        Args:
            send: False only reads, so that nothing is missed while memory is known to be away.

        Raises:
            MissingPartError: a server cannot be reached; what is not captured is captured next time.
            StoreError: the data folder is full.
            SettingsError: the service does not know the token.
        """
        # What came of a look that failed is told with the next one.
        polled, polled.logs = self._polled, 0
        names = set()
        failed: NeuralStreamError | None = None
        for piece in self._pieces():
            names.add(piece.name)
            polled.logs += 1
            if self._is_due(piece) and sum(len(parcel.turns) for parcel in self._unsent) < _MOST_UNSENT:
                self._read(piece, polled)
                if send:
                    failed = failed or self._send(polled)
        for name in self._waiting.keys() - names:
            self._post_lost(name, ())
        if send:
            failed = failed or self._send(polled)
        if failed:
            raise failed
        self._polled = Polled()
        return polled

    def end_sessions(self, reason: Literal["end", "shutdown"]) -> None:
        """Distil what the sessions captured from so far have left.

        Raises:
            MissingPartError: memory cannot be reached.
        """
        for user_id, session_id in sorted(self._sessions):
            self._memory.end_session(session_id, reason=reason, user_id=_named(user_id))
        self._sessions.clear()

    def _pieces(self) -> Iterator[Piece]:
        settings = self._settings
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
            self._positions.record(piece.name, Seen(piece.stamp, None))
            self._post_lost(piece.name, ())
            return
        took = time.monotonic() - started
        if took > _LONG_READING_SECONDS:
            self._rest_until[piece.name] = time.monotonic() + _REST * took
        read = [self._exchange(turn, log.keys.get(turn.turn_id) or (turn.turn_id,) * len(turn.parts)) for turn in turns]
        ready, waiting, due = self._sort(piece, log, read)
        self._post(piece.name, ready, self._usage(log, ready))
        self._positions.record(piece.name, Seen(piece.stamp, due))
        self._post_lost(piece.name, read)
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
        idle = self._settings.idle_timeout.total_seconds()
        return min(idle, _SETTLED_SECONDS) if turn.parts[-1].role == "assistant" else idle

    def _usage(self, log: Log, exchanges: Sequence[_Exchange]) -> list[tuple[Turn, Usage]]:
        """How full each session's context is by now: the context trigger."""
        window = self._settings.context_window
        found = []
        for turn in {(turn.user_id, turn.session_id): turn for turn, *_ in exchanges}.values():
            if usage := log.usage.get(turn.turn_id):
                known = usage if usage.context_window else Usage(tokens=usage.tokens, context_window=window)
                found.append((turn, known))
        return found

    def _post(self, name: str, exchanges: Sequence[_Exchange], usage: Sequence[tuple[Turn, Usage]] = ()) -> None:
        """Have memory take what it lacks of some turns."""
        turns = [missing for exchange in exchanges if (missing := exchange.missing())]
        if turns or usage:
            self._unsent.append(_Parcel(name, turns, list(usage)))
        self._positions.take(taken for exchange in exchanges for taken in exchange.taken())

    def _send(self, polled: Polled) -> NeuralStreamError | None:
        """Give memory what is ready, in the order it was read; returns why not all of it was taken."""
        try:
            while self._unsent:
                self._capture(self._unsent[0], polled)
                self._unsent.popleft()
        except NeuralStreamError as error:
            return error
        self._positions.save()
        return None

    def _capture(self, parcel: _Parcel, polled: Polled) -> None:
        by_session: defaultdict[tuple[str, str], list[Turn]] = defaultdict(list)
        for turn in parcel.turns:
            by_session[turn.user_id, turn.session_id].append(turn)
        for (user_id, session_id), turns in by_session.items():
            self._sessions.add((user_id, session_id))
            kept = keep(self._memory, turns)
            if kept.new:
                polled.captured[session_id] += kept.new
            polled.problems += [f"{parcel.name}: {reason}" for reason in kept.refused.values()]
        for turn, usage in parcel.usage:
            try:
                self._memory.turn_end(turn.session_id, usage, user_id=_named(turn.user_id), turn_id=turn.turn_id)
            except InputError as error:
                polled.problems.append(f"{parcel.name}: {error}")

    def _post_lost(self, name: str, read: Sequence[_Exchange]) -> None:
        """Have memory take messages that waited in a log and that no log holds any more."""
        waited = self._waiting.pop(name, [])
        waiting = (exchange for others in self._waiting.values() for exchange in others)
        held = {(one.turn.user_id, key) for one in (*read, *waiting) for key in one.keys}
        lost = []
        for one in (self._exchange(exchange.turn, exchange.keys) for exchange in waited):
            gone = [place for place in one.lacking if (one.turn.user_id, one.keys[place]) not in held]
            if gone:
                lost.append(one._replace(lacking=gone))
        if lost:
            self._post(name, lost)


def _named(user_id: str) -> str | None:
    """Whose it is, as memory is asked: a log that names nobody leaves it to memory, as for the turns themselves."""
    return None if user_id == DEFAULT_USER else user_id
