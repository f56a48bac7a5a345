"""Measures of a capture policy: how soon what was said can be found as a gem, what gets lost, and what it costs."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.workbench.timeline import Distilled, Timeline

__all__ = ["lags", "policy_metrics"]

_DIGITS = 6


def policy_metrics(timeline: Timeline) -> dict[str, Any]:
    """A policy's measures, JSON-ready.

    The *availability lag* of a turn is what its user said after it until the first gem that cites it could be found: in
    turns (of all the user's sessions), and in minutes. Turns that no gem cites have none; `cited_share` says how many
    have one. An extraction counts as instant: what a model takes for it is in a run's timings, since it is no property
    of the policy.

    A turn *left the window undistilled* when the host compacted it away, or began anew without it, before any trigger
    but that very compaction or reset had taken its batch: a host that does not announce either would have lost it. A
    turn whose batch became a dead letter is one, too, once it has left.

    Returns:
        `lag_turns` and `lag_minutes`, each with `mean`, `median` and `p95` (None where no turn is cited); `turns`,
        `cited_share`, `left_window` and `left_undistilled` (shares of the turns); `batches`, `by_cause`, `failed`,
        `gems`, `calls`, `tokens`.
    """
    batch_of = {(batch.user_id, turn_id): batch for batch in timeline.batches for turn_id in batch.turn_ids}
    turns = len(timeline.turns)
    waited = lags(timeline)
    left = [said for said in timeline.turns if said.left]
    undistilled = sum(_too_late(batch_of[said.user_id, said.turn_id], said.left.turns) for said in left if said.left)
    return {
        "lag_turns": _spread([in_turns for in_turns, _ in waited]),
        "lag_minutes": _spread([minutes for _, minutes in waited]),
        "turns": turns,
        "cited_share": _share(len(waited), turns),
        "left_window": _share(len(left), turns),
        "left_undistilled": _share(undistilled, turns),
        "batches": len(timeline.batches),
        "by_cause": dict(sorted(Counter(batch.cause for batch in timeline.batches).items())),
        "failed": sum(bool(batch.failed) for batch in timeline.batches),
        "gems": sum(len(batch.gems) for batch in timeline.batches),
        "calls": sum(batch.calls for batch in timeline.batches),
        "tokens": sum(batch.tokens for batch in timeline.batches),
    }


def lags(timeline: Timeline) -> list[tuple[int, float]]:
    """For each cited turn, in the order in which they were said, turns and minutes until a gem said it."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for said in timeline.turns:
        numbers[said.user_id].append(said.moment.turns)
    found: dict[tuple[str, str], Distilled] = {}
    for batch in timeline.batches:
        for turn_id in batch.cited:
            found.setdefault((batch.user_id, turn_id), batch)
    waited = []
    for said in timeline.turns:
        batch_or_none = found.get((said.user_id, said.turn_id))
        if batch_or_none:
            own, until = numbers[said.user_id], batch_or_none.moment
            after = bisect_right(own, until.turns) - bisect_right(own, said.moment.turns)
            waited.append((after, (until.at - said.moment.at).total_seconds() / 60))
    return waited


def _too_late(batch: Distilled, left_after: int) -> bool:
    if batch.failed or batch.moment.turns > left_after:
        return True
    return batch.moment.turns == left_after and batch.cause in {"compaction", "reset"}


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "median": None, "p95": None}
    return {
        "mean": round(float(np.mean(values)), _DIGITS),
        "median": round(float(np.median(values)), _DIGITS),
        "p95": round(float(np.percentile(values, 95)), _DIGITS),
    }


def _share(some: int, of: int) -> float | None:
    return round(some / of, _DIGITS) if of else None
