"""Load a labelled data set through the memory that serves, ask its questions, score what comes back.

Each conversation is one user of one memory in the run's own folder, filled as `filling.py` says; every question
is asked as of its own date, else as of the last turn's time. What distilling made is held against reference gems where
the set has them, and raw turns at the same budget stand beside it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

import numpy as np

from neuralstream.config import Settings
from neuralstream.errors import DatasetError, InputError
from neuralstream.types import Hit, Lane, Mode
from neuralstream.workbench import datasets
from neuralstream.workbench.baselines import BASELINES, Baseline, OkapiRanking
from neuralstream.workbench.filling import Progress, asked_at
from neuralstream.workbench.metering import extractor_facts
from neuralstream.workbench.policy import policy_metrics
from neuralstream.workbench.prepared import Prepared, prepared_memory
from neuralstream.workbench.reference_gems import agreement, read_reference_gems, references_facts
from neuralstream.workbench.runs import QueryResult, Run, core_digest, run_digest, versions, write_run
from neuralstream.workbench.scoring import SEED, InjectedTokens, dataset_facts, gem_facts, lane_metrics, query_result
from neuralstream.workbench.shared_answers import Answer, SharedAnswers
from neuralstream.workbench.stats import RESAMPLES

if TYPE_CHECKING:
    from neuralstream.capture.records import DeadLetter
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Extractor
    from neuralstream.logs.base import Conversation
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.metering import MeteredExtractor
    from neuralstream.workbench.stats import Interval
    from neuralstream.workbench.virtual_clock import VirtualClock

__all__ = ["DEPTH", "MODES", "Progress", "beside_turns", "evaluate"]

MODES: tuple[str, ...] = get_args(Mode)
"""What is compared where nothing is named; the workbench's own baselines are extra."""

DEPTH = 100
"""How deep a ranking is read: MRR and evidence at a budget see this many hits. 2,000 tokens hold about 60 of them."""

_ADDRESSES = {"redis_url", "qdrant_url", "qdrant_api_key", "ollama_url", "openai_url", "openai_api_key"}
"""Left out of what is recorded: they change no result, and may hold a password."""


def evaluate(
    dataset: datasets.Dataset | str,
    settings: Settings | None = None,
    *,
    modes: Sequence[str] = MODES,
    lanes: Sequence[Lane] = ("turns",),
    out: Path | str,
    k: int = 10,
    depth: int = DEPTH,
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
    prepared: Prepared | None = None,
    shared: SharedAnswers | None = None,
    progress: Progress | None = None,
) -> Run:
    """Score rankings of a data set and write the run into `out`.

    Questions without readable evidence are counted, not asked. Where only turns are searched, no gems are made. A batch
    that cannot be distilled is counted and written to `dead_letters.jsonl`. With `context_window` set, conversations
    are replayed as a host would have lived them, and the metrics have the capture policy's under "policy".

    Args:
        dataset: a loaded set, or its SPEC.
        settings: what is evaluated; its home is replaced by a folder inside `out` that is removed afterwards.
        modes: rankings to compare: the core's modes, and the `baselines`.
        lanes: what is searched: turns, gems, all.
        out: folder of the run.
        k: hits recorded for each query.
        depth: hits retrieved for each query.
        embedder, extractor: used instead of what the settings name.
        prepared: a memory that holds the set already, filled under settings that differ in nothing but the search.
        shared: answers of other runs, which are not asked for again.
        progress: told (stage, done, total) as work goes on.

    Raises:
        DatasetError: no question has evidence.
        InputError: a mode or lane is unknown.
        CassetteMissError: an answer is to be replayed that was not recorded.
        MissingPartError: a model does not answer.
    """
    dataset = datasets.load(dataset) if isinstance(dataset, str) else dataset
    _check(dataset, modes, lanes)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    settings = settings or Settings()
    began = time.perf_counter()
    latencies: dict[tuple[str, str], list[float]] = defaultdict(list)
    with ExitStack() as opened:
        if prepared is None:
            prepared = opened.enter_context(
                prepared_memory(
                    dataset, settings, out, lanes=lanes, embedder=embedder, extractor=extractor, progress=progress
                )
            )
        filled = time.perf_counter()
        metered, timeline = prepared.metered, prepared.timeline
        memory = prepared.searched_by(settings)
        results = _ask(
            prepared, memory, dataset, modes, lanes,
            k=k, depth=depth, shared=shared, latencies=latencies, progress=progress,
        )  # fmt: skip
        distilled = _distilled(memory, dataset, metered) if set(lanes) != {"turns"} else _Distilled()
        embedding = {"name": memory.parts.embedder.name, "digest": memory.parts.embedder.digest}
    arguments = {"modes": list(modes), "lanes": list(lanes), "k": k, "depth": depth}
    # In mode "record" the answers are all there only now.
    distilling = {**extractor_facts(prepared.extractor, settings.llm), **distilled.references}
    kept = settings.model_dump(mode="json", exclude=_ADDRESSES)
    return write_run(
        out,
        manifest={
            "run": run_digest(dataset.sha256, settings.digest(), arguments, embedding["digest"], distilling),
            "dataset": {"name": dataset.name, "format": dataset.spec.format, "path": str(dataset.spec.path)}
            | {"shipped": dataset.shipped}
            | {"split": dataset.spec.split, "sha256": dataset.sha256, "cluster": dataset.cluster},
            "arguments": arguments,
            "candidate": settings.retrieval.mode,
            "settings": kept,
            "config_digest": settings.digest(),
            "core_digest": core_digest(),
            "embedder": embedding,
            "extractor": metered.name,
            "distilling": distilling,
            "versions": versions(),
            "seeds": {"bootstrap": SEED},
            "resamples": RESAMPLES,
        },
        metrics={
            "dataset": dataset_facts(dataset),
            "config_digest": settings.digest(),
            "lanes": {lane: lane_metrics(results, lane, modes, distilled.facts, distilled.intervals) for lane in lanes},
        }
        | ({"policy": policy_metrics(timeline)} if timeline else {}),
        results=results,
        timings={
            "fill_seconds": round(filled - began, 3),
            "total_seconds": round(time.perf_counter() - began, 3),
            "turns": sum(len(conversation.turns) for conversation in dataset.conversations),
            "query_ms": {f"{lane}/{mode}": _latency(seconds) for (lane, mode), seconds in latencies.items()},
            "extract_seconds": round(metered.seconds, 3),
            "model_seconds": round(metered.model_seconds, 3),
            "recorded_answers": metered.cost["recorded"],
        },
        dead_letters=distilled.dead_letters,
    )


def beside_turns(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Lanes with raw turns beside them: plain retrieval at the same budget is what gems have to beat."""
    return tuple(dict.fromkeys((*lanes, "turns")))


class _Distilled(NamedTuple):
    """What became of the turns; empty where only turns were searched."""

    facts: Mapping[str, float] = {}
    intervals: Mapping[str, Interval] = {}
    references: Mapping[str, Any] = {}
    dead_letters: Sequence[DeadLetter] = ()


def _distilled(memory: NeuralStream, dataset: datasets.Dataset, metered: MeteredExtractor) -> _Distilled:
    gems = [gem for one in dataset.conversations for gem in memory.gems(user_id=one.name, status=None)]
    dead_letters = memory.parts.buffer.dead_letters()
    dead = frozenset(letter.batch_id for letter in dead_letters)
    turns = sum(len(conversation.turns) for conversation in dataset.conversations)
    facts, intervals = gem_facts(gems, metered, dead, turns), {}
    batches = read_reference_gems(dataset)
    if batches:
        found = agreement(metered.gems(dead), batches, memory.parts.embedder)
        facts, intervals = facts | found.scores(), found.intervals(seed=SEED)
    return _Distilled(facts, intervals, references_facts(batches), dead_letters)


def _check(dataset: datasets.Dataset, modes: Sequence[str], lanes: Sequence[str]) -> None:
    for name, values, known in (("mode", modes, (*MODES, *BASELINES)), ("lane", lanes, get_args(Lane))):
        unknown = [value for value in values if value not in known]
        if unknown or not values:
            raise InputError(f"{name} {', '.join(unknown) or 'missing'}: use one or more of {', '.join(known)}")
    if not any(question.evidence for _, question in dataset.questions()):
        raise DatasetError(f"{dataset.name} has no question with evidence; only a labelled set can be scored")


def _ask(
    prepared: Prepared,
    memory: NeuralStream,
    dataset: datasets.Dataset,
    modes: Sequence[str],
    lanes: Sequence[Lane],
    *,
    k: int,
    depth: int,
    shared: SharedAnswers | None,
    latencies: Mapping[tuple[str, str], list[float]],
    progress: Progress | None,
) -> list[QueryResult]:
    total = sum(1 for _, question in dataset.questions() if question.evidence) * len(modes) * len(lanes)
    results: list[QueryResult] = []
    for conversation in dataset.conversations:
        cost = InjectedTokens()
        for lane, mode in product(lanes, modes):
            search = _searcher(memory, conversation, lane, mode, depth)
            answers = partial(_answers, conversation, lane, mode, search=search, clock=prepared.clock, k=k, cost=cost)
            for answer in shared.of(memory, conversation.name, lane, mode, answers) if shared else answers():
                results.append(answer.result)
                latencies[lane, mode].append(answer.seconds)
                if progress:
                    progress("ask", len(results), total)
    return results


def _answers(
    conversation: Conversation,
    lane: Lane,
    mode: str,
    *,
    search: Callable[[str, datetime], list[Hit]],
    clock: VirtualClock,
    k: int,
    cost: InjectedTokens,
) -> Iterator[Answer]:
    for question in conversation.questions:
        if question.evidence:
            moment = asked_at(conversation, question, clock)
            began = time.perf_counter()
            hits = search(question.text, moment)
            seconds = time.perf_counter() - began
            yield Answer(query_result(conversation, question, lane, mode, hits, k=k, cost=cost), seconds)


def _searcher(
    memory: NeuralStream, conversation: Conversation, lane: Lane, mode: str, depth: int
) -> Callable[[str, datetime], list[Hit]]:
    user = conversation.name
    if mode in BASELINES:
        baseline = OkapiRanking(cast("Baseline", mode), memory.parts.store, user, lane)
        return lambda text, as_of: baseline.search(text, k=depth, as_of=as_of)
    served = cast("Mode", mode)
    return lambda text, as_of: memory.search(text, mode=served, lane=lane, k=depth, user_id=user, as_of=as_of)


def _latency(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{share}": round(1000 * float(np.percentile(seconds, share)), 3) for share in (50, 95)}
