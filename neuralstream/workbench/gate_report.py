"""What the gate found, for people: tables, a comment on a pull request, one JSON document, and what to do next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from neuralstream.workbench.baseline import gated_measures, rounded
from neuralstream.workbench.comment import as_code, folded, without_constants
from neuralstream.workbench.flips import Asked, Moved, moved, moved_rows
from neuralstream.workbench.report import candidate, interval_text, markdown_table, p_text
from neuralstream.workbench.stats import ALPHA, MIN_CLUSTERS

if TYPE_CHECKING:
    from pathlib import Path

    from neuralstream.errors import InputError
    from neuralstream.workbench.baseline import Baseline
    from neuralstream.workbench.gate import Gated, Measured

__all__ = [
    "as_json",
    "markdown",
    "measure_rows",
    "next_steps",
    "question_rows",
    "questions",
    "refused_lanes",
    "renewed",
    "unjudged",
]

SHOWN = 20
"""Questions named for a lane."""

Rows = list[list[Any]]


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
             p_text(one.corrected_p), f"{one.unit}s", f"{found.wins}/{found.ties}/{found.losses}", _verdict(one)]
        )  # fmt: skip
    return rows


def question_rows(gated: Gated, lane: str) -> Rows:
    """`questions` as a table: a header, then a row per question."""
    texts = {Asked(one.conversation, one.query_id): one.text for one in gated.run.results}
    return moved_rows(questions(gated, lane), gated_measures(lane)[0], texts)


def refused_lanes(gated: Gated) -> list[str]:
    """Lanes on which a floor or a regression is broken."""
    return list(dict.fromkeys(one.lane for one in gated.broken if one.lane))


def next_steps(gated: Gated, file: Path) -> list[str]:
    """What to do now, with the commands; `file` is the baseline's. Nothing where nothing is to be done."""
    accept = f"`neuralstream gate {_quoted(gated.run.path)} --baseline {_quoted(file)} --update-baseline"
    broken = {one.rule for one in gated.broken}
    steps = []
    worst = [found[0].asked for lane in refused_lanes(gated) if (found := questions(gated, lane))]
    if worst:
        name = _quoted(f"{worst[0].conversation}/{worst[0].query_id}")
        steps.append(
            f"What came instead of the evidence, with every signal's score: "
            f"`neuralstream explain {_quoted(gated.run.path)} {name}`"
        )
    if "floor" in broken:
        floors = (f" --floor {one.lane}/{one.measure}=VALUE" for one in gated.broken if one.rule == "floor")
        steps.append(f"Where the floor is to be lower: {accept}{''.join(floors)}`, and commit {file}")
    elif broken and "record" not in broken:
        steps.append(f"Where the loss is meant, accept it in this change: {accept}`, and commit {file}")
    elif not broken and any(one.improved for one in gated.measures):
        steps.append(f"To hold what comes next against this run, renew the baseline: {accept}`, and commit {file}")
    return steps


def markdown(gated: Gated, file: Path) -> str:
    """What the gate found as Markdown, for a comment on a pull request; `file` is the baseline's."""
    manifest, was = gated.run.manifest, gated.baseline.about
    data = gated.run.metrics["dataset"]
    headlines = [one for one in gated.measures if one.measure == gated_measures(one.lane)[0]]
    parts = [
        f"### Retrieval gate: {'passed' if gated.passed else 'refused'} on {data['name']}",
        "\n".join(f"- **{one.rule}**: {one.said}" for one in gated.broken)
        or "\n".join(f"- {one.told()}" for one in headlines),
        markdown_table(without_constants(measure_rows(gated), "lane", "over")),
        _legend(gated),
    ]
    for lane in refused_lanes(gated):
        rows = as_code(question_rows(gated, lane), "question", "asked")
        if rows[1:]:
            parts += [f"Questions of lane {lane} that lost most:", folded(rows)]
    made = ((name, was[key], manifest[key]) for name, key in (("settings", "config_digest"), ("code", "core_digest")))
    about = "; ".join(
        [
            f"{data['queries_scored']} questions",
            f"data `{manifest['dataset']['sha256'][:12]}`",
            f"run {_both(was['run'], manifest['run'])}",
            *(f"{name} {_both(old, new)}" for name, old, new in made),
            f"embedder {_both(was['embedder'], manifest['embedder']['name'])}",
        ]
    )
    steps = next_steps(gated, file)
    parts += ["What to do:" if steps else "", "\n".join(f"- {step}" for step in steps), f"{about}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def unjudged(error: InputError) -> str:
    """Why there is nothing to hold against each other, as Markdown for the same comment."""
    return "### Retrieval gate: nothing to judge\n\n" + "\n\n".join(str(error).splitlines()) + "\n"


def renewed(old: Baseline | None, new: Baseline) -> list[str]:
    """What a baseline accepts now, a line a lane, beside what it accepted before where that is on the same data."""
    if old and old.about["dataset"]["sha256"] != new.about["dataset"]["sha256"]:
        old = None
    lines = []
    for lane, mode in new.modes.items():
        was = old.means(lane) if old and lane in old.modes else {}
        told = (
            f"{name} {mean:.3f}{f', was {was[name]:.3f}' if name in was else ''}"
            for name, mean in new.means(lane).items()
        )
        lines.append(f"{lane}/{mode}: {'; '.join(told)}")
    return lines


def as_json(gated: Gated) -> dict[str, Any]:
    """What the gate found as one JSON document."""
    columns, *rows = measure_rows(gated)
    return {
        "passed": gated.passed,
        "run": gated.run.manifest["run"],
        "baseline": gated.baseline.about["run"],
        "broken": [one._asdict() for one in gated.broken],
        "measures": [
            dict(zip(columns, row, strict=True)) | {"p (Holm)": one.corrected_p}
            for one, row in zip(gated.measures, rows, strict=True)
        ],
        "questions": {
            lane: [{**one.asked._asdict(), "flip": one.flip, "old": one.old, "new": one.new} for one in found]
            for lane in gated.baseline.modes
            if (found := questions(gated, lane))
        },
    }


def _legend(gated: Gated) -> str:
    """How to read p, in words."""
    cluster, found = gated.run.manifest["dataset"]["cluster"], gated.measures[0].comparison
    said = f"p is how often chance alone differs as much; at {ALPHA} or less it is not taken for chance."
    if all(one.unit == cluster for one in gated.measures):
        return f"{said} Counted over {found.clusters} {cluster}s."
    return (
        f"{said} {found.clusters} {cluster}s are too few to count over all of it ({MIN_CLUSTERS} or more do for one "
        f"measure), so single questions were counted, which finds a difference more easily."
    )


def _verdict(one: Measured) -> str:
    if one.regressed:
        return "worse"
    return "better" if one.improved else "no difference seen"


def _both(old: str, new: str) -> str:
    return f"`{new}`" if old == new else f"`{new}`, was `{old}`"


def _quoted(text: Path | str) -> str:
    return shlex.quote(str(text))
