"""The one place where measures are defined.

Conventions, for every measure here:

- *gold* is the set of distinct turn ids that answer a query. A query without gold cannot be scored and never reaches
  this module; callers leave it out and count it.
- A *ranking* is best first and holds no id twice. Ties were resolved before, by (-score, id).
- An empty ranking scores zero. A query that was never answered is an empty ranking: it is averaged in, not dropped.
- A turn stands for itself. A gem stands for the turns it cites, and is credited only for gold that nothing ranked above
  it has credited yet, so that saying a thing twice earns nothing.

Parity with ranx and ir_measures is a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2
from typing import NamedTuple

from neuralstream.errors import InputError

__all__ = [
    "BUDGETS",
    "HEADLINE",
    "Entry",
    "all_at",
    "average",
    "credited_precision_at",
    "credited_recall_at",
    "evidence_at",
    "hit_at",
    "ndcg_at",
    "precision_at",
    "precision_ceiling",
    "recall_at",
    "reciprocal_rank",
    "score_gems",
    "score_turns",
]

BUDGETS = (500, 1000, 2000)
"""Injected tokens at which evidence is measured."""

HEADLINE: Mapping[str, str] = {"turns": "nDCG@10", "gems": "evidence@1000", "all": "evidence@1000"}
"""The measure a lane's modes are compared by."""


class Entry(NamedTuple):
    """One ranked hit as the measures see it: the turns it stands for, and the tokens it takes when injected."""

    turn_ids: tuple[str, ...]
    tokens: int


def precision_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Share of the first k places that hold gold (P@k); places the ranking does not fill count as misses."""
    return _found(ranking[:k], gold) / k


def precision_ceiling(gold: AbstractSet[str], k: int) -> float:
    """The most P@k can be: with fewer than k gold turns, 1 is out of reach. Always printed beside P@k."""
    return min(k, len(gold)) / k


def recall_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Share of the gold that is among the first k (R@k)."""
    return _found(ranking[:k], gold) / len(gold)


def hit_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """1 when any gold is among the first k. Not recall and not precision."""
    return float(not gold.isdisjoint(ranking[:k]))


def all_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """1 when all gold is among the first k."""
    return float(gold <= set(ranking[:k]))


def ndcg_at(ranking: Sequence[str], gold: AbstractSet[str], k: int) -> float:
    """Discounted cumulative gain over the ideal one (nDCG@k), gain 1 for gold, discount 1 / log2(rank + 1).

    The ideal ranking has all gold in front, cut at k. Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR
    techniques", TOIS 20(4), 2002.
    """
    gain = sum(1 / log2(rank + 1) for rank, turn_id in enumerate(ranking[:k], 1) if turn_id in gold)
    return gain / sum(1 / log2(rank + 1) for rank in range(1, min(k, len(gold)) + 1))


def reciprocal_rank(ranking: Sequence[str], gold: AbstractSet[str], k: int | None = None) -> float:
    """1 / rank of the first gold; 0 when there is none among the first k, or, with k None, in the whole ranking.

    Its mean is MRR. Voorhees, "The TREC-8 question answering track report", 1999.
    """
    return next((1 / rank for rank, turn_id in enumerate(ranking[:k], 1) if turn_id in gold), 0.0)


def credited_precision_at(entries: Sequence[Entry], gold: AbstractSet[str], k: int) -> float:
    """P@k of gems: a place counts when its gem credits gold that no place above it has credited."""
    return sum(1 for fresh in _credits(entries[:k], gold) if fresh) / k


def credited_recall_at(entries: Sequence[Entry], gold: AbstractSet[str], k: int) -> float:
    """R@k of gems: share of the gold that the first k gems cite together."""
    return sum(len(fresh) for fresh in _credits(entries[:k], gold)) / len(gold)


def evidence_at(entries: Sequence[Entry], gold: AbstractSet[str], budget: int) -> float:
    """Share of the gold covered by what fits into `budget` injected tokens.

    The ranking is walked from the top; an entry that no longer fits is passed over, and smaller ones behind it may
    still be taken. The same for turns, gems and any mix, which makes them comparable.
    """
    covered: set[str] = set()
    left = budget
    for entry in entries:
        if entry.tokens <= left:
            left -= entry.tokens
            covered.update(entry.turn_ids)
    return len(gold & covered) / len(gold)


def score_turns(entries: Sequence[Entry], gold: AbstractSet[str]) -> dict[str, float]:
    """Every measure of a ranking of turns.

    Raises:
        InputError: gold is empty, or an id is ranked twice.
    """
    ranking = [turn_id for entry in entries for turn_id in entry.turn_ids]
    _check(gold)
    if len(set(ranking)) != len(ranking):
        raise InputError(f"a ranking of {len(ranking)} turns names only {len(set(ranking))}; rank each turn once")
    return {
        "P@5": precision_at(ranking, gold, 5),
        "ceiling_P@5": precision_ceiling(gold, 5),
        "R@5": recall_at(ranking, gold, 5),
        "R@10": recall_at(ranking, gold, 10),
        "nDCG@10": ndcg_at(ranking, gold, 10),
        "MRR@10": reciprocal_rank(ranking, gold, 10),
        "MRR": reciprocal_rank(ranking, gold),
        "hit@5": hit_at(ranking, gold, 5),
        "all@5": all_at(ranking, gold, 5),
        **_evidence(entries, gold),
    }


def score_gems(entries: Sequence[Entry], gold: AbstractSet[str]) -> dict[str, float]:
    """Every measure of a ranking of gems, or of gems and turns together.

    There is no nDCG and no MRR: a gem's gain depends on what was credited above it.

    Raises:
        InputError: gold is empty.
    """
    _check(gold)
    return {
        "P@5": credited_precision_at(entries, gold, 5),
        "ceiling_P@5": precision_ceiling(gold, 5),
        "R@5": credited_recall_at(entries, gold, 5),
        "R@10": credited_recall_at(entries, gold, 10),
        **_evidence(entries, gold),
    }


def average(scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each measure over queries; empty without queries."""
    rows = list(scores)
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]} if rows else {}


def _found(ranking: Sequence[str], gold: AbstractSet[str]) -> int:
    return sum(1 for turn_id in ranking if turn_id in gold)


def _credits(entries: Sequence[Entry], gold: AbstractSet[str]) -> list[frozenset[str]]:
    """The gold each entry is first to cite."""
    left = set(gold)
    fresh = []
    for entry in entries:
        fresh.append(frozenset(left.intersection(entry.turn_ids)))
        left -= fresh[-1]
    return fresh


def _evidence(entries: Sequence[Entry], gold: AbstractSet[str]) -> dict[str, float]:
    return {f"evidence@{budget}": evidence_at(entries, gold, budget) for budget in BUDGETS}


def _check(gold: AbstractSet[str]) -> None:
    if not gold:
        raise InputError("a query without gold cannot be scored; leave it out and count it")
