"""Two runs on the same questions: what a change of settings or of code gained, overall and in each category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralstream.errors import InputError
from neuralstream.workbench.report import candidate
from neuralstream.workbench.stats import Comparison, Verdict, compare, holm, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.workbench.runs import QueryResult, Run

__all__ = ["MEASURES", "Paired", "compare_runs", "paired_rows"]

MEASURES = ("R@5", "nDCG@10")

OVERALL = "all"


class Paired(NamedTuple):
    """One measure on one category's questions; `category` is OVERALL for all of them.

    Attributes:
        old, new: means over the questions.
        corrected_p: over all rows of a comparison (Holm).
    """

    lane: str
    category: str
    measure: str
    questions: int
    old: float
    new: float
    comparison: Comparison
    corrected_p: float
    verdict: Verdict


def compare_runs(old: Run, new: Run) -> list[Paired]:
    """Each run's candidate on every lane that both have.

    Raises:
        InputError: the runs asked different questions, or share no lane that has these measures.
    """
    found = []
    for lane in (lane for lane in old.lanes if lane in new.lanes):
        before, after = (_by_query(run, lane) for run in (old, new))
        if before.keys() != after.keys():
            raise InputError(
                f"{old.path} and {new.path} asked different questions on lane {lane} ({len(before)} and {len(after)}); "
                "compare runs of the same data set"
            )
        for category in (OVERALL, *sorted({one.category for one in before.values()})):
            asked = [name for name, one in before.items() if category in {OVERALL, one.category}]
            clusters = [before[name].conversation for name in asked]
            for measure in MEASURES:
                if all(measure in side[name].scores for side in (before, after) for name in asked):
                    was, now = ([side[name].scores[measure] for name in asked] for side in (before, after))
                    found.append((lane, category, measure, was, now, compare(now, was, clusters)))
    if not found:
        raise InputError(f"{old.path} and {new.path} have no lane and measure in common; evaluate the same lane")
    corrected = holm([comparison.p for *_, comparison in found])
    return [
        Paired(
            lane, category, measure, len(was), float(np.mean(was)), float(np.mean(now)), comparison, p,
            verdict(comparison, p, len(found)),
        )
        for (lane, category, measure, was, now, comparison), p in zip(found, corrected, strict=True)
    ]  # fmt: skip


def paired_rows(paired: Sequence[Paired]) -> list[list[Any]]:
    """As a table: a header, then a row per comparison; p over questions takes no account of conversations."""
    rows: list[list[Any]] = [
        ["lane", "category", "questions", "measure", "old", "new", "difference", "95 % interval", "p (Holm)",
         "p over questions", "win/tie/loss", "verdict"]
    ]  # fmt: skip
    for one in paired:
        found = one.comparison
        interval = f"{found.interval.low:.3f} to {found.interval.high:.3f}"
        outcomes = f"{found.wins}/{found.ties}/{found.losses}"
        rows.append(
            [one.lane, one.category, one.questions, one.measure, one.old, one.new, found.difference, interval,
             one.corrected_p, found.p_questions, outcomes, one.verdict]
        )  # fmt: skip
    return rows


def _by_query(run: Run, lane: str) -> dict[tuple[str, str], QueryResult]:
    return {(one.conversation, one.query_id): one for one in run.of(lane, candidate(run, lane))}
