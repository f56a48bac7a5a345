"""Intervals, tests and verdicts."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.errors import InputError
from neuralstream.workbench.stats import (
    Comparison,
    Interval,
    bootstrap_interval,
    bootstrap_intervals,
    compare,
    holm,
    sign_flip_p,
    verdict,
)


def _comparison(difference=0.1, clusters=8):
    return Comparison(difference, Interval(0, 0.2), 0.01, 0.01, clusters, 5, 1, 2)


def test_interval_is_seeded_and_holds_the_mean():
    """One seed gives one interval, which lies around the mean over questions."""
    values = np.random.default_rng(1).random(200)
    clusters = [f"c{n % 20}" for n in range(200)]
    interval = bootstrap_interval(values, clusters, seed=3)
    assert interval == bootstrap_interval(values, clusters, seed=3)
    assert interval != bootstrap_interval(values, clusters, seed=4)
    assert interval.low < values.mean() < interval.high


def test_clusters_are_what_is_resampled():
    """Questions that agree within their cluster say less than as many independent ones."""
    values = [1.0] * 50 + [0.0] * 50
    whole = bootstrap_interval(values, ["a"] * 50 + ["b"] * 50)
    alone = bootstrap_interval(values, [str(n) for n in range(100)])
    assert whole == Interval(0, 1)
    assert alone.high - alone.low < 0.25


def test_interval_agrees_with_plain_resampling():
    """The vectorised form draws from the distribution that a loop over clusters draws from."""
    rng = np.random.default_rng(0)
    values, clusters = rng.random(60), [f"c{n // 6}" for n in range(60)]
    groups = [values[n : n + 6] for n in range(0, 60, 6)]
    means = [np.concatenate([groups[i] for i in rng.integers(0, 10, 10)]).mean() for _ in range(4000)]
    assert bootstrap_interval(values, clusters) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.01)


def test_one_cluster_has_no_interval():
    """With nothing to resample both ends are NaN, not a false certainty."""
    assert all(np.isnan(bootstrap_interval([0.2, 0.4], ["a", "a"])))


def test_several_measures_share_the_samples():
    """Measures bootstrapped together have the intervals they have alone."""
    values = np.random.default_rng(2).random((40, 3))
    clusters = [f"c{n % 9}" for n in range(40)]
    assert bootstrap_intervals(values, clusters)[1] == pytest.approx(bootstrap_interval(values[:, 1], clusters))


def test_five_clusters_that_agree():
    """Five of five is p = .0625 and no better: the reason for `too few to tell`."""
    assert sign_flip_p([0.3, 0.1, 0.2, 0.5, 0.4], list("abcde")) == pytest.approx(2 / 32)


def test_exact_p_by_enumeration():
    """The exact p is the share of sign patterns at least as extreme."""
    totals = [0.3, -0.1, 0.2, 0.5, 0.05, -0.4]
    seen = abs(sum(totals)) - 1e-12
    signs = itertools.product([1, -1], repeat=len(totals))
    share = np.mean([abs(sum(s * t for s, t in zip(pattern, totals, strict=True))) >= seen for pattern in signs])
    assert sign_flip_p(totals, list("abcdef")) == pytest.approx(share)


def test_sampled_p_is_never_zero():
    """Beyond exact enumeration the smallest p is 1 / (m + 1), and it agrees with the exact one."""
    clusters = [str(n) for n in range(40)]
    assert sign_flip_p([1.0] * 40, clusters, flips=999) == pytest.approx(1 / 1000)
    differences = [0.5, 0.5, 0.5, -0.5, -0.5, *[0.0] * 35]
    assert sign_flip_p(differences, clusters) == pytest.approx(sign_flip_p(differences[:5], clusters[:5]), abs=0.02)


def test_equal_systems():
    """Two identical systems: p is 1, every question a tie, no difference."""
    found = compare([0.1, 0.5, 0.9] * 4, [0.1, 0.5, 0.9] * 4, [str(n) for n in range(12)])
    assert (found.p, found.difference, found.ties) == (1, 0, 12)
    assert verdict(found, 1.0) == "no difference seen"


def test_compare_counts_questions():
    """Wins, ties and losses are counted over questions; p_questions ignores clusters."""
    found = compare([1, 1, 0, 0.5], [0, 0, 1, 0.5], ["a", "a", "b", "b"])
    assert (found.wins, found.ties, found.losses, found.clusters) == (2, 1, 1, 2)
    assert found.difference == pytest.approx(0.25)
    assert found.p_questions == pytest.approx(1)
    with pytest.raises(InputError, match="same questions"):
        compare([1], [1, 2], ["a"])


def test_holm_by_hand():
    """Holm's step-down values, in the order the p values came in."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_properties(p_values):
    """Correction never lowers a p, never passes 1, and keeps the order."""
    corrected = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    assert [corrected[n] for n in order] == sorted(corrected)


def test_verdicts():
    """Each verdict has its case; few clusters silence even a small p."""
    assert verdict(_comparison(), 0.01) == "better"
    assert verdict(_comparison(difference=-0.1), 0.01) == "worse"
    assert verdict(_comparison(), 0.2) == "no difference seen"
    assert verdict(_comparison(clusters=7), 0.001) == "too few to tell"
    assert verdict(_comparison(clusters=8), 0.04, compared=6) == "better"
    assert verdict(_comparison(clusters=8), 0.06, compared=7) == "too few to tell"
