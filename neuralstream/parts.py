"""The rooms, opened in the order they depend on each other and closed in reverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuralstream.clock import Clock
from neuralstream.errors import StoreMismatchError
from neuralstream.types import Status

if TYPE_CHECKING:
    from neuralstream.capture.buffer import Buffer
    from neuralstream.config import Settings
    from neuralstream.distilling import Distiller
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Extractor
    from neuralstream.extract.judge import Judge
    from neuralstream.indexing import Indexer
    from neuralstream.retrieve import Retriever
    from neuralstream.retrieve.graph import MemoryGraph
    from neuralstream.store.base import MemoryStore
    from neuralstream.worker import Worker

__all__ = ["Parts", "open_parts"]


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything one memory is made of. `close` lets go of all of it."""

    settings: Settings
    clock: Clock
    embedder: Embedder
    extractor: Extractor
    store: MemoryStore
    buffer: Buffer
    graph: MemoryGraph
    indexer: Indexer
    retriever: Retriever
    distiller: Distiller
    worker: Worker
    close: Callable[[], None]

    def status(self) -> Status:
        """How much is where."""
        from neuralstream.store.base import Where
        from neuralstream.store.schema import GEMS, TURNS

        buffer = self.buffer.status()
        return Status(
            turns=self.store.count(TURNS, Where(None, kind="turn")),
            gems=self.store.count(GEMS, Where(None, kind="gem")),
            sessions=buffer.sessions,
            undistilled=buffer.undistilled,
            unindexed=buffer.unindexed,
            batches_waiting=buffer.batches_waiting,
            batches_done=buffer.batches_done,
            dead_letters=buffer.dead_letters,
        )


def open_parts(
    settings: Settings,
    clock: Clock,
    embedder: Embedder | None,
    extractor: Extractor | None,
    on_tick: Callable[[], object],
) -> Parts:
    """Open every part the settings name; what was opened is closed again where a later one fails.

    Args:
        settings: which engines, and how.
        clock: tells the time, aware UTC.
        embedder, extractor: instead of those the settings name.
        on_tick: what the worker thread calls about every second.

    Raises:
        MissingPartError: a part is not installed or cannot be reached.
        StoreMismatchError: the store was filled by another embedder or analyser, or the weights are another's.
        StoreLockedError: another process holds the embedded store.
    """
    from neuralstream.capture.buffer import open_buffer
    from neuralstream.distilling import Distiller
    from neuralstream.embed import make_embedder
    from neuralstream.extract import make_extractor
    from neuralstream.indexing import Indexer, fingerprint
    from neuralstream.retrieve import Retriever
    from neuralstream.retrieve.graph import MemoryGraph
    from neuralstream.store import open_store, store_address
    from neuralstream.worker import Worker

    with ExitStack() as opened:
        if embedder is None:
            embedder = make_embedder(settings)
            opened.callback(getattr(embedder, "close", lambda: None))
        _check_tuned(settings, embedder)
        if extractor is None:
            extractor = make_extractor(settings)
            opened.callback(getattr(extractor, "close", lambda: None))
        store = open_store(settings, fingerprint(embedder))
        opened.callback(store.close)
        buffer = open_buffer(settings, sole_owner=settings.qdrant_url is None, feeds=store_address(settings))
        opened.callback(buffer.close)
        graph = MemoryGraph(store, settings.retrieval)
        indexer = Indexer(store, embedder, settings.retrieval)
        distiller = Distiller(
            settings,
            buffer=buffer,
            store=store,
            embedder=embedder,
            indexer=indexer,
            extractor=extractor,
            judge=opened.enter_context(_judge(settings)),
        )
        return Parts(
            settings=settings,
            clock=clock,
            embedder=embedder,
            extractor=extractor,
            store=store,
            buffer=buffer,
            graph=graph,
            indexer=indexer,
            retriever=Retriever(store, embedder, settings.retrieval, graph, sole_owner=settings.qdrant_url is None),
            distiller=distiller,
            worker=Worker(buffer, indexer, distiller, on_tick),
            close=opened.pop_all().close,
        )


@contextmanager
def _judge(settings: Settings) -> Iterator[Judge | None]:
    """What decides between gems where the rules cannot; None where the settings ask for rules alone."""
    if not settings.extract.judge:
        yield None
        return
    from neuralstream.extract.judge import Judge
    from neuralstream.llm import make_language_model

    with make_language_model(settings) as model:
        yield Judge(model)


def _check_tuned(settings: Settings, embedder: Embedder) -> None:
    """Refuse weights that were fitted to another model's cosines."""
    tuned = settings.retrieval.tuned
    if tuned is not None and tuned.embedder_digest != embedder.digest:
        raise StoreMismatchError(
            f"the weights under [retrieval] were tuned with the embedder {tuned.embedder} "
            f"({tuned.embedder_digest[:12]}), and this memory's is {embedder.name} ({embedder.digest[:12]}); run "
            "`neuralstream tune` with it, or take [retrieval.tuned] and the weights out of the file"
        )
