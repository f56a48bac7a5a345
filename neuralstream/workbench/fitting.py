"""Fitting the linear model of hybrid retrieval to labelled questions.

The model is a conditional logit (McFadden, "Conditional logit analysis of qualitative choice behavior", 1974): with
scores s = values @ w, a question loses

    mean over its gold candidates p of -log( exp(s_p) / (exp(s_p) + sum over its other candidates n of exp(s_n)) )

so that hard distractors count most and gold candidates do not compete with each other. Signals' weights stay >= 0:
regression would play collinear signals off against each other, which fits one kind of log and breaks on the next.
Priors may have either sign, and all weights are shrunk by strength / 2 * |w|^2. Every question of a data set counts the
same, and every data set as much as the next.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from neuralstream.errors import InputError
from neuralstream.workbench.metrics import ndcg_at

__all__ = ["DEPTH", "Asked", "Model", "Sample", "choose", "folds", "question_weights", "rank", "standard_error"]

Values = NDArray[np.float64]

STRENGTHS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Regularisation to choose from; the loss is a mean over questions, so these do not depend on how many there are."""

INNER_FOLDS = 5
DEPTH = 10
"""How deep a ranking is judged."""

_HARDEST = 40
"""Distractors of a question that are all learnt from: those with the highest equal-weight sum of the signals."""

_EVERY = 8
"""Of the others, every so-manieth is learnt from and counts for as many: the loss is nearly that of all of them."""

_DIGITS = 4
"""Decimals of a weight, the largest being 1."""

_HARDLY = 0.5
"""Standard errors of the difference that a smaller model may be worse than the best. Breiman et al., "Classification
and regression trees", 1984, allow a whole one, which on a small set leaves nothing but its best signal."""

_FAR = 3.0
"""Standard errors beyond which no smaller model comes back."""

_PRECISION = {"maxiter": 500, "ftol": 1e-10, "gtol": 1e-6}
"""Fine enough that the rounded weights hardly depend on where the search begins."""

_NEGLIGIBLE = 0.02
"""Weights below this share of the largest are dropped together."""


@dataclass(frozen=True)
class Asked:
    """A labelled question with the candidates that hybrid scores for it.

    Attributes:
        dataset, conversation, query_id, category: where it comes from.
        kind: of the conversation.
        ids: the candidates' point ids, sorted.
        values: (candidates, features) float32, standardised within the question: what the weights multiply.
        gold: point ids of its evidence, found or not.
    """

    dataset: str
    conversation: str
    query_id: str
    category: str
    kind: str
    ids: tuple[str, ...]
    values: NDArray[np.float32]
    gold: frozenset[str]

    @property
    def cluster(self) -> str:
        """The unit that is left out as a whole."""
        return f"{self.dataset}\x1f{self.conversation}"

    @cached_property
    def relevant(self) -> NDArray[np.bool_]:
        """(candidates,) whether each is gold."""
        return np.array([one in self.gold for one in self.ids], dtype=bool)


@dataclass(frozen=True, slots=True)
class Model:
    """Fitted weights by feature, those of 0 left out, and the regularisation's strength that was chosen for them."""

    weights: Mapping[str, float]
    strength: float

    def vector(self, names: Sequence[str]) -> Values:
        """(features,) the weights in the order of `names`."""
        return np.array([self.weights.get(name, 0.0) for name in names])


def rank(asked: Asked, weights: Values, depth: int = DEPTH) -> list[str]:
    """The ids of a question's best candidates, ties by id."""
    order = np.argsort(-(asked.values @ weights), kind="stable")  # ids are sorted, and a stable sort keeps that
    return [asked.ids[n] for n in order[:depth]]


def folds(questions: Sequence[Asked], count: int, seed: int) -> NDArray[np.int64]:
    """(questions,) the fold of each: whole conversations, dealt out in a shuffled order, data set after data set."""
    by_set: dict[str, set[str]] = defaultdict(set)
    for one in questions:
        by_set[one.dataset].add(one.cluster)
    random = np.random.default_rng(seed)
    shuffled = [str(name) for _, names in sorted(by_set.items()) for name in random.permutation(sorted(names))]
    fold_of = {name: n % count for n, name in enumerate(shuffled)}
    return np.array([fold_of[one.cluster] for one in questions])


def choose(questions: Sequence[Asked], names: Sequence[str], signals: Collection[str], *, seed: int) -> Model:
    """The model with the strength and the features that rank conversations best which it was not fitted on.

    The strength is the one with the best nDCG@10 over inner folds, all features in. Then the feature of the smallest
    weight is dropped, again and again (Guyon et al., "Gene selection for cancer classification using support vector
    machines", 2002), and of all models on the way the smallest is taken that is hardly worse than the best.

    Args:
        questions: of two conversations at least.
        names: of the features, the columns of the questions' values.
        signals: those of them whose weights are >= 0.
        seed: of the assignment of conversations to folds.

    Raises:
        InputError: all questions come from one conversation, or none has a gold candidate.
    """
    count = min(INNER_FOLDS, len({one.cluster for one in questions}))
    if count < 2:
        raise InputError("weights cannot be chosen on a single conversation; give a data set with two or more")
    sample = Sample(questions, names, signals)
    trial = _Trial(questions, sample, folds(questions, count, seed))
    tried = {strength: trial.measure(names, strength) for strength in STRENGTHS}
    strength = max(STRENGTHS, key=lambda one: (trial.mean(tried[one]), one))
    path = [(tuple(names), tried[strength])]
    while len(kept := _without_smallest(sample.fit(strength, path[-1][0]), path[-1][0])):
        path.append((kept, trial.measure(kept, strength)))
        if trial.worse(path[-1][1], max((values for _, values in path), key=trial.mean), _FAR):
            break
    best = max((values for _, values in path), key=trial.mean)
    features = next(kept for kept, values in reversed(path) if not trial.worse(values, best, _HARDLY))
    return sample.fit(strength, features)


def question_weights(questions: Sequence[Asked]) -> Values:
    """(questions,) summing to 1: each data set the same, and within it each question."""
    sizes = Counter(one.dataset for one in questions)
    return np.array([1 / sizes[one.dataset] for one in questions]) / len(sizes)


def standard_error(differences: Values, weights: Values, clusters: Sequence[str]) -> float:
    """Of a weighted mean of differences, clusters being what varies independently; infinite for a single cluster.

    Cameron and Miller, "A practitioner's guide to cluster-robust inference", 2015, equation 11.
    """
    names, position = np.unique(np.asarray(clusters), return_inverse=True)
    if len(names) < 2:
        return float("inf")
    sums = np.bincount(position, weights * (differences - weights @ differences))
    return float(np.sqrt(len(names) / (len(names) - 1) * (sums @ sums)))


class Sample:
    """What a model learns from: each question's gold candidates, and its hardest distractors with a thinned-out rest.

    Args:
        questions: labelled ones; those without a gold candidate teach nothing.
        names: of the features, the columns of the questions' values.
        signals: those of them whose weights are >= 0.
    """

    def __init__(self, questions: Sequence[Asked], names: Sequence[str], signals: Collection[str]) -> None:
        self.names = tuple(names)
        self._bounded = np.array([name in signals for name in names])
        self._questions = questions
        thinned = [_thinned(one, self._bounded) for one in questions]
        self._gold = np.concatenate([one.values[one.relevant] for one in questions]).astype(np.float64)
        self._gold_of = np.repeat(np.arange(len(questions)), [int(one.relevant.sum()) for one in questions])
        self._rest = np.concatenate([values for values, _ in thinned]).astype(np.float64)
        self._rest_of = np.repeat(np.arange(len(questions)), [len(values) for values, _ in thinned])
        self._log_stands_for = np.log(np.concatenate([stands_for for _, stands_for in thinned]))
        self._teaches = np.array([bool(one.relevant.any() and not one.relevant.all()) for one in questions])
        self._differs: NDArray[np.bool_] = np.logical_or(self._gold.any(axis=0), self._rest.any(axis=0))

    @property
    def varying(self) -> list[str]:
        """The features that differ between candidates; of the others there is nothing to learn."""
        return [name for name, differs in zip(self.names, self._differs, strict=True) if differs]

    def fit(
        self, strength: float, features: Collection[str] | None = None, keep: NDArray[np.bool_] | None = None
    ) -> Model:
        """Weights by maximum penalised likelihood, the largest scaled to 1, rounded to 4 decimals.

        Args:
            strength: of the regularisation.
            features: what has a weight; None: all.
            keep: (questions,) which to learn from; None: all.

        Raises:
            InputError: no question has a gold candidate and another one.
        """
        keep = np.ones(len(self._questions), dtype=bool) if keep is None else keep
        return self.model(self.solve(strength, features or self.names, keep, np.zeros(len(self.names))), strength)

    def solve(self, strength: float, features: Collection[str], keep: NDArray[np.bool_], start: Values) -> Values:
        """(features,) the weights before scaling and rounding, searched for from `start`."""
        columns = self._differs & np.array([name in features for name in self.names])
        known = keep & self._teaches
        if not known.any():
            raise InputError("no question has a candidate that answers it; check the evidence ids of the data set")
        gold, rest = known[self._gold_of], known[self._rest_of]
        loss = _Loss(
            gold=self._gold[gold][:, columns],
            gold_of=_renumbered(self._gold_of[gold]),
            rest=self._rest[rest][:, columns],
            rest_of=_renumbered(self._rest_of[rest]),
            log_stands_for=self._log_stands_for[rest],
            weights=question_weights([one for one, is_known in zip(self._questions, known, strict=True) if is_known]),
            strength=strength,
        )
        bounds = [(0, None) if bounded else (None, None) for bounded in self._bounded[columns]]
        found = minimize(loss, start[columns], jac=True, method="L-BFGS-B", bounds=bounds, options=_PRECISION)
        weights = np.zeros(len(self.names))
        weights[columns] = found.x
        return weights

    def model(self, weights: Values, strength: float) -> Model:
        """Solved weights as they are served."""
        largest = float(np.abs(weights).max()) or 1.0
        rounded = {name: round(float(w) / largest, _DIGITS) for name, w in zip(self.names, weights, strict=True)}
        return Model({name: weight for name, weight in rounded.items() if weight}, strength)


@dataclass(frozen=True, slots=True)
class _Loss:
    """The penalised loss of the module's docstring and its gradient; rows lie question by question.

    Attributes:
        gold, rest: (rows, features) gold candidates, and the others.
        gold_of, rest_of: (rows,) the question of each, 0 to questions - 1, every one present.
        log_stands_for: (rows of rest,) of how many candidates each stands for.
        weights: (questions,) what each counts.
        strength: of the regularisation.
    """

    gold: Values
    gold_of: NDArray[np.int64]
    rest: Values
    rest_of: NDArray[np.int64]
    log_stands_for: Values
    weights: Values
    strength: float

    def __call__(self, w: Values) -> tuple[float, Values]:
        starts = np.searchsorted(self.rest_of, np.arange(len(self.weights)))
        scores = self.rest @ w + self.log_stands_for
        highest = np.maximum.reduceat(scores, starts)
        exps = np.exp(scores - highest[self.rest_of])
        sums = np.add.reduceat(exps, starts)
        behind = (highest + np.log(sums))[self.gold_of] - self.gold @ w
        share = (self.weights / np.bincount(self.gold_of))[self.gold_of]
        pull = share * expit(behind)
        push = (np.bincount(self.gold_of, pull) / sums)[self.rest_of] * exps
        loss = share @ np.logaddexp(0, behind) + self.strength / 2 * (w @ w)
        return float(loss), self.rest.T @ push - self.gold.T @ pull + self.strength * w


class _Trial:
    """Measures settings of the fit on conversations it did not see."""

    def __init__(self, questions: Sequence[Asked], sample: Sample, fold: NDArray[np.int64]) -> None:
        self._questions = questions
        self._sample = sample
        self._fold = fold
        self._weights = question_weights(questions)
        self._clusters = [one.cluster for one in questions]
        # Each search begins where the fold's last one ended, which is near.
        self._near = {fold: np.zeros(len(sample.names)) for fold in sorted(set(fold.tolist()))}

    def measure(self, features: Collection[str], strength: float) -> Values:
        """(questions,) nDCG@10 of each, by weights fitted on the other folds."""
        values = np.zeros(len(self._questions))
        for fold in self._near:
            solved = self._sample.solve(strength, features, self._fold != fold, self._near[fold])
            self._near[fold] = solved
            weights = self._sample.model(solved, strength).vector(self._sample.names)
            for n in np.flatnonzero(self._fold == fold).tolist():
                one = self._questions[n]
                values[n] = ndcg_at(rank(one, weights), one.gold, DEPTH)
        return values

    def mean(self, values: Values) -> float:
        """Each data set counts the same."""
        return float(self._weights @ values)

    def worse(self, values: Values, best: Values, errors: float) -> bool:
        """Whether the mean falls below the best by more than so many standard errors of the difference."""
        differences = best - values
        return self.mean(differences) > errors * standard_error(differences, self._weights, self._clusters)


def _thinned(one: Asked, signals: NDArray[np.bool_]) -> tuple[NDArray[np.float32], Values]:
    """Distractors to learn from, (rows, features), and of how many each stands for, (rows,)."""
    others = one.values[~one.relevant]
    order = np.argsort(-others[:, signals].sum(axis=1), kind="stable")
    hardest, rest = order[:_HARDEST], order[_HARDEST:]
    sampled = rest[::_EVERY]
    stands_for = np.append(np.ones(len(hardest)), np.full(len(sampled), len(rest) / max(1, len(sampled))))
    return others[np.append(hardest, sampled)], stands_for


def _renumbered(sorted_numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same runs of equal numbers, counted from 0 without gaps."""
    return np.unique(sorted_numbers, return_inverse=True)[1]


def _without_smallest(model: Model, features: Sequence[str]) -> tuple[str, ...]:
    """The features without that of the smallest weight, and without all that have next to none."""
    size = {name: abs(model.weights.get(name, 0.0)) for name in features}
    limit = max(_NEGLIGIBLE * max(size.values()), min(size.values()))
    return tuple(name for name in features if size[name] > limit)
