"""Is it a difference, or chance? Intervals and tests whose unit of chance is the cluster.

Questions about one conversation share its words, speakers and mistakes, so they are not independent: what is resampled
or flipped is the whole cluster (the conversation, the user, or on LongMemEval the question, which has its own history).
Means stay means over questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralstream.errors import InputError

__all__ = [
    "MIN_CLUSTERS",
    "Comparison",
    "Interval",
    "Verdict",
    "bootstrap_interval",
    "bootstrap_intervals",
    "compare",
    "holm",
    "sign_flip_p",
    "verdict",
]

Verdict = Literal["better", "worse", "no difference seen", "too few to tell"]

MIN_CLUSTERS = 8
"""Under this many clusters no test over clusters is trusted: five that all agree still give p = .0625."""

ALPHA = 0.05
RESAMPLES = 5000
FLIPS = 9999
_EXACT_UP_TO = 14
_CHUNK = 512
_TOLERANCE = 1e-12
"""Sums of the same numbers in another order differ in the last bits and must still count as equal."""

Values = NDArray[np.float64]


class Interval(NamedTuple):
    """A 95 % interval; both ends NaN where fewer than two clusters leave nothing to resample."""

    low: float
    high: float


class Comparison(NamedTuple):
    """One system minus another on the same questions.

    Attributes:
        difference: mean over questions of new minus old.
        interval: its cluster-bootstrap interval.
        p: two-sided, by sign flips of whole clusters, not yet corrected for other comparisons.
        p_questions: the same with every question its own cluster: too optimistic, shown only where clusters are few.
        clusters: how many there are.
        wins, ties, losses: questions on which new scores higher, equal, lower.
    """

    difference: float
    interval: Interval
    p: float
    p_questions: float
    clusters: int
    wins: int
    ties: int
    losses: int


def bootstrap_interval(
    values: Sequence[float], clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """The 95 % percentile interval of a mean over questions, clusters drawn with replacement.

    Args:
        values: one number a question.
        clusters: each question's cluster, aligned with `values`.
        resamples: bootstrap samples, 2,000 or more for a stable 2.5 % quantile.
        seed: of the generator; one seed gives one answer.

    Raises:
        InputError: lengths differ, or there is no value.
    """
    return bootstrap_intervals(np.asarray(values, np.float64)[:, None], clusters, resamples=resamples, seed=seed)[0]


def bootstrap_intervals(
    values: Values, clusters: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[Interval]:
    """`bootstrap_interval` of several measures over the same samples: `values` is (questions, measures).

    Davison and Hinkley, "Bootstrap methods and their application", 1997, section 3.8, for resampling clusters.
    """
    sums, sizes = _by_cluster(values, clusters)
    if len(sizes) < 2:
        return [Interval(float("nan"), float("nan"))] * values.shape[1]
    draws = np.random.default_rng(seed).multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=resamples)
    means = (draws @ sums) / (draws @ sizes)[:, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def sign_flip_p(differences: Sequence[float], clusters: Sequence[str], *, flips: int = FLIPS, seed: int = 0) -> float:
    """Two-sided p of the paired permutation test that flips the sign of whole clusters.

    Exact over all 2^n sign patterns for up to 14 clusters; beyond, (b + 1) / (m + 1) over m random patterns, of which b
    are at least as extreme as what was seen. Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    sums, _ = _by_cluster(np.asarray(differences, np.float64)[:, None], clusters)
    totals = sums[:, 0]
    seen = abs(totals.sum()) - _TOLERANCE
    if len(totals) <= _EXACT_UP_TO:
        patterns = np.arange(2 ** len(totals))[:, None] >> np.arange(len(totals)) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ totals) >= seen))
    rng = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, flips, _CHUNK):
        signs = 2 * rng.integers(0, 2, size=(min(_CHUNK, flips - start), len(totals)), dtype=np.int8) - 1
        extreme += int(np.count_nonzero(np.abs(signs @ totals) >= seen))
    return (extreme + 1) / (flips + 1)


def compare(
    new: Sequence[float], old: Sequence[float], clusters: Sequence[str], *, flips: int = FLIPS, seed: int = 0
) -> Comparison:
    """`new` against `old` on the same questions, in the same order.

    Raises:
        InputError: the lengths differ, or there are no questions.
    """
    if len(new) != len(old):
        raise InputError(f"a paired comparison needs the same questions on both sides, got {len(new)} and {len(old)}")
    differences = np.asarray(new, np.float64) - np.asarray(old, np.float64)
    return Comparison(
        difference=float(differences.mean()) if len(differences) else 0.0,
        interval=bootstrap_interval(differences.tolist(), clusters, seed=seed),
        p=sign_flip_p(differences.tolist(), clusters, flips=flips, seed=seed),
        p_questions=sign_flip_p(
            differences.tolist(), [str(n) for n in range(len(differences))], flips=flips, seed=seed
        ),
        clusters=len(set(clusters)),
        wins=int(np.count_nonzero(differences > _TOLERANCE)),
        ties=int(np.count_nonzero(np.abs(differences) <= _TOLERANCE)),
        losses=int(np.count_nonzero(differences < -_TOLERANCE)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for all of them being looked at, in the order given.

    Holm, "A simple sequentially rejective multiple test procedure", 1979: the i-th smallest of n times n - i, counted
    from 0, never below a smaller one's and never above 1.
    """
    corrected = [0.0] * len(p_values)
    floor = 0.0
    for i, position in enumerate(sorted(range(len(p_values)), key=lambda n: p_values[n])):
        floor = max(floor, min(1.0, p_values[position] * (len(p_values) - i)))
        corrected[position] = floor
    return corrected


def verdict(comparison: Comparison, corrected_p: float, compared: int = 1) -> Verdict:
    """What may be said of a comparison in words.

    "Too few to tell" is also the answer where so much was compared that not even clusters that all agree could have
    shown a difference: n clusters give 2 / 2^n at best, and Holm multiplies the smallest p by how many there are.

    Args:
        comparison: what was found.
        corrected_p: its p after `holm`.
        compared: how many comparisons `holm` corrected for.
    """
    if comparison.clusters < MIN_CLUSTERS or compared * 2 ** (1 - comparison.clusters) > ALPHA:
        return "too few to tell"
    if corrected_p > ALPHA:
        return "no difference seen"
    return "better" if comparison.difference > 0 else "worse"


def _by_cluster(values: Values, clusters: Sequence[str]) -> tuple[Values, Values]:
    """Sums (clusters, measures) and sizes (clusters,), clusters in sorted order."""
    if len(values) != len(clusters) or not len(clusters):
        raise InputError(
            f"give one cluster a value and at least one value, got {len(values)} values, {len(clusters)} clusters"
        )
    names, position = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, position, values)
    return sums, np.bincount(position).astype(np.float64)
