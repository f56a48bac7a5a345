"""Fitting the linear model to labelled questions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad

from neuralstream.errors import InputError
from neuralstream.workbench import fitting
from neuralstream.workbench.fitting import Asked, Model, Sample, choose, folds, question_weights, rank, standard_error

NAMES = ("a", "b", "c", "prior")
SIGNALS = {"a", "b", "c"}


def cosine(found: Model, weights) -> float:
    """Of the angle between found and planted weights."""
    vector = found.vector(NAMES)
    return float(vector @ weights / np.linalg.norm(vector) / np.linalg.norm(weights))


def test_planted_weights_are_found(planted):
    """Weights that drew the gold candidates come out again, priors of either sign, the largest being 1."""
    true = [1.0, 0.5, 0.0, -0.7]
    found = Sample(planted(true, each=100), NAMES, SIGNALS).fit(0.0003)
    assert cosine(found, true) > 0.99
    assert found.weights["a"] == 1
    assert found.weights["prior"] == pytest.approx(-0.7, abs=0.1)


def test_a_signal_never_counts_against_a_candidate(planted):
    """What speaks against gold gets no weight as a signal, and a negative one as a prior."""
    questions = planted([1.0, -0.8, 0.3, 0.0])
    weights = Sample(questions, NAMES, SIGNALS).fit(0.001).weights
    assert "b" not in weights
    assert min(weights[name] for name in ("a", "c")) > 0
    assert Sample(questions, NAMES, {"a", "c"}).fit(0.001).weights["b"] < -0.5


def test_each_data_set_counts_the_same(planted):
    """A data set does not gain weight by asking each of its questions three times."""
    small, large = planted([1, 0, 0, 0], dataset="small"), planted([0, 1, 0, 0], dataset="large", seed=1)
    once = Sample(small + large, NAMES, SIGNALS).fit(0.001)
    thrice = Sample(small + large * 3, NAMES, SIGNALS).fit(0.001)
    assert thrice.vector(NAMES) == pytest.approx(once.vector(NAMES), abs=0.001)
    assert question_weights(small + large * 3)[: len(small)].sum() == pytest.approx(0.5)
    as_one = Sample([replace(one, dataset="one") for one in small + large * 3], NAMES, SIGNALS).fit(0.001)
    assert as_one.weights["a"] < once.weights["a"] - 0.1


def test_stronger_regularisation_shares_the_weight_of_what_is_alike(planted):
    """Of two signals that nearly agree, the better one has all the weight only where regularisation is weak."""
    alike = [
        replace(one, values=one.values @ np.float32([[1, 0.9, 0, 0], [0, 0.4, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
        for one in planted([1, 0, 0, 0])
    ]
    sample = Sample(alike, NAMES, SIGNALS)
    weak, strong = (sample.fit(strength).weights.get("b", 0) for strength in (0.0003, 0.1))
    assert strong > weak + 0.2
    assert sample.fit(0.1).strength == 0.1


def test_questions_without_a_gold_candidate_teach_nothing(planted):
    """They are passed over; where no other is left, the error says so."""
    questions = planted([1, 0.5, 0, 0])
    lost = [replace(one, gold=frozenset({"elsewhere"})) for one in planted([0, 0, 1, 0], seed=3)]
    assert Sample(questions + lost, NAMES, SIGNALS).fit(0.01) == Sample(questions, NAMES, SIGNALS).fit(0.01)
    with pytest.raises(InputError, match="evidence ids"):
        Sample(lost, NAMES, SIGNALS).fit(0.01)


def test_the_gradient_is_the_losss(planted):
    """Analytic and numeric gradients agree, also with several gold candidates to a question."""
    sample = Sample(planted([1, 0.5, 0, -0.5], conversations=1, each=8, gold=3), NAMES, SIGNALS)
    loss = fitting._Loss(
        gold=sample._gold,
        gold_of=sample._gold_of,
        rest=sample._rest,
        rest_of=sample._rest_of,
        log_stands_for=sample._log_stands_for,
        weights=np.full(8, 1 / 8),
        strength=0.01,
    )
    at = np.array([0.3, -0.2, 0.9, 0.1])
    assert check_grad(lambda w: loss(w)[0], lambda w: loss(w)[1], at) < 1e-5


def test_thinning_the_easy_distractors_changes_little(planted, monkeypatch):
    """Weights learnt from the hardest and a sample of the rest are nearly those learnt from all."""
    questions = planted([1.0, 0.5, 0.2, -0.6], candidates=300)
    thinned = Sample(questions, NAMES, SIGNALS)
    monkeypatch.setattr(fitting, "_HARDEST", 300)
    whole = Sample(questions, NAMES, SIGNALS)
    assert len(thinned._rest) < len(whole._rest) / 3
    assert thinned.fit(0.001).vector(NAMES) == pytest.approx(whole.fit(0.001).vector(NAMES), abs=0.08)


def test_features_that_only_make_noise_are_dropped(planted):
    """Of features without influence none stays, of those with influence none goes."""
    found = choose(planted([1.0, 0, 0, -0.6], each=60), NAMES, SIGNALS, seed=0)
    assert set(found.weights) == {"a", "prior"}


def test_a_conversation_is_in_one_fold(planted):
    """Folds split no conversation, hold all of them, and depend on nothing but the seed."""
    questions = planted([1, 0, 0, 0], conversations=7, each=3) + planted([1, 0, 0, 0], dataset="other", each=2)
    dealt = folds(questions, 4, seed=1)
    assert len({(one.cluster, fold) for one, fold in zip(questions, dealt, strict=True)}) == 13
    assert set(dealt) == {0, 1, 2, 3}
    backwards = folds(questions[::-1], 4, seed=1)[::-1]
    assert (dealt == backwards).all()
    assert any((folds(questions, 4, seed=seed) != dealt).any() for seed in (2, 3))


def test_equal_scores_rank_by_id():
    """Ties are resolved by id, and no more is ranked than asked for."""
    asked = Asked("d", "c", "q", "", "people", ("a", "b", "c", "d"), np.float32([[0], [1], [0], [1]]), frozenset("b"))
    assert rank(asked, np.array([1.0]), 3) == ["b", "d", "a"]


def test_one_conversation_is_too_few():
    """Without a conversation to leave out nothing can be chosen."""
    asked = Asked("d", "c", "q", "", "people", ("a", "b"), np.float32([[0], [1]]), frozenset("b"))
    with pytest.raises(InputError, match="two or more"):
        choose([asked], ["x"], {"x"}, seed=0)


def test_the_standard_error_is_that_of_clusters():
    """Clusters of one question give the textbook formula; what is the same within a cluster is counted once."""
    values = np.random.default_rng(0).normal(size=50)
    own = [str(n) for n in range(50)]
    assert standard_error(values, np.full(50, 1 / 50), own) == pytest.approx(values.std(ddof=1) / np.sqrt(50))
    doubled = standard_error(np.repeat(values, 2), np.full(100, 1 / 100), np.repeat(own, 2).tolist())
    assert doubled == pytest.approx(values.std(ddof=1) / np.sqrt(50))
    assert standard_error(values, np.full(50, 1 / 50), ["same"] * 50) == float("inf")
