"""From ranked hits to numbers: one query's result, a lane's means and intervals, what distilling made."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralstream.inject import render_entry
from neuralstream.tokens import count_tokens
from neuralstream.types import Hit
from neuralstream.workbench.metering import COUNTED
from neuralstream.workbench.metrics import Entry, average, score_gems, score_turns
from neuralstream.workbench.runs import QueryResult, RankedHit
from neuralstream.workbench.stats import bootstrap_intervals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from neuralstream.logs.base import Conversation, Question
    from neuralstream.types import Gem
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.metering import MeteredExtractor
    from neuralstream.workbench.stats import Interval

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
    results: Sequence[QueryResult],
    lane: str,
    modes: Sequence[str],
    facts: Mapping[str, float],
    fact_intervals: Mapping[str, Interval],
) -> dict[str, Any]:
    """Each mode's means, 95 % intervals over conversations, and means by category.

    Args:
        results: of the run.
        lane: which lane.
        modes: in the order to report.
        facts: about gems, put beside the means of a lane that holds gems.
        fact_intervals: of those facts that have one.
    """
    found = {}
    for mode in modes:
        rows = [result for result in results if (result.lane, result.mode) == (lane, mode)]
        overall = average(row.scores for row in rows)
        values = np.array([[row.scores[name] for name in overall] for row in rows])
        found_intervals = bootstrap_intervals(values, [row.conversation for row in rows], seed=SEED)
        intervals = dict(zip(overall, found_intervals, strict=True))
        by_category: dict[str, list[QueryResult]] = defaultdict(list)
        for row in rows:
            by_category[row.category].append(row)
        found[mode] = {
            "overall": _rounded(overall if lane == "turns" else {**overall, **facts}),
            "ci": {
                name: _ends(interval)
                for name, interval in (intervals if lane == "turns" else {**intervals, **fact_intervals}).items()
            },
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


def gem_facts(gems: Sequence[Gem], metered: MeteredExtractor, dead: Collection[str], turns: int) -> dict[str, float]:
    """What distilling made and cost.

    Args:
        gems: what is stored, superseded ones too.
        metered: the extractor that made them.
        dead: ids of the batches that could not be distilled.
        turns: captured.

    Returns:
        - `gems_per_100_turns`, `source_turns_per_gem`, and `injected_tokens_per_gem`: what its line takes in a prompt.
        - `duplicates`: stored gems that repeat another of their user word for word; `merged`: gems that were made and
          became evidence of an older one; `superseded`: stored gems that a newer one replaced.
        - `dead_letters`: batches that could not be distilled.
        - `calls` of a language model and `tokens` in and out; `prompt_tokens`, `answer_tokens`; `tokens_per_gem`, spent
          per stored gem.
        - `repairs`: answers asked for again with what was wrong; `invalid`: those that led to it; `split`: batches
          halved; `valid_answers`: share of answers that could be used as they came, missing where no model was asked.
    """
    count = len(gems)
    cost = {name: metered.cost[name] for name in COUNTED}
    facts: dict[str, float] = {
        "gems_per_100_turns": 100 * count / turns if turns else 0.0,
        "source_turns_per_gem": _mean([len(gem.source_turns) for gem in gems]),
        "injected_tokens_per_gem": _mean([count_tokens(render_entry(Hit(gem, 0.0))) for gem in gems]),
        "duplicates": count - len({_said(gem) for gem in gems}),
        "merged": len(metered.gems(dead)) - count,
        "superseded": sum(gem.status == "superseded" for gem in gems),
        "dead_letters": len(dead),
        **cost,
        "tokens_per_gem": cost["tokens"] / count if count else 0.0,
    }
    valid = metered.valid_answers
    return facts if valid is None else facts | {"valid_answers": valid}


def _ranked(hit: Hit) -> RankedHit:
    text = hit.text if len(hit.text) <= _SHOWN else hit.text[: _SHOWN - 1] + "…"
    return RankedHit(hit.id, hit.kind, round(hit.score, _DIGITS), _rounded(hit.signals), hit.turn_ids, text)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _said(gem: Gem) -> tuple[str, str]:
    return gem.user_id, " ".join(gem.content.casefold().split())


def _rounded(scores: Mapping[str, float]) -> dict[str, float]:
    """Measures with a fixed number of digits; counts stay whole."""
    return {name: value if isinstance(value, int) else round(float(value), _DIGITS) for name, value in scores.items()}


def _ends(interval: Iterable[float]) -> list[float] | None:
    """Both ends; None where there were too few clusters for an interval."""
    ends = [round(end, _DIGITS) for end in interval]
    return ends if ends[0] == ends[0] else None
