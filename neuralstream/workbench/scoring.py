"""From ranked hits to numbers: one query's result, a lane's means and intervals, what distilling made."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralstream.inject import render_entry
from neuralstream.tokens import count_tokens
from neuralstream.workbench.metrics import Entry, average, score_gems, score_turns
from neuralstream.workbench.runs import QueryResult, RankedHit
from neuralstream.workbench.stats import bootstrap_intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neuralstream.logs.base import Conversation, Question
    from neuralstream.types import Gem, Hit
    from neuralstream.workbench.datasets import Dataset

__all__ = ["SEED", "InjectedTokens", "dataset_facts", "gem_facts", "lane_metrics", "query_result"]

SEED = 0
"""Of the bootstrap."""

_DIGITS = 6
_SHOWN = 240
"""Characters of a hit's text that are recorded."""


class InjectedTokens:
    """What a hit costs: the tokens of the line that injection would write for it. Each hit is rendered once.

    One instance serves one user, within whom ids are unique.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, hit: Hit) -> int:
        """Tokens of a hit's line."""
        if hit.id not in self._known:
            self._known[hit.id] = count_tokens(render_entry(hit))
        return self._known[hit.id]


def query_result(
    conversation: Conversation,
    question: Question,
    lane: str,
    mode: str,
    hits: Sequence[Hit],
    *,
    k: int,
    cost: InjectedTokens,
) -> QueryResult:
    """Score one ranking; the first `k` hits are recorded."""
    entries = [Entry(hit.turn_ids, cost.of(hit)) for hit in hits]
    score = score_turns if lane == "turns" else score_gems
    return QueryResult(
        query_id=question.query_id,
        conversation=conversation.name,
        category=question.category,
        text=question.text,
        lane=lane,
        mode=mode,
        gold=question.evidence,
        ranking=tuple(_ranked(hit) for hit in hits[:k]),
        scores=_rounded(score(entries, frozenset(question.evidence))),
    )


def lane_metrics(
    results: Sequence[QueryResult], lane: str, modes: Sequence[str], facts: Mapping[str, float]
) -> dict[str, Any]:
    """Each mode's means, 95 % intervals over conversations, and means by category.

    Args:
        results: of the run.
        lane: which lane.
        modes: in the order to report.
        facts: about gems, put beside the means of a lane that holds gems.
    """
    found = {}
    for mode in modes:
        rows = [result for result in results if (result.lane, result.mode) == (lane, mode)]
        overall = average(row.scores for row in rows)
        values = np.array([[row.scores[name] for name in overall] for row in rows])
        intervals = bootstrap_intervals(values, [row.conversation for row in rows], seed=SEED)
        by_category: dict[str, list[QueryResult]] = defaultdict(list)
        for row in rows:
            by_category[row.category].append(row)
        found[mode] = {
            "overall": _rounded(overall if lane == "turns" else {**overall, **facts}),
            "ci": {name: _ends(interval) for name, interval in zip(overall, intervals, strict=True)},
            "by_category": {
                category: _rounded(average(row.scores for row in members)) | {"queries": len(members)}
                for category, members in by_category.items()
            },
        }
    return found


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """What was scored: the data's name, hash and counts."""
    questions = [question for _, question in dataset.questions()]
    unscored = [question for question in questions if not question.evidence]
    return {
        "name": dataset.name,
        "sha256": dataset.sha256,
        "conversations": len(dataset.conversations),
        "queries_total": len(questions),
        "queries_scored": len(questions) - len(unscored),
        "queries_unscored": len(unscored),
        "unscored_by_category": dict(Counter(question.category for question in unscored)),
        "unreadable_evidence": sum(question.unreadable_evidence for question in questions),
    }


def gem_facts(gems: Sequence[Gem], turns: int, cost: Mapping[str, int]) -> dict[str, float]:
    """What distilling made and cost; `duplicates` counts gems that repeat another of their user word for word."""
    return {
        "gems_per_100_turns": 100 * len(gems) / turns if turns else 0.0,
        "source_turns_per_gem": sum(len(gem.source_turns) for gem in gems) / len(gems) if gems else 0.0,
        "duplicates": len(gems) - len({_said(gem) for gem in gems}),
        "calls": cost["calls"],
        "tokens": cost["tokens"],
    }


def _ranked(hit: Hit) -> RankedHit:
    text = hit.text if len(hit.text) <= _SHOWN else hit.text[: _SHOWN - 1] + "…"
    return RankedHit(hit.id, hit.kind, round(hit.score, _DIGITS), _rounded(hit.signals), hit.turn_ids, text)


def _said(gem: Gem) -> tuple[str, str]:
    return gem.user_id, " ".join(gem.content.casefold().split())


def _rounded(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: round(float(value), _DIGITS) for name, value in scores.items()}


def _ends(interval: Iterable[float]) -> list[float] | None:
    """Both ends; None where there were too few clusters for an interval."""
    ends = [round(end, _DIGITS) for end in interval]
    return ends if ends[0] == ends[0] else None
