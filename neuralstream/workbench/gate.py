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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from neuralstream.errors import InputError
from neuralstream.provenance import PromotedSettings, doubt
from neuralstream.workbench.baseline import Baseline, Floors, gated_measures, rounded
from neuralstream.workbench.comparing import escaped, holm_in_two
from neuralstream.workbench.flips import Asked, Moved, moved, moved_rows, pairs
from neuralstream.workbench.report import candidate, interval_text, markdown_table, p_text
from neuralstream.workbench.run_folders import spec_of
from neuralstream.workbench.stats import ALPHA, Comparison, compare, holm, sign_flip_p, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neuralstream.workbench.runs import Run

__all__ = [
    "Broken",
    "Gated",
    "Measured",
    "as_json",
    "gate",
    "joined",
    "markdown",
    "measure_rows",
    "parse_floors",
    "question_rows",
    "questions",
    "refused_lanes",
]

SHOWN = 20
"""Questions named for a rule."""

Rows = list[list[Any]]


class Measured(NamedTuple):
    """A measure of the run beside the baseline's.

    Attributes:
        mode: of the run; `old_mode` is the baseline's.
        corrected_p: by Holm, over the unit that `unit` names.
        unit: what chance was measured over: the data set's cluster, or "question".
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
        InputError: the run is on other data than the baseline, lacks one of its lanes, or a measure with a floor.
    """
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


def questions(gated: Gated, lane: str) -> list[Moved]:
    """The questions of a lane that lost most on its headline measure, worst first."""
    mode = candidate(gated.run, lane)
    changed = moved(rounded(gated.run, lane, mode), gated.baseline.scores[lane], gated_measures(lane)[0])
    return [one for one in changed if one.new < one.old][:SHOWN]


def measure_rows(gated: Gated) -> Rows:
    """What was measured, as a table: a header, then a row per lane and measure."""
    rows: Rows = [
        ["lane", "mode", "measure", "baseline", "run", "difference", "95 % interval", "p (Holm)", "over",
         "win/tie/loss", "verdict"]
    ]  # fmt: skip
    for one in gated.measures:
        found = one.comparison
        mode = one.mode if one.mode == one.old_mode else f"{one.mode}, was {one.old_mode}"
        rows.append(
            [one.lane, mode, one.measure, one.old, one.new, found.difference, interval_text("", found.interval),
             p_text(one.corrected_p), f"{one.unit}s",
             f"{found.wins}/{found.ties}/{found.losses}", _verdict(one)]
        )  # fmt: skip
    return rows


def question_rows(gated: Gated, lane: str) -> Rows:
    """`questions` as a table: a header, then a row per question."""
    texts = {Asked(one.conversation, one.query_id): one.text for one in gated.run.results}
    return moved_rows(questions(gated, lane), gated_measures(lane)[0], texts)


def refused_lanes(gated: Gated) -> list[str]:
    """Lanes on which a floor or a regression is broken."""
    return list(dict.fromkeys(one.lane for one in gated.broken if one.lane))


def markdown(gated: Gated) -> str:
    """What the gate found as Markdown, for a comment on a pull request."""
    manifest, was = gated.run.manifest, gated.baseline.about
    data = gated.run.metrics["dataset"]
    head = "passed" if gated.passed else "refused"
    parts = [
        f"### Retrieval gate: {head} on {data['name']}",
        "\n".join(f"- **{one.rule}**: {one.said}" for one in gated.broken),
        markdown_table(measure_rows(gated)),
    ]
    for lane in refused_lanes(gated):
        parts += [f"Questions of lane {lane} that lost most:", markdown_table(escaped(question_rows(gated, lane)))]
    parts.append(
        f"{data['queries_scored']} questions; run `{manifest['run']}` against baseline `{was['run']}`, settings "
        f"`{manifest['config_digest']}` against `{was['config_digest']}`, code `{manifest['core_digest']}` against "
        f"`{was['core_digest']}`, data `{manifest['dataset']['sha256'][:12]}`."
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(gated: Gated) -> dict[str, Any]:
    """What the gate found as one JSON document."""
    columns, *rows = measure_rows(gated)
    return {
        "passed": gated.passed,
        "run": gated.run.manifest["run"],
        "baseline": gated.baseline.about["run"],
        "broken": [one._asdict() for one in gated.broken],
        "measures": [dict(zip(columns, row, strict=True)) for row in rows],
        "questions": {
            lane: [{**one.asked._asdict(), "flip": one.flip, "old": one.old, "new": one.new} for one in found]
            for lane in gated.baseline.modes
            if (found := questions(gated, lane))
        },
    }


def _refuse_other_data(run: Run, baseline: Baseline) -> None:
    ours, theirs = run.manifest["dataset"], baseline.about["dataset"]
    if ours["sha256"] != theirs["sha256"]:
        raise InputError(
            f"the run is on {ours['name']} ({ours['sha256'][:12]}), the baseline on {theirs['name']} "
            f"({theirs['sha256'][:12]}), and questions of other data cannot be paired; evaluate {theirs['spec']}, or, "
            "where the data were changed on purpose, evaluate what is served on them and --update-baseline"
        )
    missing = [lane for lane in baseline.modes if lane not in run.lanes]
    if missing:
        raise InputError(
            f"the run has no lane {', '.join(missing)}, which the baseline has; evaluate {spec_of(run)} with "
            f"--lane {','.join(baseline.modes)}"
        )


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
        regressed = corrected <= ALPHA and comparison.difference < 0
        means = float(np.mean(old)), float(np.mean(new))
        measured.append(
            Measured(lane, mode, baseline.modes[lane], measure, *means, comparison, corrected, unit, regressed)
        )
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
    return [
        Broken(
            "regression", one.lane, one.measure,
            f"{one.lane}: {one.measure} fell from {one.old:.3f} to {one.new:.3f} ({one.comparison.difference:+.3f}, "
            f"{interval_text('95 %', one.comparison.interval) or 'too few for an interval'}; "
            f"p {p_text(one.corrected_p)} over {one.unit}s)",
        )
        for one in measures
        if one.regressed
    ]  # fmt: skip


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
            f"{one.lane}: {one.measure} fell for {name} by {-difference:.3f} (p {p_text(p)} over its questions) and "
            f"over all by {-one.comparison.difference:.3f}",
        )
        for (one, name, difference, _), p in zip(found, corrected, strict=True)
        if p <= ALPHA and difference < 0 and one.comparison.difference < 0 and not one.regressed
    ]  # fmt: skip


def _unrecorded(run: Run) -> list[Broken]:
    recorded = run.manifest["settings"].get("promoted")
    why = recorded and doubt(PromotedSettings(**recorded), run.manifest["config_digest"])
    return [Broken("record", "", "", why)] if why else []


def _verdict(one: Measured) -> str:
    if one.corrected_p > ALPHA:
        return "no difference seen"
    return "worse" if one.regressed else "better"
