"""May this run replace what is served? Against a baseline that carries every question's score.

The rules, each named where it fails:

    floor         a mean is below an absolute value
    regression    a measure is worse than the baseline's by more than chance (paired sign flips, corrected by Holm: the
                  headline measures for each other, the rest for all measures)
    concentrated  a lane's headline measure fell, and for one conversation by more than chance, over its questions
                  (corrected by Holm for all conversations): what breaks for one person only, flipping whole
                  conversations cannot tell from chance. Told where the regression is not told already.
    record        the run's settings say that they were promoted, and are not those that were

Chance is measured over conversations. Where these are too few for any verdict, it is measured over questions, which
finds a difference more easily than it should: the gate errs on the side of refusing, and says so. Questions that the
run did not answer score 0.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from neuralstream.errors import InputError
from neuralstream.provenance import PromotedSettings, doubt
from neuralstream.workbench.baseline import Baseline, Floors, gated_measures, rounded
from neuralstream.workbench.comparing import holm_in_two, moved_text
from neuralstream.workbench.flips import Asked, pairs
from neuralstream.workbench.report import candidate, p_text
from neuralstream.workbench.run_folders import spec_of
from neuralstream.workbench.stats import ALPHA, Comparison, compare, holm, sign_flip_p, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neuralstream.workbench.runs import Run

__all__ = ["Broken", "Gated", "Measured", "gate", "joined", "parse_floors"]

_NAMED = 5
"""Questions named where the data are other than the baseline's."""


class Measured(NamedTuple):
    """A measure of the run beside the baseline's.

    Attributes:
        mode: of the run; `old_mode` is the baseline's.
        corrected_p: by Holm, over the unit that `unit` names.
        unit: what chance was measured over: the data set's cluster, or "question".
        regressed, improved: whether it is worse, or better, by more than chance.
    """

    lane: str
    mode: str
    old_mode: str
    measure: str
    old: float
    new: float
    comparison: Comparison
    corrected_p: float
    unit: str
    regressed: bool
    improved: bool

    def told(self) -> str:
        """In a sentence: how it moved, and whether that may be chance."""
        said = f"{self.lane}: {moved_text(self.measure, self.old, self.new)}"
        certain = self.regressed or self.improved
        if not certain and f"{self.old:.3f}" == f"{self.new:.3f}":
            return said
        chance = "not by chance" if certain else "which may be chance"
        return f"{said}, {chance} (p {p_text(self.corrected_p)} over {self.unit}s)"


class Broken(NamedTuple):
    """A rule that the run breaks, in words; lane and measure are empty where it is about neither."""

    rule: Literal["floor", "regression", "concentrated", "record"]
    lane: str
    measure: str
    said: str


class Gated(NamedTuple):
    """What the gate found; it refuses where a rule is broken."""

    run: Run
    baseline: Baseline
    measures: list[Measured]
    broken: list[Broken]

    @property
    def passed(self) -> bool:
        """Whether no rule is broken."""
        return not self.broken


def gate(run: Run, baseline: Baseline, floors: Floors | None = None) -> Gated:
    """Hold a run against a baseline and floors.

    Args:
        run: its candidate on every lane of the baseline.
        baseline: what was accepted before.
        floors: beside those of the baseline, which they win over.

    Raises:
        InputError: the run is on other data than the baseline, lacks one of its lanes or a measure with a floor, or did
            not measure what its settings serve.
    """
    _refuse_unmeasured(run)
    _refuse_other_data(run, baseline)
    measures = _measure(run, baseline)
    broken = [
        *_below(run, joined(baseline.floors, floors or {})),
        *_regressed(measures),
        *_concentrated(run, baseline, measures),
        *_unrecorded(run),
    ]
    return Gated(run, baseline, measures, broken)


def parse_floors(texts: Iterable[str], lane: str) -> dict[str, dict[str, float]]:
    """`MEASURE=VALUE` or `LANE/MEASURE=VALUE` texts as floors; `lane` is whose where none is named.

    Raises:
        InputError: a text is neither.
    """
    floors: dict[str, dict[str, float]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        named, slash, measure = name.rpartition("/")
        try:
            floors.setdefault(named if slash else lane, {})[measure] = float(value)
        except ValueError:
            raise InputError(f"--floor {text!r}: write MEASURE=VALUE, such as nDCG@10=0.65 or gems/R@5=0.4") from None
    return floors


def joined(lower: Floors, upper: Floors) -> dict[str, dict[str, float]]:
    """Floors of both; where both set one, the upper's."""
    return {lane: {**lower.get(lane, {}), **upper.get(lane, {})} for lane in {**lower, **upper}}


def _refuse_unmeasured(run: Run) -> None:
    """A run of other rankings than the one that its settings serve says nothing of them."""
    served, evaluated = run.manifest["candidate"], run.manifest["arguments"]["modes"]
    if served not in evaluated:
        raise InputError(
            f"the settings serve retrieval.mode {served}, and {run.path} measured {', '.join(evaluated)}; evaluate "
            f"{spec_of(run)} with --modes {served}, or without --modes"
        )
    for lane in run.lanes:
        if not run.of(lane, served):
            raise InputError(
                f"{run.path} has no answer of lane {lane}, mode {served}: per_query.jsonl lacks them; evaluate again"
            )


def _refuse_other_data(run: Run, baseline: Baseline) -> None:
    ours, theirs = run.manifest["dataset"], baseline.about["dataset"]
    if ours["sha256"] != theirs["sha256"]:
        raise InputError(
            f"the run is on {ours['name']} ({ours['sha256'][:12]}), the baseline on {theirs['name']} "
            f"({theirs['sha256'][:12]}): {_other_questions(run, baseline)}\n"
            f"where the wrong set was named: evaluate {theirs['spec']}\n"
            "where the set was changed on purpose: measure on it what is served now, and accept that, with "
            f"`neuralstream eval --dataset {spec_of(run)} --out ACCEPTED` and "
            "`neuralstream gate ACCEPTED --baseline FILE --update-baseline`"
        )
    missing = [lane for lane in baseline.modes if lane not in run.lanes]
    if missing:
        raise InputError(
            f"the run has no lane {', '.join(missing)}, which the baseline has; evaluate {spec_of(run)} with "
            f"--lane {','.join(baseline.modes)}"
        )


def _other_questions(run: Run, baseline: Baseline) -> str:
    """How the questions differ, in words."""
    ours = {Asked(one.conversation, one.query_id) for one in run.results}
    theirs = {asked for scores in baseline.scores.values() for asked in scores}
    if not ours & theirs:
        return "not one question in common"
    if ours == theirs:
        return "the same questions, over other logs or with other labels"
    told = []
    for names, what in ((ours - theirs, "new"), (theirs - ours, "gone")):
        named = [f"{one.conversation}/{one.query_id}" for one in sorted(names)]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        told.append(f"{len(named)} {what}" + (f" ({', '.join(named[:_NAMED])}{more})" if named else ""))
    return f"{len(ours)} questions, where the baseline has {len(theirs)}: {', '.join(told)}"


def _measure(run: Run, baseline: Baseline) -> list[Measured]:
    found: list[tuple[str, str, str, list[float], list[float], Comparison]] = []
    for lane in baseline.modes:
        mode = candidate(run, lane)
        ours, theirs = rounded(run, lane, mode), baseline.scores[lane]
        for measure in gated_measures(lane):
            new, old, clusters = pairs(ours, theirs, measure)
            found.append((lane, mode, measure, new, old, compare(new, old, clusters)))
    first = [n for n, (lane, _, measure, *_) in enumerate(found) if measure == gated_measures(lane)[0]]
    comparisons = [one[-1] for one in found]
    by_cluster = holm_in_two([one.p for one in comparisons], first)
    by_question = holm_in_two([one.p_questions for one in comparisons], first)
    measured = []
    for n, (lane, mode, measure, new, old, comparison) in enumerate(found):
        compared = len(first) if n in first else len(found)
        few = verdict(comparison, by_cluster[n], compared) == "too few to tell"
        corrected = by_question[n] if few else by_cluster[n]
        unit = "question" if few else run.manifest["dataset"]["cluster"]
        certain, difference = corrected <= ALPHA, comparison.difference
        measured.append(
            Measured(
                lane, mode, baseline.modes[lane], measure, float(np.mean(old)), float(np.mean(new)), comparison,
                corrected, unit, regressed=certain and difference < 0, improved=certain and difference > 0,
            )
        )  # fmt: skip
    return measured


def _below(run: Run, floors: Floors) -> list[Broken]:
    broken = []
    for lane, by_measure in floors.items():
        if lane not in run.lanes:
            raise InputError(f"a floor is set on lane {lane}, and the run has {', '.join(run.lanes)}")
        overall = run.metrics["lanes"][lane][candidate(run, lane)]["overall"]
        for measure, floor in by_measure.items():
            if measure not in overall:
                raise InputError(f"a floor is set on {measure}; lane {lane} has {', '.join(overall)}")
            if overall[measure] < floor:
                said = f"{lane}: {measure} is {overall[measure]:.3f}, and the floor {floor:.3f}"
                broken.append(Broken("floor", lane, measure, said))
    return broken


def _regressed(measures: Sequence[Measured]) -> list[Broken]:
    return [Broken("regression", one.lane, one.measure, one.told()) for one in measures if one.regressed]


def _concentrated(run: Run, baseline: Baseline, measures: Sequence[Measured]) -> list[Broken]:
    found: list[tuple[Measured, str, float, float]] = []  # a conversation, its mean difference, p over its questions
    for one in measures:
        if one.measure != gated_measures(one.lane)[0]:
            continue
        new, old, conversations = pairs(rounded(run, one.lane, one.mode), baseline.scores[one.lane], one.measure)
        differences: dict[str, list[float]] = defaultdict(list)
        for after, before, name in zip(new, old, conversations, strict=True):
            differences[name].append(after - before)
        for name, own in differences.items():
            found.append((one, name, float(np.mean(own)), sign_flip_p(own, [str(n) for n in range(len(own))])))
    corrected = holm([p for *_, p in found])
    return [
        Broken(
            "concentrated", one.lane, one.measure,
            f"{one.lane}: {one.measure} fell for {name} by {-difference:.3f}, not by chance (p {p_text(p)} over its "
            f"questions), and over all by {-one.comparison.difference:.3f}",
        )
        for (one, name, difference, _), p in zip(found, corrected, strict=True)
        if p <= ALPHA and difference < 0 and one.comparison.difference < 0 and not one.regressed
    ]  # fmt: skip


def _unrecorded(run: Run) -> list[Broken]:
    recorded = run.manifest["settings"].get("promoted")
    why = recorded and doubt(PromotedSettings(**recorded), run.manifest["config_digest"])
    return [Broken("record", "", "", why)] if why else []
