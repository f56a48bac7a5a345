"""A memory that holds a data set and waits to be asked, by one evaluation or by several that differ in the search."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from neuralstream.extract import make_extractor
from neuralstream.retrieve import Retriever
from neuralstream.retrieve.graph import MemoryGraph
from neuralstream.workbench.filling import NoExtractor, Progress, filled_memory, replayed_memory
from neuralstream.workbench.metering import MeteredExtractor, close_after
from neuralstream.workbench.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Extractor
    from neuralstream.stream import NeuralStream
    from neuralstream.types import Lane
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.timeline import Timeline

__all__ = ["Prepared", "prepared_memory"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A memory that holds a set, and how it came to.

    Attributes:
        memory: which is asked.
        timeline: what happened when; None where no host was simulated.
        clock: shows the time of the last turn.
        extractor: what distilled.
        metered: what that gave and cost.
    """

    memory: NeuralStream
    timeline: Timeline | None
    clock: VirtualClock
    extractor: Extractor
    metered: MeteredExtractor

    def searched_by(self, settings: Settings) -> NeuralStream:
        """The same memory, searched as other settings say; closing it is for whoever prepared it."""
        view, parts = copy.copy(self.memory), self.memory.parts
        kept = {name: getattr(self.memory.settings, name) for name in ("home", "worker")}
        view.settings = settings.model_copy(update=kept)
        graph = MemoryGraph(parts.store, settings.retrieval)
        view.parts = replace(
            parts,
            settings=view.settings,
            graph=graph,
            retriever=Retriever(parts.store, parts.embedder, settings.retrieval, graph),
        )
        return view


@contextmanager
def prepared_memory(
    dataset: Dataset,
    settings: Settings,
    folder: Path,
    *,
    lanes: Sequence[Lane],
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
    progress: Progress | None = None,
) -> Iterator[Prepared]:
    """A memory filled with a set. Where only turns are searched no gems are made; with a host, conversations are lived.

    Args:
        dataset: what is captured.
        settings: of the memory.
        folder: holds its data until it is closed.
        lanes: what will be searched.
        embedder, extractor: used instead of what the settings name.
        progress: told how many turns were captured.
    """
    clock = VirtualClock()
    with_gems = set(lanes) != {"turns"}
    with ExitStack() as opened:
        if extractor is None:
            extractor = make_extractor(settings) if with_gems else NoExtractor()
            opened.callback(close_after(extractor))
        metered = MeteredExtractor(extractor)
        fill = replayed_memory if with_gems and settings.context_window else filled_memory
        memory, timeline = opened.enter_context(
            fill(dataset, settings, folder, clock=clock, embedder=embedder, extractor=metered, progress=progress)
        )
        yield Prepared(memory, timeline, clock, extractor, metered)
