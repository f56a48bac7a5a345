"""What a run says, as rows and as Markdown: the comparison, whether its differences are real, what failed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import SecretStr

from neuralstream.config import Settings
from neuralstream.workbench.metrics import BUDGETS, HEADLINE
from neuralstream.workbench.runs import write_text
from neuralstream.workbench.stats import MIN_CLUSTERS, Comparison, Verdict, compare, holm, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.workbench.runs import QueryResult, Run

__all__ = [
    "Judged",
    "budget_rows",
    "candidate",
    "comparison_rows",
    "extractor_text",
    "failing",
    "gem_rows",
    "interval_text",
    "judge",
    "markdown",
    "markdown_table",
    "p_text",
    "set_options",
    "verdict_rows",
    "write_markdown",
]

_COLUMNS = ("P@5", "ceiling_P@5", "R@5", "R@10", "nDCG@10", "MRR", "evidence@500", "evidence@1000", "evidence@2000")
_TITLES = {"ceiling_P@5": "of at most"}
_SECRET = str(SecretStr("any"))
"""What is recorded of a key, or an address that may hold one."""

_GEM_FACTS: Mapping[str, str] = {
    "gems_per_100_turns": "gems per 100 turns",
    "source_turns_per_gem": "source turns per gem",
    "injected_tokens_per_gem": "injected tokens per gem",
    "duplicates": "duplicates",
    "merged": "merged into older ones",
    "superseded": "superseded",
    "reference_recall": "recall of reference gems, by vectors",
    "reference_precision": "precision, by vectors",
    "reference_recall_words": "recall of reference gems, by words",
    "reference_precision_words": "precision, by words",
    "calls": "calls of the model",
    "valid_answers": "share of answers that were valid as they came",
    "repairs": "repairs",
    "split": "batches halved",
    "dead_letters": "dead letters",
    "tokens": "tokens, in and out",
    "tokens_per_gem": "tokens spent per gem",
}
"""What is shown of what distilling made and cost, and what it is called."""


class Judged(NamedTuple):
    """The candidate against another mode on the lane's headline measure; p is corrected over the run's comparisons."""

    lane: str
    new: str
    old: str
    measure: str
    comparison: Comparison
    corrected_p: float
    verdict: Verdict


def candidate(run: Run, lane: str) -> str:
    """The mode that would be served: what the settings name, or the last one evaluated where that was left out."""
    modes = run.manifest["arguments"]["modes"]
    named: str = run.manifest["candidate"]
    return named if named in run.metrics["lanes"][lane] else str(modes[-1])


def comparison_rows(run: Run) -> list[list[Any]]:
    """The comparison table: a header, then a row per lane and mode. None is a measure that the lane does not have.

    P@5 stands beside the most it can be; the lane's headline measure has its 95 % interval.
    """
    shown = [name for name in _COLUMNS if any(name in row for _, _, row, _ in _modes(run))]
    rows: list[list[Any]] = [["lane", "mode", *(_TITLES.get(name, name) for name in shown), "95 % interval"]]
    for lane, mode, overall, intervals in _modes(run):
        headline = HEADLINE[lane]
        rows.append([lane, mode, *(overall.get(name) for name in shown), interval_text(headline, intervals[headline])])
    return rows


def gem_rows(run: Run) -> list[list[Any]]:
    """What distilling made and cost: a header, then a row per fact; only the header where gems were not evaluated.

    None is a fact that there is not: reference gems that the set lacks, answers of a model that was not asked.
    """
    rows: list[list[Any]] = [["gems", "value", "95 % interval"]]
    for _, _, overall, intervals in _modes(run):
        if "gems_per_100_turns" in overall:
            facts = [(name, title) for name, title in _GEM_FACTS.items() if name in overall]
            return rows + [[title, overall[name], interval_text("", intervals.get(name))] for name, title in facts]
    return rows


def budget_rows(run: Run) -> list[list[Any]]:
    """Is distilling worth it? The candidate's evidence at each budget: gems, or gems and turns, beside raw turns.

    A header, then a row per lane with gems and budget; only the header where raw turns were not evaluated too. p is
    corrected over the table (Holm).
    """
    rows: list[list[Any]] = [
        ["lane", "mode", "budget", "evidence", "raw turns", "difference", "95 % interval", "p (Holm)", "verdict"]
    ]
    if "turns" not in run.lanes:
        return rows
    mode = candidate(run, "turns")
    turns = run.of("turns", mode)
    clusters = [one.conversation for one in turns]
    pairs = []
    for lane in (lane for lane in run.lanes if lane != "turns"):
        for budget in BUDGETS:
            name = f"evidence@{budget}"
            ours = [one.scores[name] for one in run.of(lane, mode)]
            pairs.append((lane, budget, compare(ours, [one.scores[name] for one in turns], clusters)))
    corrected = holm([found.p for *_, found in pairs])
    for (lane, budget, found), p in zip(pairs, corrected, strict=True):
        there, raw = (run.metrics["lanes"][name][mode]["overall"][f"evidence@{budget}"] for name in (lane, "turns"))
        said = verdict(found, p, len(pairs))
        interval = interval_text("", found.interval)
        rows.append([lane, mode, budget, there, raw, found.difference, interval, p_text(p), said])
    return rows


def judge(run: Run) -> list[Judged]:
    """The candidate of each lane against every other mode."""
    pairs = []
    for lane in run.lanes:
        new, measure = candidate(run, lane), HEADLINE[lane]
        ours = run.of(lane, new)
        for old in run.manifest["arguments"]["modes"]:
            if old != new:
                theirs = [result.scores[measure] for result in run.of(lane, old)]
                clusters = [result.conversation for result in ours]
                pairs.append((lane, new, old, measure, compare([r.scores[measure] for r in ours], theirs, clusters)))
    corrected = holm([pair[-1].p for pair in pairs])
    return [Judged(*pair, p, verdict(pair[-1], p, len(pairs))) for pair, p in zip(pairs, corrected, strict=True)]


def verdict_rows(run: Run) -> list[list[Any]]:
    """`judge` as a table: a header, then a row per comparison."""
    rows: list[list[Any]] = [
        [
            "lane",
            "compared",
            "measure",
            "difference",
            "95 % interval",
            "p (Holm)",
            "p over questions",
            "win/tie/loss",
            "verdict",
        ]
    ]
    for lane, new, old, measure, found, p, said in judge(run):
        few = found.clusters < MIN_CLUSTERS
        rows.append(
            [
                *(lane, f"{new} - {old}", measure, found.difference, interval_text("", found.interval), p_text(p)),
                *(p_text(found.p_questions) if few else None, f"{found.wins}/{found.ties}/{found.losses}", said),
            ]
        )
    return rows


def failing(run: Run, lane: str, mode: str) -> list[QueryResult]:
    """Queries with no gold among the first five hits, in the order they were asked."""
    return [result for result in run.of(lane, mode) if result.scores["R@5"] == 0]


def markdown(run: Run) -> str:
    """The run as a short Markdown page, for `reports/` and for pull requests."""
    data = run.metrics["dataset"]
    about = (
        f"{data['queries_scored']} of {data['queries_total']} queries scored over {data['conversations']} "
        f"{run.manifest['dataset']['cluster']}s; {data['queries_unscored']} have no evidence. "
        f"Data SHA-256 `{data['sha256']}`, settings `{run.metrics['config_digest']}`, "
        f"core `{run.manifest['core_digest']}`, embedder {run.manifest['embedder']['name']}, "
        f"extractor {extractor_text(run)}, bootstrap seed {run.manifest['seeds']['bootstrap']}."
    )
    parts = [f"# {data['name']}", about, f"Made by `{_command(run)}`.", markdown_table(comparison_rows(run))]
    if len(gem_rows(run)) > 1:
        parts += ["## What distilling made and cost", markdown_table(gem_rows(run))]
    if len(budget_rows(run)) > 1:
        parts += ["## Evidence that fits into a budget, beside raw turns", markdown_table(budget_rows(run))]
    if len(verdict_rows(run)) > 1:
        parts += ["## Is the difference real?", markdown_table(verdict_rows(run))]
    return "\n\n".join(parts) + "\n"


def extractor_text(run: Run) -> str:
    """The extractor, with its prompt and the recorded answers it drew on where there are any."""
    facts = run.manifest["distilling"]
    told = [f"prompt {facts['prompt']}"] if "prompt" in facts else []
    told += [f"cassette SHA-256 `{facts['cassette_sha256']}`"] if facts.get("cassette_sha256") else []
    return f"{facts['name']} ({', '.join(told)})" if told else str(facts["name"])


def write_markdown(run: Run, path: Path | str) -> Path:
    """Write `markdown` to a file."""
    return write_text(Path(path), markdown(run))


def _modes(run: Run) -> list[tuple[str, str, dict[str, float], dict[str, list[float] | None]]]:
    """Lane, mode, overall scores and intervals, in the order that was asked for."""
    return [
        (lane, mode, run.metrics["lanes"][lane][mode]["overall"], run.metrics["lanes"][lane][mode]["ci"])
        for lane in run.manifest["arguments"]["lanes"]
        for mode in run.manifest["arguments"]["modes"]
    ]


def _command(run: Run) -> str:
    """The command that makes this run again."""
    data, asked = run.manifest["dataset"], run.manifest["arguments"]
    spec = data["name"] if data["shipped"] else f"{data['format']}:{data['path']}"
    if data["split"] and not data["shipped"]:
        spec += f"@{data['split']}"
    modes, lanes = ",".join(asked["modes"]), ",".join(asked["lanes"])
    given = "".join(f" --set {shlex.quote(text)}" for text in set_options(run.manifest["settings"]))
    return f"neuralstream eval --dataset {spec} --modes {modes} --lane {lanes}{given} --out DIR"


def set_options(settings: Mapping[str, Any]) -> list[str]:
    """`name=value` for every recorded setting that is not the default.

    Left out are folders of this machine, and what is secret: it was not recorded, and whoever runs has it.
    """
    defaults = Settings().model_dump(mode="json")
    found = []
    for name, value in settings.items():
        if isinstance(value, dict):
            pairs = [(f"{name}.{key}", one, defaults[name][key]) for key, one in value.items()]
        else:
            pairs = [(name, value, defaults[name])]
        for dotted, one, default in pairs:
            if one not in (default, None) and dotted not in {"home", "cache_dir"} and _SECRET not in str(one):
                found.append(f"{dotted}={one if isinstance(one, str | int | float) else json.dumps(one)}")
    return found


def interval_text(measure: str, ends: Sequence[float] | None) -> str | None:
    """An interval after its measure's name; None where there were too few clusters for one."""
    if ends is None or ends[0] != ends[0]:
        return None
    return f"{measure} {ends[0]:.3f} to {ends[1]:.3f}".strip()


def p_text(value: float) -> str:
    """A p value, which is never zero."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def markdown_table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows under a header as a Markdown table: numbers with three decimals; a missing value is a dash."""
    lines = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])
