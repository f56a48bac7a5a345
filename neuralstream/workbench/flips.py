"""Questions that two rankings answer differently, and the scores that pair them.

A question is named by its conversation and its id, since ids are the authors' own and need not differ between
conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from neuralstream.workbench.runs import Run

__all__ = ["FOUND", "Asked", "Moved", "Pairs", "Scores", "moved", "moved_rows", "pairs", "scores_of"]

FOUND = "R@5"
"""A question is found where this is above 0: evidence stands among the first five hits."""

_TOLERANCE = 1e-9


class Asked(NamedTuple):
    """What names a question."""

    conversation: str
    query_id: str


Scores = Mapping[Asked, Mapping[str, float]]
"""Measures of each question."""


class Pairs(NamedTuple):
    """One measure of the same questions on both sides, in the same order; clusters are their conversations."""

    new: list[float]
    old: list[float]
    clusters: list[str]


class Moved(NamedTuple):
    """A question whose measure changed; `flip` says whether it was lost to, or gained for, the first five hits."""

    asked: Asked
    old: float
    new: float
    flip: Literal["lost", "gained", ""]


def scores_of(run: Run, lane: str, mode: str) -> Scores:
    """The scores of one lane and mode of a run."""
    return {Asked(one.conversation, one.query_id): one.scores for one in run.of(lane, mode)}


def pairs(new: Scores, old: Scores, measure: str) -> Pairs:
    """Both sides of every question that either has: one that is missing scored 0."""
    asked = sorted(new.keys() | old.keys())
    return Pairs(
        [_score(new, one, measure) for one in asked],
        [_score(old, one, measure) for one in asked],
        [one.conversation for one in asked],
    )


def moved(new: Scores, old: Scores, measure: str) -> list[Moved]:
    """Questions whose measure changed, the greatest loss first."""
    found = []
    for one in sorted(new.keys() | old.keys()):
        before, after = _score(old, one, measure), _score(new, one, measure)
        if abs(after - before) > _TOLERANCE:
            found.append(Moved(one, before, after, _flip(_score(old, one, FOUND), _score(new, one, FOUND))))
    return sorted(found, key=lambda one: (one.new - one.old, one.asked))


def moved_rows(changed: list[Moved], measure: str, texts: Mapping[Asked, str]) -> list[list[str | float]]:
    """As a table: a header, then a row per question."""
    rows: list[list[str | float]] = [["question", "flip", f"old {measure}", f"new {measure}", "asked"]]
    for asked, old, new, flip in changed:
        rows.append([f"{asked.conversation}/{asked.query_id}", flip, old, new, texts.get(asked, "")])
    return rows


def _score(scores: Scores, asked: Asked, measure: str) -> float:
    return scores.get(asked, {}).get(measure, 0.0)


def _flip(old: float, new: float) -> Literal["lost", "gained", ""]:
    if (old > 0) == (new > 0):
        return ""
    return "gained" if new > 0 else "lost"
