"""One question of a run: what was asked, what should have been found and where it came, what came instead and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.errors import InputError, NeuralStreamError, NotFoundError
from neuralstream.workbench import datasets
from neuralstream.workbench.report import candidate
from neuralstream.workbench.run_folders import spec_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.workbench.runs import QueryResult, Run

__all__ = ["Explained", "Wanted", "as_json", "explain", "hit_rows", "wanted_rows"]

Rows = list[list[Any]]


class Wanted(NamedTuple):
    """A turn that answers the question.

    Attributes:
        turn_id: which.
        rank: of the hit that stands for it, from 1; None where no recorded hit does.
        text: None where neither the data set nor the ranking has it.
    """

    turn_id: str
    rank: int | None
    text: str | None


class Explained(NamedTuple):
    """A question, and what should have been found; `note` says why texts are missing, empty where none is."""

    result: QueryResult
    wanted: list[Wanted]
    note: str


def explain(run: Run, query: str, *, lane: str | None = None, mode: str | None = None) -> Explained:
    """Look a question up.

    Args:
        run: where it was asked.
        query: its id, or CONVERSATION/ID where conversations share ids.
        lane, mode: None takes the run's first lane, and the mode that would be served.

    Raises:
        NotFoundError: the run has no such question.
        InputError: the run has no such lane or mode, or several such questions.
    """
    lane = lane or run.lanes[0]
    if lane not in run.lanes:
        raise InputError(f"{run.path} has no lane {lane}; it has {', '.join(run.lanes)}")
    mode = mode or candidate(run, lane)
    if mode not in run.metrics["lanes"][lane]:
        raise InputError(f"{run.path} has no mode {mode}; it has {', '.join(run.metrics['lanes'][lane])}")
    result = _find(run.of(lane, mode), query)
    texts, note = _texts(run, result.conversation)
    for hit in result.ranking:
        if hit.kind == "turn":
            texts.setdefault(hit.id, hit.text)
    ranks = {turn: rank for rank, hit in reversed([*enumerate(result.ranking, 1)]) for turn in hit.turn_ids}
    return Explained(result, [Wanted(turn, ranks.get(turn), texts.get(turn)) for turn in result.gold], note)


def wanted_rows(explained: Explained) -> Rows:
    """What should have been found, as a table: a header, then a row per turn."""
    recorded = len(explained.result.ranking)
    return [["evidence", "rank", "text"]] + [
        [one.turn_id, one.rank or f"not in the first {recorded}", one.text] for one in explained.wanted
    ]


def hit_rows(explained: Explained) -> Rows:
    """What was found, as a table: a header, then a row per hit with every signal's score."""
    result = explained.result
    signals = sorted({name for hit in result.ranking for name in hit.signals})
    gold = set(result.gold)
    return [["rank", "evidence", "hit", "score", *signals, "text"]] + [
        [rank, "yes" if gold.intersection(hit.turn_ids) else "", _named(hit.kind, hit.id, hit.turn_ids), hit.score]
        + [hit.signals.get(name) for name in signals]
        + [hit.text]
        for rank, hit in enumerate(result.ranking, 1)
    ]


def as_json(explained: Explained) -> dict[str, Any]:
    """All of it as one JSON document."""
    result = explained.result
    return {
        "query_id": result.query_id,
        "conversation": result.conversation,
        "category": result.category,
        "text": result.text,
        "lane": result.lane,
        "mode": result.mode,
        "scores": dict(result.scores),
        "evidence": [one._asdict() for one in explained.wanted],
        "ranking": [
            {
                "rank": rank,
                "id": hit.id,
                "kind": hit.kind,
                "turn_ids": list(hit.turn_ids),
                "score": hit.score,
                "signals": dict(hit.signals),
                "text": hit.text,
            }
            for rank, hit in enumerate(result.ranking, 1)
        ],
    }


def _find(results: Sequence[QueryResult], query: str) -> QueryResult:
    found = [one for one in results if query in {one.query_id, f"{one.conversation}/{one.query_id}"}]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"{query!r} names {len(found)} questions; write one of "
            + ", ".join(f"{one.conversation}/{one.query_id}" for one in found)
        )
    examples = ", ".join(one.query_id for one in results[:3])
    raise NotFoundError(
        f"the run scored no question {query!r}; its questions are {examples}, … (per_query.jsonl has all)"
    )


def _texts(run: Run, conversation: str) -> tuple[dict[str, str], str]:
    """Texts of a conversation's turns, where the data that the run was made on are still there; why not, else."""
    try:
        dataset = datasets.load(spec_of(run))
    except (NeuralStreamError, OSError) as error:
        return {}, f"texts are those of the recorded hits: {error}"
    if dataset.sha256 != run.manifest["dataset"]["sha256"]:
        return {}, f"texts are those of the recorded hits: {dataset.spec.path} was changed since the run was made"
    turns: Mapping[str, str] = {
        turn.turn_id: turn.transcript for one in dataset.conversations if one.name == conversation for turn in one.turns
    }
    return dict(turns), ""


def _named(kind: str, name: str, turn_ids: Sequence[str]) -> str:
    return name if kind == "turn" else f"{kind} of {', '.join(turn_ids)}"
