"""What hybrid's linear model reads for every labelled question, collected through the memory that serves.

Indexing a data set takes minutes and fitting takes seconds, so collected tables can be kept in a folder. A kept file is
used again only for the same data, core, settings and embedder; its name is the digest of these.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from neuralstream.analysis import ANALYSER
from neuralstream.errors import DatasetError
from neuralstream.ranking import FEATURES, Kind
from neuralstream.retrieve import Query
from neuralstream.retrieve.documents import turn_point_id
from neuralstream.workbench import datasets
from neuralstream.workbench.filling import NoExtractor, asked_at, filled_memory
from neuralstream.workbench.fitting import Asked
from neuralstream.workbench.runs import core_digest
from neuralstream.workbench.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.filling import Progress

__all__ = ["Tables", "collect", "collect_all"]


@dataclass(frozen=True, slots=True)
class Tables:
    """A data set's scored questions, each with its candidates.

    Attributes:
        name, sha256, split, cluster: of the data set.
        spec: how a command names it, without the folder it lies in.
        embedder, embedder_digest, analyser: what the values were computed with.
        features: names of the columns of the questions' values.
        questions: those with evidence.
    """

    name: str
    sha256: str
    split: str
    cluster: str
    spec: str
    embedder: str
    embedder_digest: str
    analyser: str
    features: tuple[str, ...]
    questions: tuple[Asked, ...]


def collect_all(
    specs: Sequence[str],
    settings: Settings,
    folder: Path | None = None,
    *,
    features: Sequence[str] = FEATURES,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> list[Tables]:
    """`collect` for every SPEC.

    Args:
        specs: data sets.
        settings: of the memory; its weights have no influence.
        folder: where tables are kept and found again; None keeps none.
        features: names of the features.
        embedder: used instead of what the settings name.
        progress: told (stage, done, total) as work goes on.

    Raises:
        DatasetError: a SPEC names nothing, or a set has no question with evidence.
    """
    from neuralstream.embed import make_embedder

    loaded = [datasets.load(spec) for spec in specs]
    with ExitStack() as opened:
        if embedder is None:
            embedder = make_embedder(settings)
            opened.callback(getattr(embedder, "close", lambda: None))
        place = folder or Path(opened.enter_context(tempfile.TemporaryDirectory()))
        place.mkdir(parents=True, exist_ok=True)
        return [
            collect(one, settings, features, place, embedder=embedder, keep=folder is not None, progress=progress)
            for one in loaded
        ]


def collect(
    dataset: Dataset,
    settings: Settings,
    features: Sequence[str],
    folder: Path,
    *,
    embedder: Embedder,
    keep: bool = False,
    progress: Progress | None = None,
) -> Tables:
    """Fill a memory with a data set, ask its questions, and read the candidates' features instead of a ranking.

    Args:
        dataset: a labelled set.
        settings: of the memory; its weights have no influence.
        features: names of the features.
        folder: for the memory's data while it is needed, and for kept tables.
        embedder: turns texts into vectors.
        keep: write the tables into `folder`, and use those that are there.
        progress: told (stage, done, total) as work goes on.

    Raises:
        DatasetError: no question has evidence.
    """
    if not any(question.evidence for _, question in dataset.questions()):
        raise DatasetError(f"{dataset.name} has no question with evidence; weights are fitted to labelled questions")
    file = folder / f"tables-{_digest(dataset, settings, features, embedder)}.npz"
    if keep and file.is_file():
        questions = tuple(_read(file))
    else:
        clock = VirtualClock()
        with filled_memory(
            dataset, settings, folder, clock=clock, embedder=embedder, extractor=NoExtractor(), progress=progress
        ) as (memory, _):
            questions = tuple(_ask(memory, dataset, features, clock, progress))
        if keep:
            _write(file, questions)
    return Tables(
        name=dataset.name,
        sha256=dataset.sha256,
        split=dataset.spec.split or "",
        cluster=dataset.cluster,
        spec=dataset.name if dataset.shipped else f"{dataset.spec.format}:{dataset.name}",
        embedder=embedder.name,
        embedder_digest=embedder.digest,
        analyser=ANALYSER,
        features=tuple(features),
        questions=questions,
    )


def _ask(
    memory: NeuralStream, dataset: Dataset, features: Sequence[str], clock: VirtualClock, progress: Progress | None
) -> Iterator[Asked]:
    scored = [(conversation, question) for conversation, question in dataset.questions() if question.evidence]
    for done, (conversation, question) in enumerate(scored, 1):
        user = conversation.name
        as_of = asked_at(conversation, question, clock)
        table = memory.parts.retriever.table(Query(question.text, user, as_of, lane="turns"), features)
        order = sorted(range(len(table.ids)), key=table.ids.__getitem__)
        yield Asked(
            dataset=dataset.name,
            conversation=user,
            query_id=question.query_id,
            category=question.category,
            kind=table.kind,
            ids=tuple(table.ids[n] for n in order),
            values=table.values[order].astype(np.float32),
            gold=frozenset(turn_point_id(user, turn_id) for turn_id in question.evidence),
        )
        if progress:
            progress("ask", done, len(scored))


def _digest(dataset: Dataset, settings: Settings, features: Sequence[str], embedder: Embedder) -> str:
    """Names kept tables by all that determines them; weights do not."""
    kept = settings.model_dump(mode="json", include={"retrieval", "embed", "extract", "batch_size", "redact"})
    kept["retrieval"].pop("tuned", None)
    for kind in get_args(Kind):
        kept["retrieval"][kind].pop("weights")
    parts = [dataset.sha256, dataset.name, core_digest(), kept, list(features), embedder.digest]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _write(file: Path, questions: Sequence[Asked]) -> None:
    about = [
        [one.dataset, one.conversation, one.query_id, one.category, one.kind, sorted(one.gold)] for one in questions
    ]
    fresh = file.with_suffix(".fresh.npz")
    np.savez(
        fresh,
        about=np.array(json.dumps(about)),
        ids=np.array([name for one in questions for name in one.ids]),
        sizes=np.array([len(one.ids) for one in questions]),
        values=np.concatenate([one.values for one in questions]),
    )
    fresh.replace(file)


def _read(file: Path) -> Iterator[Asked]:
    with np.load(file) as kept:
        about, ids, values = json.loads(str(kept["about"])), kept["ids"], kept["values"]
        ends = np.cumsum(kept["sizes"])
    for (*named, gold), begin, end in zip(about, [0, *ends[:-1]], ends, strict=True):
        dataset, conversation, query_id, category, kind = named
        own = tuple(str(name) for name in ids[begin:end])
        yield Asked(dataset, conversation, query_id, category, kind, own, values[begin:end], frozenset(gold))
