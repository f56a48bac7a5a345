"""Fit the weights of hybrid retrieval to labelled conversations, and say what they are worth on others.

A number measured on what weights were fitted to flatters them. So three stand side by side, for each data set:

- *development*: weights fitted on all of it;
- *conversations left out*: each conversation ranked by weights that were fitted, with strength and features chosen, on
  the other conversations;
- *data set left out*: weights fitted on the other data sets of the same kind, which is what a user's own logs will see.
  Where there is no other set of the kind, the weights fitted on other kinds are shown, and called so.

Beside them: the best single signal, the equal-weight sum of the signals, and the weights in force. A fit that ranks a
development set worse than the best single signal is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralstream.errors import InputError
from neuralstream.workbench import require
from neuralstream.workbench.fitting import DEPTH, Asked, Model, Sample, choose, folds, rank
from neuralstream.workbench.metrics import ndcg_at, precision_at, precision_ceiling, recall_at
from neuralstream.workbench.stats import (
    MIN_CLUSTERS,
    Comparison,
    Interval,
    Verdict,
    bootstrap_interval,
    compare,
    holm,
    verdict,
)

if TYPE_CHECKING:
    from neuralstream.workbench.fitting import Values
    from neuralstream.workbench.tables import Tables

__all__ = [
    "DEVELOPMENT",
    "EQUAL",
    "HEADLINE",
    "IN_FORCE",
    "LEFT_OUT",
    "MEASURES",
    "OTHER_KIND",
    "SET_LEFT_OUT",
    "Ablation",
    "Judged",
    "Outcome",
    "Tuning",
    "tune",
]

MEASURES = ("P@5", "ceiling_P@5", "R@5", "R@10", "nDCG@10")
HEADLINE = "nDCG@10"

EQUAL = "equal-weight sum"
IN_FORCE = "weights in force"
DEVELOPMENT = "fitted: development"
LEFT_OUT = "fitted: conversations left out"
SET_LEFT_OUT = "fitted: data set left out"
OTHER_KIND = "fitted on kind"

FEWEST_CONVERSATIONS = 3
"""Of one kind, to fit its weights: one is left out, and choosing leaves out another."""

MOST_FOLDS = 10
_ABLATED = ("nDCG@10", "R@5")

Stage = Callable[[str, int, int], None]
Scores = Mapping[str, Sequence[float]]
"""Each measure's value for each question."""


class Judged(NamedTuple):
    """The fitted weights, conversations left out, against something else; p is corrected over all of a tuning's."""

    old: str
    comparison: Comparison
    corrected_p: float
    verdict: Verdict

    @property
    def noise(self) -> bool:
        """Whether chance explains it: by questions, which is optimistic, where conversations are too few for a test."""
        p = self.comparison.p_questions if self.comparison.clusters < MIN_CLUSTERS else self.corrected_p
        return p > 0.05


class Ablation(NamedTuple):
    """All features against all but a group's, conversations left out; a positive difference is the group's gain.

    Attributes:
        group: its name.
        features: its members.
        overall: by measure, over all questions.
        by_category: R@5 alone, within each category.
    """

    group: str
    features: Sequence[str]
    overall: Mapping[str, Comparison]
    by_category: Mapping[str, Comparison]


@dataclass(frozen=True)
class Outcome:
    """What was measured on a data set's questions of one kind.

    Attributes:
        kind: of their conversations.
        tables: the data set.
        questions: those of this kind.
        systems: every question's scores under each ranking, in the order to show: the signals by their names, EQUAL,
            IN_FORCE, and the fitted ones.
        best_signal: the one with the highest nDCG@10.
        judged: LEFT_OUT against others.
        ablations: a group of features each.
    """

    kind: str
    tables: Tables
    questions: Sequence[Asked]
    systems: Mapping[str, Scores]
    best_signal: str
    judged: Sequence[Judged] = ()
    ablations: Sequence[Ablation] = ()

    def mean(self, system: str, measure: str = HEADLINE) -> float:
        """Over the questions."""
        return float(np.mean(self.systems[system][measure]))

    def interval(self, system: str, measure: str = HEADLINE) -> Interval:
        """Of the mean, over conversations."""
        return bootstrap_interval(self.systems[system][measure], [one.conversation for one in self.questions])

    @property
    def travelled(self) -> list[str]:
        """The systems whose weights saw nothing of this data set."""
        return [name for name in self.systems if name == SET_LEFT_OUT or name.startswith(OTHER_KIND)]


@dataclass(frozen=True)
class Tuning:
    """Fitted weights and what they are worth.

    Attributes:
        models: by kind.
        outcomes: by kind and data set.
        features, signals: what had a weight, and those of it whose weights are >= 0.
        tables: the data sets.
        seed: of the folds.
        also: by kind, data sets of another kind that were fitted too.
        passed_over: what was not fitted, and why.
    """

    models: Mapping[str, Model]
    outcomes: Sequence[Outcome]
    features: Sequence[str]
    signals: Collection[str]
    tables: Sequence[Tables]
    seed: int
    also: Mapping[str, Collection[str]] = field(default_factory=dict)
    passed_over: Sequence[str] = field(default=())

    @property
    def refusals(self) -> list[str]:
        """Why these weights must not be served; empty where they may."""
        return [
            f"{one.tables.name} ({one.kind}): {system} has nDCG@10 {one.mean(system):.4f}, worse than the single "
            f"signal {one.best_signal} with {one.mean(one.best_signal):.4f}"
            for one in self.outcomes
            for system in (DEVELOPMENT, LEFT_OUT)
            if one.tables.name not in self.also.get(one.kind, ()) and one.mean(system) < one.mean(one.best_signal)
        ]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing the weights."""
        found = list(self.passed_over)
        for one in self.outcomes:
            where = f"{one.tables.name} ({one.kind})"
            gain = next(judged for judged in one.judged if judged.old == IN_FORCE)
            if gain.noise or gain.comparison.difference < 0:
                how = "within noise" if gain.noise else "a loss"
                found.append(
                    f"{where}: the gain over the weights in force, {gain.comparison.difference:+.4f} nDCG@10 with "
                    f"conversations left out, is {how} ({gain.verdict})"
                )
            if SET_LEFT_OUT in one.systems and one.mean(SET_LEFT_OUT) < one.mean(one.best_signal):
                found.append(
                    f"{where}: weights fitted on the other data sets have nDCG@10 {one.mean(SET_LEFT_OUT):.4f} here, "
                    f"worse than the single signal {one.best_signal} with {one.mean(one.best_signal):.4f}: "
                    "they may not hold on logs that they were not fitted to"
                )
        return found


def tune(
    tables: Sequence[Tables],
    in_force: Mapping[str, Mapping[str, float]],
    signals: Collection[str],
    *,
    groups: Mapping[str, Collection[str]],
    seed: int = 0,
    also: Mapping[str, Collection[str]] = MappingProxyType({}),
    progress: Stage | None = None,
) -> Tuning:
    """Fit the weights of every kind of conversation that the data sets hold, and measure them.

    Args:
        tables: the data sets; of one kind, each counts the same.
        in_force: the weights that are served now, by kind and feature.
        signals: the features whose weights are >= 0.
        groups: features that the ablation leaves out together, by the group's name.
        seed: of the assignment of conversations to folds.
        also: by kind, data sets of another kind that its weights are fitted on too, so that few conversations of one
            style do not decide alone. Weights have to hold on a set only in the kind that it is served by.
        progress: told (stage, done, total).

    Returns:
        The same for the same arguments, whatever else the machine does.

    Raises:
        InputError: two data sets have one name, their features differ, or no kind has conversations enough.
    """
    _check(tables)
    features = tables[0].features
    questions = [one for table in tables for one in table.questions]
    questions += [
        replace(one, kind=kind)
        for kind, names in also.items()
        for one in questions
        if one.dataset in names and one.kind != kind
    ]
    by_kind = {kind: [one for one in questions if one.kind == kind] for kind in sorted({one.kind for one in questions})}
    enough = {kind: own for kind, own in by_kind.items() if len({one.cluster for one in own}) >= FEWEST_CONVERSATIONS}
    passed_over = [
        f"{kind}: not fitted, its questions come from fewer than {FEWEST_CONVERSATIONS} conversations"
        for kind in by_kind
        if kind not in enough
    ]
    if not enough:
        raise InputError("; ".join(passed_over) + "; give data sets with more")
    # One thread gives the same sums on every machine, and is faster on matrices this narrow.
    with require("threadpoolctl").threadpool_limits(1):
        fits = {
            kind: _Fits(own, features, signals, groups=groups, seed=seed, steps=_Steps(progress, kind))
            for kind, own in enough.items()
        }
    models = {kind: own.model for kind, own in fits.items()}
    outcomes = [
        _outcome(own, table, in_force.get(kind, {}), models)
        for kind, own in fits.items()
        for table in tables
        if table.name in own.sets
    ]
    return Tuning(models, _corrected(outcomes), features, signals, tables, seed, also, passed_over)


class _Steps:
    """Counts the fits of one kind."""

    def __init__(self, progress: Stage | None, kind: str) -> None:
        self._progress = progress
        self._stage = f"fit {kind}"
        self._done = 0
        self.total = 0

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        if self._progress:
            self._progress(self._stage, self._done, self.total)


class _Fits:
    """All weights that are fitted for one kind of conversation.

    Attributes:
        model: fitted on all questions.
        left_out: for each question, the model fitted without its conversation.
        set_left_out: by data set, the model fitted on the others, where these hold conversations enough.
        whole: as `left_out`, with all features and the strength of `model`.
        groups: the features of each group that differ between these questions' candidates.
        without: by group, as `whole`, without the group's features.
    """

    def __init__(
        self,
        questions: Sequence[Asked],
        features: Sequence[str],
        signals: Collection[str],
        *,
        groups: Mapping[str, Collection[str]],
        seed: int,
        steps: _Steps,
    ) -> None:
        self.kind = questions[0].kind
        self.questions = questions
        self.features = features
        self.signals = signals
        self.sets = sorted({one.dataset for one in questions})
        self._seed = seed
        self._steps = steps
        self._sample = Sample(questions, features, signals)
        count = min(MOST_FOLDS, len({one.cluster for one in questions}))
        self._fold = folds(questions, count, seed)
        others = {name: [one for one in questions if one.dataset != name] for name in self.sets}
        others = {name: own for name, own in others.items() if len({one.cluster for one in own}) > 1}
        steps.total = 1 + count + len(others)
        self.model = self._choose(questions)
        self.left_out = self._by_fold(
            lambda fold: self._choose([one for one, its in zip(questions, self._fold, strict=True) if its != fold])
        )
        self.set_left_out = {name: self._choose(own) for name, own in others.items()}
        varying = self._sample.varying
        found = {group: [name for name in varying if name in members] for group, members in groups.items()}
        self.groups = {group: members for group, members in found.items() if members}
        self.whole = self._without(())
        self.without = {group: self._without(members) for group, members in self.groups.items()}

    def _without(self, group: Collection[str]) -> list[Model]:
        kept = [name for name in self.features if name not in group]
        return self._by_fold(lambda fold: self._sample.fit(self.model.strength, kept, self._fold != fold))

    def _choose(self, questions: Sequence[Asked]) -> Model:
        model = choose(questions, self.features, self.signals, seed=self._seed)
        self._steps.step()
        return model

    def _by_fold(self, fitted: Callable[[int], Model]) -> list[Model]:
        models = {fold: fitted(fold) for fold in sorted(set(self._fold.tolist()))}
        return [models[fold] for fold in self._fold.tolist()]


def _outcome(own: _Fits, table: Tables, in_force: Mapping[str, float], models: Mapping[str, Model]) -> Outcome:
    """What the fits of one kind are worth on a data set.

    Args:
        own: the fits.
        table: the data set.
        in_force: the weights that are served now.
        models: of every kind.
    """
    chosen = [n for n, one in enumerate(own.questions) if one.dataset == table.name]
    questions = [own.questions[n] for n in chosen]

    def scores(models: Sequence[Model]) -> Scores:
        return _scores(questions, [models[n].vector(own.features) for n in chosen])

    def scores_of(weights: Mapping[str, float]) -> Scores:
        return scores([Model(weights, 0)] * len(own.questions))

    signals = {name: scores_of({name: 1.0}) for name in own.features if name in own.signals}
    best = max(signals, key=lambda name: (np.mean(signals[name][HEADLINE]), name))
    systems = signals | {
        EQUAL: scores_of(dict.fromkeys(signals, 1.0)),
        IN_FORCE: scores_of(in_force),
        DEVELOPMENT: scores_of(own.model.weights),
        LEFT_OUT: scores(own.left_out),
    }
    if table.name in own.set_left_out:
        systems[SET_LEFT_OUT] = scores_of(own.set_left_out[table.name].weights)
    else:
        others = {kind: model for kind, model in models.items() if kind != own.kind}
        systems |= {f"{OTHER_KIND} {kind}": scores_of(model.weights) for kind, model in others.items()}
    full = scores(own.whole)
    ablations = [
        _ablation(group, own.groups[group], questions, full, scores(models)) for group, models in own.without.items()
    ]
    return Outcome(own.kind, table, questions, systems, best, _judge(questions, systems, best), ablations)


def _scores(questions: Sequence[Asked], weights: Sequence[Values]) -> Scores:
    """Every measure of every question, each ranked by its own weights."""
    scores: dict[str, list[float]] = {name: [] for name in MEASURES}
    for one, own in zip(questions, weights, strict=True):
        ranking = rank(one, own)
        scores["P@5"].append(precision_at(ranking, one.gold, 5))
        scores["ceiling_P@5"].append(precision_ceiling(one.gold, 5))
        scores["R@5"].append(recall_at(ranking, one.gold, 5))
        scores["R@10"].append(recall_at(ranking, one.gold, 10))
        scores["nDCG@10"].append(ndcg_at(ranking, one.gold, DEPTH))
    return scores


def _judge(questions: Sequence[Asked], systems: Mapping[str, Scores], best: str) -> list[Judged]:
    """Not corrected yet."""
    clusters = [one.conversation for one in questions]
    new = systems[LEFT_OUT][HEADLINE]
    found = [(old, compare(new, systems[old][HEADLINE], clusters)) for old in (best, EQUAL, IN_FORCE)]
    return [Judged(old, comparison, comparison.p, verdict(comparison, comparison.p)) for old, comparison in found]


def _corrected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """With the p values corrected for all that a tuning compares."""
    judged = [one for outcome in outcomes for one in outcome.judged]
    corrected = iter(holm([one.comparison.p for one in judged]))

    def correct(one: Judged) -> Judged:
        p = next(corrected)
        return one._replace(corrected_p=p, verdict=verdict(one.comparison, p, len(judged)))

    return [replace(outcome, judged=[correct(one) for one in outcome.judged]) for outcome in outcomes]


def _ablation(
    group: str, features: Sequence[str], questions: Sequence[Asked], full: Scores, without: Scores
) -> Ablation:
    def compared(measure: str, category: str | None = None) -> Comparison:
        chosen = [n for n, one in enumerate(questions) if category in {None, one.category}]
        new, old = ([scores[measure][n] for n in chosen] for scores in (full, without))
        return compare(new, old, [questions[n].conversation for n in chosen])

    categories = sorted({one.category for one in questions})
    return Ablation(
        group,
        features,
        {name: compared(name) for name in _ABLATED},
        {name: compared("R@5", name) for name in categories},
    )


def _check(tables: Sequence[Tables]) -> None:
    names = [one.name for one in tables]
    if not tables or len(set(names)) < len(names):
        raise InputError(f"data sets {', '.join(names) or 'missing'}: give one or more, each once")
    if len({one.features for one in tables}) > 1:
        raise InputError("the data sets' tables have different features; collect them with the same code")
