"""Who does the work that capture leaves: inside the call, or in a background thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from neuralstream.errors import MissingPartError, NeuralStreamError

if TYPE_CHECKING:
    from neuralstream.capture.buffer import Buffer
    from neuralstream.distilling import Distiller
    from neuralstream.indexing import Indexer
    from neuralstream.types import Turn

__all__ = ["Worker"]

_log = logging.getLogger(__name__)

_IDLE_SCAN_SECONDS = 1.0
_AFTER_ERROR_SECONDS = 5.0

_CHARS_AT_ONCE = 400_000
"""Characters indexed between two looks whether to stop: two turns of the longest, which take seconds to embed."""


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
        self._retry = threading.Event()
        self._stuck = False
        self._ticked_at = -_IDLE_SCAN_SECONDS
        self._thread: threading.Thread | None = None

    def index_all(self) -> None:
        """Make everything captured searchable."""
        while self._one_step(self._index_some):
            pass

    def work(self, *, patient: bool = False) -> None:
        """Index and distil until nothing is left that could be done now; see `Distiller.distil_one`."""
        distil = partial(self._distiller.distil_one, patient=patient)
        while not self._stop.is_set() and (self._one_step(self._index_some) or self._one_step(distil)):
            if self._thread is not None:
                self._tick()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Index what is captured, then let nothing be indexed or distilled meanwhile."""
        with self._one_at_a_time:
            while self._index_some():
                pass
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
        self._stuck = False
        self._retry.set()
        while True:
            self.wake()
            if self._buffer.is_idle():
                return True
            if self._stuck or (deadline is not None and time.monotonic() > deadline):
                return False
            time.sleep(0.02)

    def stop(self) -> None:
        """Finish the work in hand and end the thread. What is left stays in the buffer for the next start."""
        self._stop.set()
        self._wake.set()
        self._retry.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _one_step(self, step: Callable[[], bool]) -> bool:
        """One piece of work; between two, somebody else may have the store for themselves."""
        with self._one_at_a_time:
            return step()

    def _index_some(self) -> bool:
        taken = self._buffer.take_unindexed()
        if taken is None:
            return False
        done = 0
        for some in _portions(taken.turns):
            if done and self._stop.is_set():
                break
            self._index(some)
            done += len(some)
        if not self._buffer.indexed(taken._replace(entries=taken.entries[:done], turns=taken.turns[:done])):
            _log.warning("session %s was taken over while it was indexed", taken.session)
        return True

    def _index(self, turns: Sequence[Turn]) -> None:
        """Index turns; one that cannot be embedded holds up no other, and is found by its words."""
        try:
            self._indexer.index_turns(turns)
        except MissingPartError:
            raise
        except NeuralStreamError as error:
            if len(turns) > 1:
                for turn in turns:
                    self._index((turn,))
            else:
                _log.warning("turn %s is found by its words only: %s", turns[0].turn_id, error)
                self._indexer.index_turns(turns, embed=False)

    def _tick(self) -> None:
        if time.monotonic() - self._ticked_at >= _IDLE_SCAN_SECONDS:
            self._ticked_at = time.monotonic()
            self._on_tick()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_IDLE_SCAN_SECONDS)
            self._wake.clear()
            try:
                self._tick()
                self.work(patient=True)
                self._stuck = False
                continue
            except MissingPartError as error:
                _log.warning("a part is down, trying again in %g s: %s", _AFTER_ERROR_SECONDS, error)
            except Exception:  # noqa: BLE001 - the thread's boundary: a fault must not end capture and search
                _log.exception("the worker could not go on, trying again in %g s", _AFTER_ERROR_SECONDS)
            self._stuck = True
            self._retry.wait(_AFTER_ERROR_SECONDS)
            self._retry.clear()


def _portions(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """The turns in order, in parts of at most `_CHARS_AT_ONCE` characters or one turn."""
    start = size = 0
    for end, turn in enumerate(turns):
        length = len(turn.text)
        if end > start and size + length > _CHARS_AT_ONCE:
            yield turns[start:end]
            start, size = end, 0
        size += length
    yield turns[start:]
