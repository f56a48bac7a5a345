"""The buffer: every captured turn in a Redis stream per session, until it is both indexed and distilled.

Two consumer groups read a session's stream independently: `index` makes turns searchable, `distil` makes gems. A turn
leaves the stream when both have acknowledged it; its id stays known, so that capturing it again does nothing.

Keys, after the prefix and with user and session percent-encoded into `<key>`:

    turns:<key>     stream     entries {id, index, turn}: the buffer itself
    session:<key>   hash       captured, undistilled, unindexed, batches_done, above, usage_index,
                               planned_entry, indexed_entry
    seen:<key>      hash       turn id → index in the session
    left:<key>      hash       stream entry → groups that have not acknowledged it
    lock:<key>      string     who indexes the session now
    batch:<id>      hash       user, session, trigger, entries, answer, attempts, owner, lease_until, reason
    batches         sorted set batches to distil, in the order they were planned
    activity        sorted set sessions by last activity, for the idle trigger
    unindexed       set        sessions with turns to index
    sessions        set        every session
    dead            stream     batches that could not be distilled
    counters        hash       planned, captured, batches_done
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neuralstream.capture import leases, triggers
from neuralstream.capture.records import BufferStatus, DeadLetter, LeasedBatch, SessionKey, Unindexed
from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.errors import MissingPartError
from neuralstream.types import Turn

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["Buffer", "open_buffer"]

_INDEX_AT_ONCE = 64
_REWRITE_SECONDS = 120.0


def open_buffer(settings: Settings, *, sole_owner: bool) -> Buffer:
    """The buffer that the settings name: the server at `redis_url`, or the embedded Valkey of the data folder.

    Args:
        settings: `redis_url`, `home` and `buffer`.
        sole_owner: no other live process can own a lease (one process owns the embedded store), so what a killed
            process left is taken over at once.

    Raises:
        MissingPartError: the server cannot be started or reached.
    """
    server = None if settings.redis_url else EmbeddedValkey(settings)
    url = settings.redis_url.get_secret_value() if settings.redis_url else server.url if server else ""
    return Buffer(url, settings, sole_owner=sole_owner, server=server)


class Buffer:
    """Captured turns and what is due for them. Safe to share between threads; see `open_buffer`."""

    def __init__(self, url: str, settings: Settings, *, sole_owner: bool, server: EmbeddedValkey | None = None) -> None:
        import redis

        seconds = settings.buffer.timeout.total_seconds()
        # Any: the client's types do not know that replies are decoded.
        self._redis: Any = redis.Redis.from_url(
            url, decode_responses=True, socket_timeout=seconds, socket_connect_timeout=seconds
        )
        self._unreachable = (redis.ConnectionError, redis.TimeoutError)
        self.where = "embedded Valkey" if server else _without_secrets(url)
        self._server = server
        self._settings = settings
        self._prefix = settings.buffer.prefix
        self._sole = "1" if sole_owner else "0"
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self._scripts = {
            text: self._redis.register_script(text)
            for text in (
                triggers.CAPTURE, triggers.TURN_END, triggers.IDLE, triggers.END,
                leases.LEASE, leases.RENEW, leases.DONE, leases.FAIL, leases.RETRY,
                leases.TAKE_UNINDEXED, leases.INDEXED,
            )
        }  # fmt: skip
        self.version()

    def version(self) -> str:
        """The server's name and version; also proves that it answers."""
        with self._reaching():
            info = self._redis.info("server")
        if "valkey_version" in info:
            return f"Valkey {info['valkey_version']}"
        return f"Redis {info['redis_version']}"

    def close(self) -> None:
        """Disconnect, and stop the embedded server where nobody else uses it. Closing twice is fine."""
        self._redis.close()
        if self._server is not None:
            self._server.close()

    # Capturing, and what makes turns due.

    def append(self, turn: Turn, now: datetime) -> bool:
        """Keep a turn; on return it survives kill -9. False where its id is known, which changes nothing.

        The turn gets the next index of its session. A session with `batch_size` undistilled turns gets a batch planned.
        """
        body = json.dumps(turn.to_dict(), ensure_ascii=False)
        key = SessionKey(turn.user_id, turn.session_id)
        return bool(self._trigger(triggers.CAPTURE, key, turn.turn_id, body, now.timestamp()))

    def turn_end(self, session: SessionKey, percent: float | None, *, turn_id: str | None = None) -> bool:
        """Take note of the context's use; True where it crossed the threshold and everything undistilled was planned.

        Args:
            session: whose context it is.
            percent: 0 to 100; None is unknown and changes nothing.
            turn_id: the turn the usage was measured after. Reported again, it is ignored.
        """
        if percent is None:
            return False
        index = -1 if turn_id is None else int(self._redis.hget(self._key("seen", session), turn_id) or -1)
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
        return LeasedBatch(batch_id, session, fields["trigger"], turns, int(fields["attempts"]), fields.get("answer"))

    def renew(self, batch_id: str) -> bool:
        """Hold on to a leased batch during a slow extraction; False where it is somebody else's by now."""
        return bool(self._run(leases.RENEW, [self._batch(batch_id)], [self._owner, self._lease_ms]))

    def record_answer(self, batch_id: str, answer: str) -> str:
        """Write a batch's validated answer down before anything is stored; the first one wins and is returned."""
        with self._reaching():
            self._redis.hsetnx(self._batch(batch_id), "answer", answer)
            return str(self._redis.hget(self._batch(batch_id), "answer"))

    def done(self, batch: LeasedBatch) -> bool:
        """Acknowledge a batch whose gems are stored; False where the lease was lost."""
        keys = [
            self._batch(batch.batch_id), self._name("batches"), self._name("counters"),
            *(self._key(name, batch.session) for name in ("turns", "left", "session")),
        ]  # fmt: skip
        return bool(self._run(leases.DONE, keys, [batch.batch_id, self._owner]))

    def fail(self, batch: LeasedBatch, reason: str, *, retry_in: float) -> bool:
        """Give a batch back after a failed try; True where it was the last try and the batch is a dead letter now.

        Args:
            batch: the leased batch.
            reason: why, for people.
            retry_in: seconds until somebody may try again.
        """
        return self._release(batch, reason, self._settings.buffer.max_attempts, retry_in)

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

    def mark_known(self, turn: Turn) -> None:
        """Remember a turn that was restored into the store, so that capturing it again does nothing."""
        key = SessionKey(turn.user_id, turn.session_id)
        index = turn.index or 0
        with self._reaching():
            self._redis.hset(self._key("seen", key), turn.turn_id, str(index))
            captured = int(self._redis.hget(self._key("session", key), "captured") or 0)
            self._redis.hset(self._key("session", key), "captured", str(max(captured, index + 1)))
            self._redis.sadd(self._name("sessions"), str(key))

    def forget_session(self, session: SessionKey) -> int:
        """Remove a session's turns, ids, batches with their answers, and dead letters; returns how many ids."""
        with self._reaching():
            removed = int(self._redis.hlen(self._key("seen", session)))
            for batch_id in self._batches_of(session):
                self._redis.zrem(self._name("batches"), batch_id)
                self._redis.delete(self._batch(batch_id))
            for entry, letter in self._dead(session.user_id):
                if letter.session == session:
                    self._redis.xdel(self._name("dead"), entry)
            self._redis.delete(*(self._key(name, session) for name in ("turns", "session", "seen", "left", "lock")))
            self._redis.zrem(self._name("activity"), str(session))
            self._redis.srem(self._name("unindexed"), str(session))
            self._redis.srem(self._name("sessions"), str(session))
        return removed

    def forget_turns(self, session: SessionKey, turn_ids: Iterable[str]) -> int:
        """Remove single turns of a session, and their ids. A batch that held one loses its recorded answer.

        Returns:
            How many ids were known.
        """
        gone = set(turn_ids)
        with self._reaching():
            entries = self._redis.xrange(self._key("turns", session))
            drop = [entry for entry, fields in entries if fields["id"] in gone]
            # Planned turns are the batches' business; the others are still waiting to be planned.
            planned = self._rewrite_batches(session, set(drop))
            for entry in drop:
                for group in (triggers.INDEX_GROUP, triggers.DISTIL_GROUP):
                    self._redis.xack(self._key("turns", session), group, entry)
                self._redis.xdel(self._key("turns", session), entry)
                self._redis.hdel(self._key("left", session), entry)
            last = self._redis.hget(self._key("session", session), "indexed_entry") or ""
            self._redis.hincrby(self._key("session", session), "undistilled", -len(set(drop) - planned))
            self._redis.hincrby(
                self._key("session", session),
                "unindexed",
                -sum(1 for entry in drop if _position(entry) > _position(last)),
            )
            return int(self._redis.hdel(self._key("seen", session), *gone)) if gone else 0

    def unplanned(self, session: SessionKey) -> tuple[Turn, ...]:
        """A session's turns that no trigger has taken yet, oldest first."""
        with self._reaching():
            last = self._redis.hget(self._key("session", session), "planned_entry")
            return _turns(self._redis.xrange(self._key("turns", session), f"({last}" if last else "-"))

    def waiting(self, user_id: str) -> tuple[Turn, ...]:
        """A user's turns that are not through yet: not indexed, or not distilled."""
        found: list[Turn] = []
        for session in self.sessions(user_id):
            with self._reaching():
                found += _turns(self._redis.xrange(self._key("turns", session)))
        return tuple(found)

    def mentions(self, user_id: str, turn_ids: Iterable[str]) -> bool:
        """Whether a turn is in the buffer, in a recorded answer or in a dead letter of a user."""
        gone = set(turn_ids)
        if any(turn.turn_id in gone for turn in self.waiting(user_id)):
            return True
        with self._reaching():
            for key in self._redis.scan_iter(self._name("batch:*"), count=1000):
                owner, answer = self._redis.hmget(key, "user", "answer")
                if owner == user_id and answer and any(turn_id in answer for turn_id in gone):
                    return True
        return any(turn.turn_id in gone for letter in self.dead_letters(user_id) for turn in letter.turns)

    def purge(self) -> str:
        """Rewrite the append-only file, so that what was removed leaves the disk; says what was done."""
        import redis

        with self._reaching():
            if self._redis.config_get("appendonly").get("appendonly") != "yes":
                return "the buffer's server keeps no append-only file"
            try:
                self._redis.bgrewriteaof()
            except redis.ResponseError as error:
                if "in progress" not in str(error):
                    return f"the buffer's server refused to rewrite its append-only file: {error}"
            deadline = time.monotonic() + _REWRITE_SECONDS
            while time.monotonic() < deadline:
                state = self._redis.info("persistence")
                if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
                    return "the buffer's append-only file was rewritten"
                time.sleep(0.02)
        return f"the buffer's append-only file is still being rewritten after {_REWRITE_SECONDS:g} s"

    # Helpers.

    def _trigger(self, script: str, session: SessionKey, *arguments: object) -> Any:
        keys = [self._key(name, session) for name in ("turns", "session", "seen", "left")]
        keys += [self._name(name) for name in ("activity", "batches", "counters", "unindexed", "sessions")]
        head = [self._prefix, str(session), session.user_id, session.session_id, self._settings.batch_size]
        return self._run(script, keys, [*head, *arguments])

    def _release(self, batch: LeasedBatch, reason: str, most_attempts: int, retry_in: float) -> bool:
        keys = [self._batch(batch.batch_id), self._name("batches"), self._name("dead")]
        arguments = [batch.batch_id, self._owner, reason, most_attempts, int(retry_in * 1000)]
        return bool(self._run(leases.FAIL, keys, arguments))

    def _run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        with self._reaching():
            return self._scripts[script](keys=list(keys), args=list(arguments))

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
            yield entry, DeadLetter(fields["batch"], session, fields["reason"], turns, answer)

    def _batches_of(self, session: SessionKey) -> list[str]:
        prefix = self._name("batch:")
        return [
            key.removeprefix(prefix)
            for key in self._redis.scan_iter(prefix + "*", count=1000)
            if self._redis.hget(key, "session_key") == str(session)
        ]

    def _rewrite_batches(self, session: SessionKey, drop: set[str]) -> set[str]:
        """Take entries out of a session's batches; returns those that were in one."""
        planned: set[str] = set()
        for batch_id in self._batches_of(session):
            entries = (self._redis.hget(self._batch(batch_id), "entries") or "").split()
            hit = drop.intersection(entries)
            if not hit:
                continue
            planned |= hit
            kept = [entry for entry in entries if entry not in drop]
            if kept:
                self._redis.hset(self._batch(batch_id), "entries", " ".join(kept))
                self._redis.hdel(self._batch(batch_id), "answer")
            else:
                self._redis.zrem(self._name("batches"), batch_id)
                self._redis.delete(self._batch(batch_id))
        return planned

    @property
    def _lease_ms(self) -> int:
        return int(self._settings.buffer.lease.total_seconds() * 1000)

    def _name(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _key(self, name: str, session: SessionKey) -> str:
        return f"{self._prefix}:{name}:{session}"

    def _batch(self, batch_id: str) -> str:
        return self._name(f"batch:{batch_id}")

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except self._unreachable as error:
            raise MissingPartError(
                f"the buffer at {self.where} does not answer: {error}. Start the server, or check redis_url"
            ) from error


def _turns(entries: Iterable[tuple[str, dict[str, str]]] | Any) -> tuple[Turn, ...]:
    """Turns of stream entries; scripts give an entry's fields as a flat list, the client as a mapping."""
    found = []
    for _, raw in entries:
        fields = raw if isinstance(raw, dict) else dict(zip(raw[::2], raw[1::2], strict=True))
        found.append(replace(Turn.from_dict(json.loads(fields["turn"])), index=int(fields["index"])))
    return tuple(found)


def _of_user(key: str, user_id: str) -> bool:
    return key.startswith(quote(user_id, safe="") + "/")


def _position(entry: str) -> tuple[int, int]:
    """A stream entry id as numbers, so that ids compare by time."""
    if not entry:
        return (0, 0)
    milliseconds, _, number = entry.partition("-")
    return (int(milliseconds), int(number))


def _without_secrets(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
