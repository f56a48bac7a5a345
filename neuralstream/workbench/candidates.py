"""Configurations beside each other: measured on the same questions, ordered, tested, priced.

A candidate is written as settings, `retrieval.mode=hybrid batch_size=3`, or as the folder of a run that
measured it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from neuralstream.config import assignments
from neuralstream.errors import InputError
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.flips import pairs, scores_of
from neuralstream.workbench.metrics import HEADLINE
from neuralstream.workbench.report import candidate, interval_text, p_text
from neuralstream.workbench.run_folders import open_run, run_settings
from neuralstream.workbench.stats import MIN_CLUSTERS, Comparison, Verdict, compare, holm, verdict
from neuralstream.workbench.sweep_file import settings_of

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.types import Lane
    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.evaluate import Progress
    from neuralstream.workbench.runs import Run

__all__ = ["Beaten", "beaten", "confirm", "measure", "price_rows", "rank_rows", "ranked"]

_PRICES = ("calls", "tokens", "gems_per_100_turns")


class Beaten(NamedTuple):
    """The best candidate against another; p is corrected over all the others."""

    name: str
    comparison: Comparison
    corrected_p: float
    verdict: Verdict


def measure(
    dataset: Dataset,
    base: Settings,
    candidates: Sequence[str],
    *,
    lane: Lane,
    out: Path,
    progress: Progress | None = None,
) -> dict[str, Run]:
    """A run for each candidate, each asked under the mode that it would serve.

    Args:
        dataset: what is asked.
        base: settings under those of the candidates.
        candidates: settings with spaces between them, or a run's folder.
        lane: what is searched.
        out: the run of the n-th candidate goes into the folder n.
        progress: told (stage, done, total).

    Raises:
        InputError: there is none, one is named twice, or a run is on other data or lacks the lane.
        SettingsError: a setting is unknown, malformed or out of range.
    """
    if not candidates or len(set(candidates)) < len(candidates):
        raise InputError(f"candidates {', '.join(candidates) or 'missing'}: give one or more, each once")
    found = {}
    for number, text in enumerate(candidates, 1):
        if "=" in text:
            settings = settings_of(base, assignments(text.split()))
            modes = (settings.retrieval.mode,)
            found[text] = evaluate(
                dataset, settings, modes=modes, lanes=(lane,), out=out / str(number), progress=progress
            )
        else:
            found[text] = _measured(text, dataset, lane)
    return found


def confirm(
    dataset: Dataset,
    base: Settings,
    runs: Mapping[str, Run],
    *,
    lane: Lane,
    out: Path,
    progress: Progress | None = None,
) -> dict[str, Run]:
    """The best candidate and the second, measured as they were on data that they were not chosen on.

    Args:
        dataset: other data than that of `runs`.
        base: where models and folders are; what decides a result is taken from the runs.
        runs: by candidate.
        lane: what is searched.
        out: the best one's run goes into the folder 1, the second's into 2.
        progress: told (stage, done, total).
    """
    found = {}
    for number, name in enumerate(ranked(runs, lane)[:2], 1):
        measured = run_settings(runs[name])
        settings = base.model_copy(update={field: getattr(measured, field) for field in measured.deciding()})
        modes = (candidate(runs[name], lane),)
        found[name] = evaluate(dataset, settings, modes=modes, lanes=(lane,), out=out / str(number), progress=progress)
    return found


def ranked(runs: Mapping[str, Run], lane: str) -> list[str]:
    """The candidates by the lane's headline measure, best first; of equal ones the first that was named."""
    return sorted(runs, key=lambda name: -_overall(runs[name], lane)[HEADLINE[lane]])


def beaten(runs: Mapping[str, Run], lane: str) -> list[Beaten]:
    """The best against every other, in their order."""
    best, *others = ranked(runs, lane)
    ours = _scores(runs[best], lane)
    found = [compare(*pairs(ours, _scores(runs[name], lane), HEADLINE[lane])) for name in others]
    corrected = holm([one.p for one in found])
    return [
        Beaten(name, one, p, verdict(one, p, len(found))) for name, one, p in zip(others, found, corrected, strict=True)
    ]


def rank_rows(runs: Mapping[str, Run], lane: str) -> list[list[Any]]:
    """A header, then a row per candidate, best first: key figures, and what the best gains over it."""
    shown = ["P@5", "R@5", "nDCG@10", "evidence@500", "evidence@1000", "evidence@2000"]
    shown = [name for name in shown if all(name in _overall(run, lane) for run in runs.values())]
    head = [
        "candidate",
        *shown,
        "95 % interval",
        "the best gains",
        "95 % of that",
        "p (Holm)",
        "p over questions",
        "the best is",
    ]
    against = {one.name: one for one in beaten(runs, lane)}
    rows: list[list[Any]] = [head]
    for name in ranked(runs, lane):
        measured = runs[name].metrics["lanes"][lane][candidate(runs[name], lane)]
        own = [name, *(measured["overall"][key] for key in shown)]
        own.append(interval_text(HEADLINE[lane], measured["ci"][HEADLINE[lane]]))
        one = against.get(name)
        rows.append(own + (_said(one) if one else [None] * 5))
    return rows


def price_rows(runs: Mapping[str, Run], lane: str) -> list[list[Any]]:
    """A header, then a row per candidate, best first: what an answer takes, what is injected, what distilling costs.

    Latency is this machine's, and was not measured alone where other work ran beside it.
    """
    spent = [key for key in _PRICES if any(key in _overall(run, lane) for run in runs.values())]
    rows: list[list[Any]] = [["candidate", "ms, median", "ms, 95 % of questions", "most tokens injected", *spent]]
    for name in ranked(runs, lane):
        run = runs[name]
        took = run.timings["query_ms"][f"{lane}/{candidate(run, lane)}"]
        budget = run.manifest["settings"]["context_budget"]
        rows.append([name, took["p50"], took["p95"], budget, *(_overall(run, lane).get(key) for key in spent)])
    return rows


def _measured(folder: str, dataset: Dataset, lane: str) -> Run:
    run = open_run(Path(folder).expanduser())
    data = run.manifest["dataset"]
    if data["sha256"] != dataset.sha256 or lane not in run.lanes:
        raise InputError(
            f"{folder} measured lane {', '.join(run.lanes)} of {data['name']} ({data['sha256'][:12]}); compared is "
            f"lane {lane} of {dataset.name} ({dataset.sha256[:12]})"
        )
    return run


def _overall(run: Run, lane: str) -> Mapping[str, float]:
    return cast("Mapping[str, float]", run.metrics["lanes"][lane][candidate(run, lane)]["overall"])


def _scores(run: Run, lane: str) -> Any:
    return scores_of(run, lane, candidate(run, lane))


def _said(one: Beaten) -> list[Any]:
    found = one.comparison
    few = found.clusters < MIN_CLUSTERS or one.verdict == "too few to tell"
    return [
        *(found.difference, interval_text("", found.interval), p_text(one.corrected_p)),
        *(p_text(found.p_questions) if few else None, one.verdict),
    ]
