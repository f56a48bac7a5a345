"""The buffer: every captured turn in a Redis stream per session, until it is both indexed and distilled.

Two consumer groups read a session's stream independently: `index` makes turns searchable, `distil` makes gems. A turn
leaves the stream when both have acknowledged it; its id stays known, so that capturing it again does nothing.

Keys, after the prefix and with user and session percent-encoded into `<key>`:

    turns:<key>     stream     entries {id, index, turn}: the buffer itself
    session:<key>   hash       captured, undistilled, unindexed, batches_done, above, usage_index,
                               planned_entry, indexed_entry
    seen:<key>      hash       turn id → index in the session
    owners:<user>   hash       turn id → the session it belongs to
    left:<key>      hash       stream entry → groups that have not acknowledged it
    lock:<key>      string     who indexes the session now
    planned:<key>   hash       index of each batch's last turn → what made the batch due
    batch:<id>      hash       user, session, trigger, entries, answer, attempts, owner, lease_until, reason
    batches         sorted set batches to distil, in the order they were planned
    activity        sorted set sessions by last activity, for the idle trigger
    unindexed       set        sessions with turns to index
    sessions        set        every session
    dead            stream     batches that could not be distilled
    counters        hash       planned, captured, batches_done
    store           string     the one store that the turns go to
    alone:<what>    string     who does this now
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neuralstream.capture import leases, triggers
from neuralstream.capture.client import BufferClient
from neuralstream.capture.records import BufferStatus, DeadLetter, LeasedBatch, SessionKey, Unindexed
from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.errors import InputError
from neuralstream.types import Turn

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["Buffer", "open_buffer"]

_INDEX_AT_ONCE = 64


def open_buffer(settings: Settings, *, sole_owner: bool, feeds: str | None = None) -> Buffer:
    """The buffer that the settings name: the server at `redis_url`, or the embedded Valkey of the data folder.

    Args:
        settings: `redis_url`, `home` and `buffer`.
        sole_owner: no other live process can own a lease (one process owns the embedded store), so what a killed
            process left is taken over at once.
        feeds: names the store that this buffer's turns go to; None only looks at the buffer.

    Raises:
        MissingPartError: the server cannot be started or reached.
        InputError: the buffer feeds another store.
    """
    server = None if settings.redis_url else EmbeddedValkey(settings)
    url = settings.redis_url.get_secret_value() if settings.redis_url else server.url if server else ""
    with ExitStack() as on_error:
        if server is not None:
            on_error.callback(server.close)
        buffer = Buffer(url, settings, sole_owner=sole_owner, server=server)
        on_error.callback(buffer.close)
        if feeds is not None:
            buffer.claim(feeds)
        on_error.pop_all()
    return buffer


class Buffer(BufferClient):
    """Captured turns and what is due for them. Safe to share between threads; see `open_buffer`."""

    # Capturing, and what makes turns due.

    def append(self, turn: Turn, now: datetime) -> bool:
        """Keep a turn; on return it survives kill -9. False where its id is known, which changes nothing.

        The turn gets the next index of its session. A session with `batch_size` undistilled turns gets a batch planned.

        Raises:
            InputError: another session of the user has a turn of this id; nothing is kept.
        """
        body = json.dumps(turn.to_dict(), ensure_ascii=False)
        key = SessionKey(turn.user_id, turn.session_id)
        try:
            kept = int(self._trigger(triggers.CAPTURE, key, turn.turn_id, body, now.timestamp()))
        except UnicodeEncodeError as error:
            raise InputError(
                f"turn {turn.turn_id!r} cannot be kept: its ids, speakers or source hold "
                f"{error.object[error.start]!r}, which is half a character; replace it"
            ) from error
        if kept < 0:
            raise InputError(
                f"turn id {turn.turn_id!r} of session {turn.session_id!r} names a turn of another session of user "
                f"{turn.user_id!r}; ids are unique within a user: put the session's id in front"
            )
        return kept > 0

    def turn_end(self, session: SessionKey, percent: float | None, *, turn_id: str | None = None) -> bool:
        """Take note of the context's use; True where it crossed the threshold and everything undistilled was planned.

        Args:
            session: whose context it is.
            percent: 0 to 100; None is unknown and changes nothing.
            turn_id: the turn the usage was measured after. Reported again, it is ignored.
        """
        if percent is None:
            return False
        index = -1 if turn_id is None else self.index_of(session, turn_id)
        return bool(self._trigger(triggers.TURN_END, session, percent, self._settings.context_threshold, index))

    def fire_idle(self, now: datetime) -> list[SessionKey]:
        """Plan everything undistilled of sessions silent for `idle_timeout`; returns those that had any."""
        cutoff = now.timestamp() - self._settings.idle_timeout.total_seconds()
        with self._reaching():
            silent = self._redis.zrangebyscore(self._name("activity"), "-inf", cutoff)
        sessions = [SessionKey.parse(key) for key in silent]
        return [session for session in sessions if self._trigger(triggers.IDLE, session, cutoff)]

    def end(self, session: SessionKey, reason: str) -> int:
        """Plan everything undistilled of a session; returns the number of batches."""
        return int(self._trigger(triggers.END, session, reason))

    # Distilling.

    def lease(self) -> LeasedBatch | None:
        """Take the oldest batch nobody works on, or None."""
        found = self._run(
            leases.LEASE, [self._name("batches")], [self._prefix, self._owner, self._lease_ms, self._sole]
        )
        if not found:
            return None
        batch_id, flat = found
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        session = SessionKey(fields["user"], fields["session"])
        turns = self._entries(session, fields["entries"].split())
        attempt = int(fields["attempts"]) + 1
        return LeasedBatch(batch_id, session, fields["trigger"], turns, attempt, fields.get("answer"))

    def renew(self, batch_id: str) -> bool:
        """Hold on to a leased batch during a slow extraction; False where it is somebody else's by now."""
        return bool(self._run(leases.RENEW, [self._batch(batch_id)], [self._owner, self._lease_ms]))

    def record_answer(self, batch_id: str, answer: str) -> str | None:
        """Write a leased batch's validated answer down before anything is stored; the first one wins and is returned.

        None where the batch is not this process's any more: taken over, or forgotten.
        """
        recorded = self._run(leases.RECORD, [self._batch(batch_id)], [self._owner, answer])
        return None if recorded is None else str(recorded)

    def done(self, batch: LeasedBatch) -> bool:
        """Acknowledge a batch whose gems are stored; False where the lease was lost."""
        keys = [
            self._batch(batch.batch_id), self._name("batches"), self._name("counters"),
            *(self._key(name, batch.session) for name in ("turns", "left", "session")),
        ]  # fmt: skip
        return bool(self._run(leases.DONE, keys, [batch.batch_id, self._owner]))

    def fail(
        self, batch: LeasedBatch, reason: str, *, retry_in: float, answer: str | None = None, final: bool = False
    ) -> bool:
        """Give a batch back after a failed try; True where it was the last try and the batch is a dead letter now.

        Args:
            batch: the leased batch.
            reason: why, for people.
            retry_in: seconds until somebody may try again.
            answer: what the extractor got and could not use, kept in the dead letter.
            final: another try would end the same way, so this was the last.
        """
        tries = 1 if final else self._settings.buffer.max_attempts
        return self._release(batch, reason, tries, retry_in, answer)

    def give_back(self, batch: LeasedBatch, *, retry_in: float) -> None:
        """Give a batch back untouched, because a part it needs is down; the try does not count."""
        self._release(batch, "", 0, retry_in)

    def dead_letters(self, user_id: str | None = None) -> list[DeadLetter]:
        """Batches that could not be distilled, oldest first."""
        return [letter for _, letter in self._dead(user_id)]

    def retry_dead_letters(self, user_id: str | None = None) -> int:
        """Queue dead letters again; returns how many."""
        return sum(
            bool(
                self._run(
                    leases.RETRY,
                    [self._batch(letter.batch_id), self._name("batches"), self._name("counters"), self._name("dead")],
                    [letter.batch_id, entry],
                )
            )
            for entry, letter in self._dead(user_id)
        )

    # Indexing.

    def take_unindexed(self) -> Unindexed | None:
        """Lock a session with turns to index and take the oldest; None where there are none, or all are locked."""
        with self._reaching():
            waiting = sorted(self._redis.smembers(self._name("unindexed")))
        for text in waiting:
            session = SessionKey.parse(text)
            entries = self._run(
                leases.TAKE_UNINDEXED,
                [self._key("turns", session), self._key("lock", session)],
                [self._owner, self._lease_ms, _INDEX_AT_ONCE, self._sole],
            )
            if entries:
                return Unindexed(session, tuple(entry for entry, _ in entries), _turns(entries))
        return None

    def indexed(self, taken: Unindexed) -> bool:
        """Acknowledge turns that are searchable now, and unlock their session; False where the lock was lost."""
        keys = [self._key(name, taken.session) for name in ("turns", "left", "session")]
        keys += [self._name("unindexed"), self._key("lock", taken.session)]
        return bool(self._run(leases.INDEXED, keys, [str(taken.session), self._owner, *taken.entries]))

    def pending(self, user_id: str) -> tuple[Turn, ...]:
        """A user's turns that are captured but not indexed yet, oldest first within each session."""
        with self._reaching():
            waiting = sorted(key for key in self._redis.smembers(self._name("unindexed")) if _of_user(key, user_id))
            found: list[Turn] = []
            for text in waiting:
                session = SessionKey.parse(text)
                last = self._redis.hget(self._key("session", session), "indexed_entry")
                found += _turns(self._redis.xrange(self._key("turns", session), f"({last}" if last else "-"))
        return tuple(found)

    # Upkeep.

    def sessions(self, user_id: str | None = None) -> list[SessionKey]:
        """Every session that ever captured a turn and was not forgotten, sorted."""
        with self._reaching():
            keys = self._redis.smembers(self._name("sessions"))
        return sorted(SessionKey.parse(key) for key in keys if user_id is None or _of_user(key, user_id))

    def undistilled(self, session: SessionKey) -> int:
        """Turns of a session that no batch has taken."""
        with self._reaching():
            return int(self._redis.hget(self._key("session", session), "undistilled") or 0)

    def is_idle(self) -> bool:
        """Whether nothing waits to be indexed or distilled."""
        with self._reaching():
            return not self._redis.scard(self._name("unindexed")) and not self._redis.zcard(self._name("batches"))

    def status(self) -> BufferStatus:
        """Counts over everything in the buffer."""
        sessions = self.sessions()
        with self._reaching():
            pipe = self._redis.pipeline(transaction=False)
            for session in sessions:
                pipe.hmget(self._key("session", session), "undistilled", "unindexed")
            open_turns = [[int(value or 0) for value in pair] for pair in pipe.execute()]
            counters = self._redis.hgetall(self._name("counters"))
            return BufferStatus(
                sessions=len(sessions),
                captured=int(counters.get("captured", 0)),
                undistilled=sum(pair[0] for pair in open_turns),
                unindexed=sum(pair[1] for pair in open_turns),
                batches_waiting=self._redis.zcard(self._name("batches")),
                batches_done=int(counters.get("batches_done", 0)),
                dead_letters=self._redis.xlen(self._name("dead")),
            )

    def knows(self, session: SessionKey, turn_id: str) -> bool:
        """Whether a turn was captured, and not forgotten since."""
        with self._reaching():
            return bool(self._redis.hexists(self._key("seen", session), turn_id))

    def turn_ids(self, session: SessionKey) -> set[str]:
        """The ids of a session's turns that were captured, and not forgotten since."""
        with self._reaching():
            return set(self._redis.hkeys(self._key("seen", session)))

    def index_of(self, session: SessionKey, turn_id: str) -> int:
        """A captured turn's index in its session; -1 where it is unknown."""
        with self._reaching():
            index = self._redis.hget(self._key("seen", session), turn_id)
        return -1 if index is None else int(index)

    def next_index(self, session: SessionKey) -> int:
        """The index that the session's next turn gets."""
        with self._reaching():
            return int(self._redis.hget(self._key("session", session), "captured") or 0)

    def mark_known(self, turn: Turn) -> None:
        """Remember a turn that was restored into the store, so that capturing it again does nothing."""
        key = SessionKey(turn.user_id, turn.session_id)
        index = turn.index or 0
        with self._reaching():
            self._redis.hset(self._key("seen", key), turn.turn_id, str(index))
            self._redis.hset(self._owners(key), turn.turn_id, str(key))
            captured = int(self._redis.hget(self._key("session", key), "captured") or 0)
            self._redis.hset(self._key("session", key), "captured", str(max(captured, index + 1)))
            self._redis.sadd(self._name("sessions"), str(key))

    def forget_session(self, session: SessionKey) -> int:
        """Remove a session's turns, ids, batches with their answers, and dead letters; returns how many ids."""
        keys = [self._key(name, session) for name in ("turns", "session", "seen", "left", "lock")]
        keys.append(self._owners(session))
        keys += [self._name(name) for name in ("activity", "unindexed", "sessions", "batches", "dead")]
        return int(self._run(leases.FORGET_SESSION, keys, [self._prefix, str(session), *session]))

    def forget_turns(self, session: SessionKey, turn_ids: Iterable[str]) -> int:
        """Remove single turns of a session, and their ids; in one step; no worker may be at work meanwhile.

        A batch that held one loses its recorded answer; a dead letter of it, which may quote it, is queued again.

        Returns:
            How many ids were known.
        """
        keys = [self._key(name, session) for name in ("turns", "session", "seen", "left")]
        keys.append(self._owners(session))
        keys += [self._name(name) for name in ("unindexed", "batches", "counters", "dead")]
        return int(self._run(leases.FORGET_TURNS, keys, [self._prefix, str(session), *turn_ids]))

    def unplanned(self, session: SessionKey) -> tuple[Turn, ...]:
        """A session's turns that no trigger has taken yet, oldest first."""
        with self._reaching():
            last = self._redis.hget(self._key("session", session), "planned_entry")
            return _turns(self._redis.xrange(self._key("turns", session), f"({last}" if last else "-"))

    def planned(self, session: SessionKey) -> list[tuple[int, str]]:
        """A session's batches, oldest first: the index of each one's last turn, and what made it due."""
        with self._reaching():
            batches = self._redis.hgetall(self._key("planned", session))
        return sorted((int(index), trigger) for index, trigger in batches.items())

    def waiting(self, user_id: str) -> tuple[Turn, ...]:
        """A user's turns that are not through yet: not indexed, or not distilled."""
        found: list[Turn] = []
        for session in self.sessions(user_id):
            with self._reaching():
                found += _turns(self._redis.xrange(self._key("turns", session)))
        return tuple(found)

    def mentions(self, user_id: str, ids: Iterable[str]) -> bool:
        """Whether a turn or gem of these ids is in the buffer, a recorded answer or a dead letter of a user."""
        gone = set(ids)
        letters = self.dead_letters(user_id)
        turns = [*self.waiting(user_id), *(turn for letter in letters for turn in letter.turns)]
        with self._reaching():
            waiting = self._redis.zrange(self._name("batches"), 0, -1)
            answers = [self._redis.hmget(self._batch(batch_id), "user", "answer") for batch_id in waiting]
        said = [answer or "" for owner, answer in answers if owner == user_id]
        said += [f"{letter.answer or ''} {letter.reason}" for letter in letters]
        return any(turn.turn_id in gone for turn in turns) or any(name in text for text in said for name in gone)

    # Helpers.

    def _trigger(self, script: str, session: SessionKey, *arguments: object) -> Any:
        keys = [self._key(name, session) for name in ("turns", "session", "seen", "left")]
        keys.append(self._owners(session))
        keys += [self._name(name) for name in ("activity", "batches", "counters", "unindexed", "sessions")]
        head = [self._prefix, str(session), session.user_id, session.session_id, self._settings.batch_size]
        return self._run(script, keys, [*head, *arguments])

    def _release(
        self, batch: LeasedBatch, reason: str, most_attempts: int, retry_in: float, answer: str | None = None
    ) -> bool:
        keys = [self._batch(batch.batch_id), self._name("batches"), self._name("dead")]
        arguments = [batch.batch_id, self._owner, reason, most_attempts, int(retry_in * 1000), answer or ""]
        return bool(self._run(leases.FAIL, keys, arguments))

    def _entries(self, session: SessionKey, entries: Sequence[str]) -> tuple[Turn, ...]:
        if not entries:
            return ()
        wanted = set(entries)
        with self._reaching():
            found = self._redis.xrange(self._key("turns", session), entries[0], entries[-1])
        return _turns(row for row in found if row[0] in wanted)

    def _dead(self, user_id: str | None) -> Iterator[tuple[str, DeadLetter]]:
        with self._reaching():
            rows = self._redis.xrange(self._name("dead"))
        for entry, fields in rows:
            if user_id is not None and fields["user"] != user_id:
                continue
            session = SessionKey(fields["user"], fields["session"])
            with self._reaching():
                entries, answer = self._redis.hmget(self._batch(fields["batch"]), "entries", "answer")
            turns = self._entries(session, (entries or "").split())
            # One that was written by an earlier version has none of its own.
            answer = fields.get("answer") or answer
            yield entry, DeadLetter(fields["batch"], session, fields["reason"], turns, answer)

    def _owners(self, session: SessionKey) -> str:
        return self._name(f"owners:{quote(session.user_id, safe='')}")


def _turns(entries: Iterable[tuple[str, dict[str, str]]] | Any) -> tuple[Turn, ...]:
    """Turns of stream entries; scripts give an entry's fields as a flat list, the client as a mapping."""
    found = []
    for _, raw in entries:
        fields = raw if isinstance(raw, dict) else dict(zip(raw[::2], raw[1::2], strict=True))
        found.append(replace(Turn.from_dict(json.loads(fields["turn"])), index=int(fields["index"])))
    return tuple(found)


def _of_user(key: str, user_id: str) -> bool:
    return key.startswith(quote(user_id, safe="") + "/")
