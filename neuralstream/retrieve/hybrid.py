"""Fusion: whatever any signal finds, scored by every signal, standardised within the query, weighted and summed.

A score is a sum of z-scores: it orders the hits of one query and says nothing across queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralstream.retrieve.features import EVIDENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from neuralstream.retrieve.features import Candidate, Source

__all__ = ["Found", "fuse"]


class Found(NamedTuple):
    """A candidate, where it was found, its score, and the score of each signal that made it."""

    candidate: Candidate
    source: Source
    score: float
    signals: Mapping[str, float]


def fuse(sources: Sequence[Source], weights: Mapping[str, float], limit: int) -> list[Found]:
    """Rank everything that the signals find, all sources under one ranking.

    Args:
        sources: where to look; a point that two of them give counts as the first one's.
        weights: weight per signal; those of weight 0 are not computed.
        limit: points each signal contributes from each source.

    Returns:
        Every candidate, best first, ties by id.
    """
    names = sorted(name for name, weight in weights.items() if weight)
    found: list[tuple[Candidate, Source, dict[str, float]]] = []
    seen: set[str] = set()
    for source in sources:
        ids = dict.fromkeys(
            hit.id for name in names if name in EVIDENCE for hit in source.top(name, limit) if hit.id not in seen
        )
        candidates = source.candidates(list(ids))
        seen.update(one.id for one in candidates)
        scores = {name: source.scores(name, candidates) for name in names}
        found += [(one, source, {name: scores[name][one.id] for name in names}) for one in candidates]
    total = np.zeros(len(found))
    for name in names:
        total += weights[name] * _standardised(np.array([signals[name] for _, _, signals in found]))
    fused = [
        Found(one, source, float(value), signals) for (one, source, signals), value in zip(found, total, strict=True)
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.candidate.id))


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z-scores: mean 0, deviation 1; all 0 where the values do not differ."""
    if not len(values) or np.ptp(values) == 0:
        return np.zeros(len(values))
    standardised: NDArray[np.float64] = (values - values.mean()) / values.std()
    return standardised
