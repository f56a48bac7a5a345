"""Replaying logs into a memory as it would have lived them: under a clock that shows the logs' own times.

What is replayed goes through the very `NeuralStream` that serves, opened with a `VirtualClock`, a `Recorder` around its
extractor, and worker "inline". Turns of all sessions are captured in the order of their times. Between two turns time
passes: a session that has been silent for `idle_timeout` falls idle at that moment, not when the next turn comes. A
session whose last turn is over is reset when its user begins another one, and ends when the log does.

A log has no live usage. Where `context_window` is set, a host is simulated: its context grows by what is said (or to
what the log says the model held), it reports that after every turn, and at `compact_at` percent it compacts to
`compact_to`, keeping the newest turns that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.capture.records import SessionKey
from neuralstream.tokens import count_tokens
from neuralstream.types import DEFAULT_USER, Turn, Usage
from neuralstream.workbench.timeline import Distilled, Said, Taken, Timeline

if TYPE_CHECKING:
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.timeline import Recorder
    from neuralstream.workbench.virtual_clock import Moment, VirtualClock

__all__ = ["Interlude", "Replayed", "replay"]

_AT_ONCE = 64
"""Turns captured together: embedding them together is several times faster than one by one."""

_A_LITTLE_LATER = timedelta(microseconds=2)
"""The idle trigger compares times as floats, whose steps are 0.24 µs in this century."""


class Interlude(NamedTuple):
    """Something to do at a moment between turns, such as asking a question that is dated."""

    at: datetime
    call: Callable[[], object]


class Replayed(NamedTuple):
    """What became of a log's turns: those new to memory, those it knew or had no use for, their sessions, and when."""

    new: int
    known: int
    sessions: int
    timeline: Timeline


def replay(
    memory: NeuralStream,
    turns: Iterable[Turn],
    usage: Mapping[str, Usage] | None = None,
    *,
    clock: VirtualClock,
    recorder: Recorder,
    interludes: Iterable[Interlude] = (),
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Replayed:
    """Capture turns in the order of time and end their sessions; on return all is indexed and distilled.

    Args:
        memory: what captures, with worker "inline"; its settings say whether a host is simulated.
        turns: of any users and sessions; one without a time is said right after the one before it.
        usage: by turn id, the context's use where the log tells; it may fill up while `turns` is read.
        clock: the memory's; it is set to the first turn's time, which may lie before what it shows.
        recorder: the memory's extractor.
        interludes: called at their times, with everything said until then captured and what was due distilled; those
            after the last turn once all sessions have ended.
        progress: told how many turns are done, of how many.
    """
    coming = _in_order(turns, clock.now)
    if coming:
        clock.now = coming[0].at
    waiting = sorted(interludes, key=lambda one: one.at)
    known = dict(recorder.taken)
    log = _Log(memory, clock, coming, usage or {})
    done = new = 0
    while done < len(coming):
        while waiting and waiting[0].at < coming[done].at:
            log.wait(waiting[0].at)
            waiting.pop(0).call()
        until = waiting[0].at if waiting else None
        some = [one for one in coming[done : done + _AT_ONCE] if until is None or one.at <= until]
        new += memory.capture_all(log.play(some))
        done += len(some)
        progress(done, len(coming))
    log.end()
    for interlude in waiting:
        clock.now = max(clock.now, interlude.at)
        interlude.call()
    taken = [one for batch_id, one in recorder.taken.items() if batch_id not in known]
    return Replayed(new, done - new, log.sessions, log.timeline(taken))


class _Coming(NamedTuple):
    """A turn and when it is said."""

    turn: Turn
    at: datetime


@dataclass(slots=True)
class _Context:
    """What a session's model holds: tokens in all, and the turns among them with their tokens, oldest first."""

    tokens: int = 0
    turns: list[tuple[str, int]] = field(default_factory=list)


def _in_order(turns: Iterable[Turn], start: datetime) -> list[_Coming]:
    coming = []
    at = start
    for turn in turns:
        at = turn.created_at or at
        coming.append(_Coming(turn, at))
    return sorted(coming, key=lambda one: one.at)


class _Log:
    """Passes a log's turns on to a memory, and what happens between them: silence, a full context, sessions' ends."""

    def __init__(
        self, memory: NeuralStream, clock: VirtualClock, coming: Iterable[_Coming], usage: Mapping[str, Usage]
    ) -> None:
        self._memory = memory
        self._settings = memory.settings
        self._clock = clock
        self._usage = usage
        self._to_come = Counter(self._session(one.turn) for one in coming)
        self._open: dict[SessionKey, _Context] = {}
        self._awake: dict[SessionKey, datetime] = {}  # last activity; in this order, since turns come in theirs
        self._said: dict[tuple[str, str], Moment] = {}
        self._left: dict[tuple[str, str], Moment] = {}

    @property
    def sessions(self) -> int:
        """How many the log has."""
        return len(self._to_come)

    def play(self, some: Iterable[_Coming]) -> Iterator[Turn]:
        """Give turns to whoever captures them; what happens between two happens while the next is fetched."""
        for turn, at in some:
            self.wait(at)
            session = self._session(turn)
            if session not in self._open:
                self._reset_finished(session.user_id)
                self._open[session] = _Context()
            self._clock.turns += 1
            self._said[session.user_id, turn.turn_id] = self._clock.moment
            yield turn
            self._to_come[session] -= 1
            self._awake.pop(session, None)
            self._awake[session] = at
            self._report(session, turn)

    def wait(self, until: datetime) -> None:
        """Let time pass; sessions fall idle on the way, each when it is due."""
        timeout = self._settings.idle_timeout
        while self._awake:
            session, last = next(iter(self._awake.items()))
            if last + timeout > until:
                break
            del self._awake[session]
            self._clock.now = max(self._clock.now, last + timeout)
            self._memory.tick(last + timeout + _A_LITTLE_LATER)
        self._clock.now = max(self._clock.now, until)

    def end(self) -> None:
        """End the sessions that are still open."""
        for session in sorted(self._open):
            self._memory.end_session(session.session_id, user_id=session.user_id)

    def timeline(self, taken: Iterable[Taken]) -> Timeline:
        """What happened, given what the extractor was."""
        failed = {letter.batch_id: letter.reason for letter in self._memory.dead_letters()}
        batches = sorted(
            (self._distilled(one, failed.get(one.batch.batch_id, "")) for one in taken), key=lambda one: one.moment
        )
        turns = [
            Said(batch.user_id, batch.session_id, turn_id, self._said[key], self._left.get(key))
            for batch in batches
            for turn_id in batch.turn_ids
            if (key := (batch.user_id, turn_id)) in self._said
        ]
        return Timeline(tuple(sorted(turns, key=lambda said: said.moment)), tuple(batches))

    def _distilled(self, taken: Taken, failed: str) -> Distilled:
        batch = taken.batch
        last = batch.turns[-1]
        # A full batch is due with its last turn, though it is only distilled once those captured with it are.
        full = self._said.get((last.user_id, last.turn_id)) if batch.trigger == "batch" else None
        gems = taken.answer.gems if taken.answer and not failed else ()
        return Distilled(
            moment=full or taken.moment,
            cause=batch.trigger,
            user_id=last.user_id,
            session_id=last.session_id,
            turn_ids=tuple(turn.turn_id for turn in batch.turns),
            gems=tuple(gem.gem_id for gem in gems),
            cited=tuple(dict.fromkeys(turn_id for gem in gems for turn_id in gem.source_turns)),
            calls=taken.cost.get("calls", 0),
            tokens=taken.cost.get("tokens", 0),
            tries=taken.tries,
            failed=failed,
        )

    def _reset_finished(self, user_id: str) -> None:
        """The user begins anew: sessions of whom the log has no more turn are over, their contexts gone."""
        for session in [key for key in self._open if key.user_id == user_id and not self._to_come[key]]:
            self._leave(session, self._open.pop(session).turns)
            self._awake.pop(session, None)
            self._memory.end_session(session.session_id, reason="reset", user_id=user_id)

    def _report(self, session: SessionKey, turn: Turn) -> None:
        """Take a turn into the context, tell memory how full it is, and compact it where it is nearly full."""
        context = self._open[session]
        size = count_tokens(turn.transcript)
        context.turns.append((turn.turn_id, size))
        window = self._settings.context_window
        if window is None:
            return
        logged = self._usage.get(turn.turn_id)
        known = logged.tokens if logged else None
        # No model holds more than its window: a host cuts what does not fit.
        context.tokens = min(window, context.tokens + size if known is None else known)
        usage = Usage(tokens=context.tokens, context_window=window)
        self._memory.turn_end(session.session_id, usage, user_id=session.user_id, turn_id=turn.turn_id)
        if 100 * context.tokens >= self._settings.compact_at * window:
            self._compact(session, context, round(window * self._settings.compact_to / 100))

    def _compact(self, session: SessionKey, context: _Context, room: int) -> None:
        self._memory.end_session(session.session_id, reason="compaction", user_id=session.user_id)
        context.tokens = kept = room
        stay = len(context.turns)
        while stay and context.turns[stay - 1][1] <= kept:
            stay -= 1
            kept -= context.turns[stay][1]
        self._leave(session, context.turns[:stay])
        del context.turns[:stay]

    def _leave(self, session: SessionKey, turns: Iterable[tuple[str, int]]) -> None:
        for turn_id, _ in turns:
            self._left[session.user_id, turn_id] = self._clock.moment

    def _session(self, turn: Turn) -> SessionKey:
        named = turn.user_id != DEFAULT_USER
        return SessionKey(turn.user_id if named else self._settings.user_id, turn.session_id)
