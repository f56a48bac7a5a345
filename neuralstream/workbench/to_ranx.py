"""A run handed over to ranx: for its fusion, its tests and its plots, over the same questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.errors import InputError
from neuralstream.workbench import require

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neuralstream.workbench.runs import QueryResult, Run

__all__ = ["Judged", "to_ranx"]

_NOTHING = "-"
"""Stands for an empty ranking, which ranx refuses; it is no turn's id, so it scores what an empty one does."""


class Judged(NamedTuple):
    """What `ranx.evaluate` and `ranx.compare` take: a `ranx.Qrels` and a `ranx.Run` of the same questions."""

    qrels: Any
    run: Any


def to_ranx(run: Run, mode: str) -> Judged:
    """The rankings of raw turns under a mode, and their labels.

    Args:
        run: what was evaluated, with lane `turns`. A gem stands for several turns, which ranx has no measure for.
        mode: one of the run's.

    Raises:
        InputError: the run has no such rankings.
        MissingPartError: ranx is not installed.
    """
    results = run.of("turns", mode)
    if not results:
        raise InputError(
            f"{run.path} has no rankings of turns by {mode}; it has lanes {', '.join(run.lanes)} and modes "
            f"{', '.join(run.manifest['arguments']['modes'])}"
        )
    ranx = require("ranx")
    named = dict(zip(_same_width(f"{one.conversation}/{one.query_id}" for one in results), results, strict=True))
    qrels = {name: dict.fromkeys(one.gold, 1) for name, one in named.items()}
    rankings = {name: _scored(one) for name, one in named.items()}
    return Judged(ranx.Qrels(qrels), ranx.Run(rankings, name=f"{run.path.name}/{mode}"))


def _scored(result: QueryResult) -> dict[str, float]:
    """Scores that keep our order, ties included: 1 / rank."""
    return {hit.id: 1 / rank for rank, hit in enumerate(result.ranking, 1)} or {_NOTHING: 1.0}


def _same_width(names: Iterable[str]) -> list[str]:
    """Names padded to one width: numba compiles anew, for half a minute, for each that it has not seen."""
    kept = list(names)
    width = max(map(len, kept))
    return [name.ljust(width) for name in kept]
