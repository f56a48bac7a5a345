"""NeuralStream: the one object that joins the rooms, in the order data flows.

capture → (worker: index, distil) → store → search, recent, thread, themes → context
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from neuralstream.capture.records import SessionKey
from neuralstream.clock import Clock, parse_time, utc_now
from neuralstream.config import Settings
from neuralstream.errors import InputError, StoreError
from neuralstream.reading import ReadableMemory
from neuralstream.types import (
    EndReason,
    Gem,
    GemTag,
    Status,
    Turn,
    Usage,
    checked_reason,
    checked_tags,
    checked_turn,
    checked_usage,
)

if TYPE_CHECKING:
    from neuralstream.capture.records import DeadLetter
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Extractor
    from neuralstream.forgetting import Forgotten

__all__ = ["NeuralStream"]

_log = logging.getLogger(__name__)


class NeuralStream(ReadableMemory):
    """Memory for agents: give it every turn, ask it before every prompt. Safe to share between threads.

    Args:
        settings: None is `Settings.load()`.
        clock: tells the time, aware UTC; a replay passes a virtual one.
        embedder, extractor: instead of those the settings name.

    Raises:
        InputError: the settings are none, or no work could be done with them.
        MissingPartError: a part is not installed or cannot be reached.
        StoreMismatchError: the store was filled by another embedder or analyser.
        StoreLockedError: another process holds the embedded store.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        embedder: Embedder | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        from neuralstream.forgetting import Retention, finish_forgetting
        from neuralstream.parts import open_parts
        from neuralstream.upkeep import DiskLimit

        self.settings = settings or Settings.load()
        if not isinstance(self.settings, Settings):
            raise InputError(f"settings are a Settings, got {settings!r}; Settings.load({settings!r}) reads a file")
        if self.settings.worker == "none" and self.settings.qdrant_url is None:
            raise InputError(
                "worker = 'none' leaves the work to other processes, which the embedded store cannot serve: "
                "set qdrant_url, or use worker = 'thread'"
            )
        self._clock = clock or utc_now
        self.parts = open_parts(self.settings, self._clock, embedder, extractor, on_tick=self.tick)
        self._disk_limit = DiskLimit(self.settings)
        self._mine: set[SessionKey] = set()
        self._retention = Retention(self.parts)
        self._closed = False
        with ExitStack() as on_error:
            on_error.callback(self.parts.close)
            finish_forgetting(self.parts)
            on_error.pop_all()
        if self.settings.worker == "thread":
            self.parts.worker.start()

    # What a host reports.

    def capture(self, turn: Turn) -> bool:
        """Keep a turn. On return it survives kill -9, is found by every search, and counts towards the triggers.

        Our own injected block, host metadata and heartbeats are stripped, secrets masked.

        Returns:
            True when it is new; False when its id is known, or nothing is left of it after cleaning.

        Raises:
            StoreError: the data folder is larger than `max_disk_mb`; nothing is lost but this turn is not kept.
            MissingPartError: the buffer cannot be reached. With worker "inline", also when another part is down: then
                the turn is in the buffer and is worked on by the next call.
        """
        new = self._keep(turn)
        self._work()
        return new

    def capture_all(self, turns: Iterable[Turn]) -> int:
        """Keep many turns, in order; returns how many were new. Raises what `capture` does.

        They form the same batches as one by one; indexing them together is several times faster.
        """
        try:
            return sum(map(self._keep, turns))
        finally:
            self._work()

    def turn_end(
        self, session_id: str, usage: Usage | None, *, user_id: str | None = None, turn_id: str | None = None
    ) -> bool:
        """Report how full the context is after a turn; crossing `context_threshold` distils everything undistilled.

        Args:
            session_id: whose context it is.
            usage: None or a percent of None is unknown and fires nothing.
            user_id: None is the settings' user.
            turn_id: the turn it was measured after, so that reporting it twice counts once.

        Returns True when it fired: once each time the threshold is crossed from below.
        """
        known = checked_usage(usage)
        percent = None if known is None else known.percent
        fired = self.parts.buffer.turn_end(self._session(session_id, user_id), percent, turn_id=turn_id)
        if fired:
            self._work()
        return fired

    def tick(self, now: datetime | None = None) -> int:
        """Run what depends on time: the idle trigger, and retention once a day. The worker thread calls it by itself.

        Returns for how many sessions the idle trigger fired.
        """
        now = parse_time(now or self._clock())
        fired = self.parts.buffer.fire_idle(now)
        if fired:
            self._work()
        self._retention.enforce(now)
        return len(fired)

    def end_session(self, session_id: str, *, reason: EndReason = "end", user_id: str | None = None) -> None:
        """Distil what a session has left: it ended, was reset, or the host is about to compact it.

        Raises InputError where the reason is none of these.
        """
        if self.parts.buffer.end(self._session(session_id, user_id), checked_reason(reason)):
            self._work()

    def flush(self, timeout: float | None = None) -> None:
        """Distil every session's tail, index everything, and wait until that is done.

        Raises:
            StoreError: it was not done within `timeout` seconds.
        """
        for session in self.parts.buffer.sessions():
            if self.parts.buffer.undistilled(session):
                self.parts.buffer.end(session, "end")
        self._work()
        if self.settings.worker != "inline" and not self.parts.worker.wait_idle(timeout):
            within = "" if timeout is None else f" within {timeout:g} s"
            raise StoreError(
                f"not everything could be indexed and distilled{within}; the log says why, the worker goes on"
            )

    # Gems.

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[GemTag] = ("fact",),
        topics: Sequence[str] = (),
        importance: float = 0.8,
        user_id: str | None = None,
    ) -> Gem:
        """Store a statement as a gem, at once.

        Its source is a turn of the session "remembered", so that it can be traced and forgotten like any other.

        Raises:
            InputError: the text is empty, or a tag is unknown.
        """
        from neuralstream.upkeep import remember

        return remember(
            self.parts,
            text,
            tags=checked_tags(tags),
            topics=tuple(topics),
            importance=importance,
            user_id=self._user(user_id),
        )

    def correct(self, gem_id: str, text: str, *, user_id: str | None = None) -> Gem:
        """Replace what a gem says by a new gem of the same source; the old one stays on record.

        Raises InputError where the text is empty or the gem was replaced already.
        """
        from neuralstream.history import correct

        return correct(self.parts, self._user(user_id), gem_id, text)

    # Upkeep.

    def forget(
        self,
        *,
        gem_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        before: datetime | None = None,
    ) -> Forgotten:
        """Remove a gem, a session, everything before a date, or (with `user_id` alone) everything of a user.

        It is removed from both collections, the buffer, recorded answers, dead letters and the embedding cache, the
        files that held it are rewritten, and the result proves it by asking all of them again.

        Raises:
            InputError: not exactly one of gem, session, date, or a user alone is named.
            NotFoundError: there is no such gem.
        """
        from neuralstream.forgetting import forget

        return forget(self.parts, gem_id=gem_id, session_id=session_id, user_id=user_id, before=before)

    def export(self, path: Path | str, *, user_id: str | None = None) -> int:
        """Write a user's turns and gems as JSON lines; returns how many."""
        from neuralstream.upkeep import export

        return export(self.parts, Path(path), self._user(user_id))

    def restore(self, path: Path | str, *, user_id: str | None = None) -> int:
        """Read an export into this memory, under its own user or another; returns how many were new."""
        from neuralstream.upkeep import restore

        return restore(self.parts, Path(path), user_id)

    @staticmethod
    def reindex(settings: Settings | None = None, *, embedder: Embedder | None = None) -> int:
        """Fill the store anew after a change of embedder, analyser or engine; returns how many turns and gems.

        No memory may be open on the same data meanwhile. A crash leaves the old store as it was.
        """
        from neuralstream.upkeep import reindex

        return reindex(settings or Settings.load(), embedder)

    def status(self) -> Status:
        """How much is where."""
        return self.parts.status()

    def dead_letters(self, *, user_id: str | None = None) -> list[DeadLetter]:
        """Batches that could not be distilled, each with its reason and its turns; None is every user's."""
        return self.parts.buffer.dead_letters(user_id)

    def retry_dead_letters(self, *, user_id: str | None = None) -> int:
        """Distil dead letters again; returns how many were queued."""
        queued = self.parts.buffer.retry_dead_letters(user_id)
        self._work()
        return queued

    def close(self) -> None:
        """Distil the tails of the sessions captured here, stop the worker, and let go of every part.

        What the worker does not finish stays in the buffer and is done at the next start. Closing twice is fine.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for session in sorted(self._mine.copy()):
                self.parts.buffer.end(session, "shutdown")
            self._finish()
        finally:
            self.parts.worker.stop()
            self.parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Helpers.

    def _keep(self, turn: Turn) -> bool:
        from neuralstream.capture.intake import prepare

        self._disk_limit.check()
        now = self._clock()
        kept = prepare(checked_turn(turn), self.settings, now)
        if kept is None:
            return False
        new = self.parts.buffer.append(kept, now)
        if new:
            self._mine.add(self._session(kept.session_id, kept.user_id))
        return new

    def _work(self) -> None:
        if self.settings.worker == "inline":
            self.parts.worker.work()
        else:
            self.parts.worker.wake()

    def _finish(self) -> None:
        self._work()
        seconds = self.settings.close_timeout.total_seconds()
        if self.settings.worker == "thread" and not self.parts.worker.wait_idle(seconds):
            _log.warning("closed with work left, which stays in the buffer and is done at the next start")
