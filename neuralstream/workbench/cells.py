"""The cells of a sweep: configurations under the names that their runs will have, known before anything is run.

A run's digest is made of the data's hash, the settings that can change a result, the core's sources, what is asked, the
embedder's digest and what distils. None of these needs a model to be loaded, so a sweep that is complete is seen to be
complete in no time.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from neuralstream.errors import SettingsError
from neuralstream.ranking import Kind
from neuralstream.workbench.filling import NoExtractor
from neuralstream.workbench.metering import close_after, extractor_facts
from neuralstream.workbench.reference_gems import read_reference_gems, references_facts
from neuralstream.workbench.runs import run_digest
from neuralstream.workbench.sweep_file import settings_of

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.types import Lane
    from neuralstream.workbench.datasets import Dataset

__all__ = ["Asked", "Cell", "CellMaker", "filling_settings", "grouped"]

_SEARCH_ONLY = frozenset(
    {
        "mode", "lane", "k", "candidates", "shortlist", "exact_below", "reranker", "rerank_depth", "tuned",
        "graph_restart",
    }
)  # fmt: skip
"""Under `retrieval`: what a filled memory does not depend on."""

_SEARCH_ONLY_OF_A_KIND = frozenset({"weights", "bm25_k1", "bm25_b"})

_INJECTION = frozenset({"max_gems_injected", "context_budget"})

_HOST = frozenset({"context_threshold", "compact_at", "compact_to"})
"""Without meaning where no host is simulated."""

_DISTILLING = frozenset({"batch_size", "idle_timeout", "context_window", "extract", "llm", "gem_model", *_HOST})
"""Without meaning where no gems are made: turns are turns, whenever they are distilled."""


class Asked(NamedTuple):
    """What every cell of a sweep is asked, as `evaluate` takes it."""

    modes: tuple[str, ...]
    lanes: tuple[Lane, ...]
    k: int
    depth: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration.

    Attributes:
        sweep: name of the sweep it belongs to; of the first one where several have it.
        varied: settings that this sweep varies, by dotted name.
        settings: all of them.
        digest: of its run, and the name of its folder.
        filled: names the memory it asks; cells that share it can share the memory.
    """

    sweep: str
    varied: Mapping[str, Any]
    settings: Settings
    digest: str
    filled: str


class CellMaker:
    """Makes cells of a data set.

    Args:
        dataset: what is asked.
        base: settings under those of the sweep.
        asked: what every cell is asked.
    """

    def __init__(self, dataset: Dataset, base: Settings, asked: Asked) -> None:
        self._dataset = dataset
        self._base = base
        self._asked = asked
        self._embedders: dict[str, str] = {}

    def cell(self, sweep: str, *layers: Mapping[str, Any], varied: Mapping[str, Any]) -> Cell:
        """The cell whose settings are the base's, then those of `layers`, then `varied`.

        Raises:
            SettingsError: a setting is unknown, malformed or out of range, or varied although it would mean nothing.
            NeuralStreamError: what distils cannot be made, such as a prompt that is not there.
        """
        settings = settings_of(self._base, *layers, varied)
        idle = sorted(_HOST & varied.keys())
        if idle and settings.context_window is None:
            raise SettingsError(
                f"{', '.join(idle)} would change nothing: a log tells of no context that fills up. Set context_window, "
                "the tokens that a simulated host holds, beside it, as notebooks/sweep.yaml does"
            )
        embedder = self._embedder_digest(settings)
        distilling = self._distilling(settings)
        filling = [filling_settings(settings, self._asked.lanes), distilling, embedder]
        filled = hashlib.sha256(json.dumps(filling, sort_keys=True).encode()).hexdigest()[:16]
        asked = self._asked._asdict() | {"modes": list(self._asked.modes), "lanes": list(self._asked.lanes)}
        digest = run_digest(self._dataset.sha256, settings.digest(), asked, embedder, distilling)
        return Cell(sweep, dict(varied), settings, digest, filled)

    def _distilling(self, settings: Settings) -> dict[str, Any]:
        from neuralstream.extract import make_extractor

        if settings.llm.mode == "record":
            raise SettingsError(
                "llm.mode = record: a run's name covers the recorded answers, which would change under it; record them "
                "with `neuralstream eval`, then sweep with llm.mode = replay"
            )
        if set(self._asked.lanes) == {"turns"}:
            return extractor_facts(NoExtractor(), settings.llm)
        extractor = make_extractor(settings)
        facts = extractor_facts(extractor, settings.llm)
        close_after(extractor)()
        return facts | references_facts(read_reference_gems(self._dataset))

    def _embedder_digest(self, settings: Settings) -> str:
        from neuralstream.embed import make_embedder

        key = settings.model_dump_json(include={"embedding", "embed"})
        if key not in self._embedders:
            embedder = make_embedder(settings)
            self._embedders[key] = embedder.digest
            getattr(embedder, "close", lambda: None)()
        return self._embedders[key]


def filling_settings(settings: Settings, lanes: Iterable[Lane]) -> dict[str, Any]:
    """The settings that a filled memory depends on, JSON-ready: not how it is searched, nor what has no effect here."""
    kept = settings.deciding()
    dropped = set(_INJECTION)
    if settings.context_window is None:
        dropped |= _HOST
    if set(lanes) == {"turns"}:
        dropped |= _DISTILLING
    retrieval = {name: value for name, value in kept["retrieval"].items() if name not in _SEARCH_ONLY}
    for kind in get_args(Kind):
        retrieval[kind] = {name: value for name, value in retrieval[kind].items() if name not in _SEARCH_ONLY_OF_A_KIND}
    return {name: value for name, value in kept.items() if name not in dropped} | {"retrieval": retrieval}


def grouped(cells: Iterable[Cell], *, at_least: int) -> list[tuple[Cell, ...]]:
    """Cells that can share a memory, together, in their order.

    Args:
        cells: which differ.
        at_least: how many groups there shall be, as far as there are cells: filling a memory twice costs less than a
            processor that has nothing to do. The largest groups are cut in two.
    """
    by_memory: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_memory[cell.filled].append(cell)
    groups = [tuple(members) for members in by_memory.values()]
    while len(groups) < at_least:
        largest = max(groups, key=len, default=())
        if len(largest) < 2:
            break
        place, half = groups.index(largest), len(largest) // 2
        groups[place : place + 1] = [largest[:half], largest[half:]]
    return groups
