"""Who does the work that capture leaves: inside the call, or in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from neuralstream.errors import MissingPartError

if TYPE_CHECKING:
    from neuralstream.capture.buffer import Buffer
    from neuralstream.distilling import Distiller
    from neuralstream.indexing import Indexer

__all__ = ["Worker"]

_log = logging.getLogger(__name__)

_IDLE_SCAN_SECONDS = 1.0
_AFTER_ERROR_SECONDS = 5.0


class Worker:
    """Indexes captured turns and distils planned batches, one at a time.

    Args:
        on_tick: called about every second by the thread; it runs the idle trigger.
    """

    def __init__(
        self, buffer: Buffer, indexer: Indexer, distiller: Distiller, on_tick: Callable[[], object] = lambda: None
    ) -> None:
        self._buffer = buffer
        self._indexer = indexer
        self._distiller = distiller
        self._on_tick = on_tick
        self._one_at_a_time = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._stuck = False
        self._thread: threading.Thread | None = None

    def index_all(self) -> None:
        """Make everything captured searchable."""
        with self._one_at_a_time:
            self._index_all()

    def work(self, *, patient: bool = False) -> None:
        """Index and distil until nothing is left that could be done now; see `Distiller.distil_one`."""
        with self._one_at_a_time:
            self._index_all()
            while not self._stop.is_set() and self._distiller.distil_one(patient=patient):
                self._index_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Index what is captured, then let nothing be indexed or distilled meanwhile."""
        with self._one_at_a_time:
            self._index_all()
            yield

    def start(self) -> None:
        """Work in a background thread until `stop`."""
        self._thread = threading.Thread(target=self._run, name="neuralstream-worker", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell the thread that there is something to do."""
        self._wake.set()

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until nothing is left to index or distil; False where `timeout` seconds passed or a part is down."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self.wake()
            status = self._buffer.status()
            if not status.unindexed and not status.batches_waiting:
                return True
            if self._stuck or (deadline is not None and time.monotonic() > deadline):
                return False
            time.sleep(0.02)

    def stop(self) -> None:
        """Finish the work in hand and end the thread. What is left stays in the buffer for the next start."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _index_all(self) -> None:
        while taken := self._buffer.take_unindexed():
            self._indexer.index_turns(taken.turns)
            if not self._buffer.indexed(taken):
                _log.warning("session %s was taken over while it was indexed", taken.session)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_IDLE_SCAN_SECONDS)
            self._wake.clear()
            try:
                self._on_tick()
                self.work(patient=True)
                self._stuck = False
                continue
            except MissingPartError as error:
                _log.warning("a part is down, trying again in %g s: %s", _AFTER_ERROR_SECONDS, error)
            except Exception:  # noqa: BLE001 - the thread's boundary: an unforeseen fault must not end capture and search
                _log.exception("the worker could not go on, trying again in %g s", _AFTER_ERROR_SECONDS)
            self._stuck = True
            self._stop.wait(_AFTER_ERROR_SECONDS)
