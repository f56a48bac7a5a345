"""The signal "date": how near to the days a question names something was said."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from math import exp
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.dates import find_periods

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Asked", "asked", "closeness"]

_DAY = timedelta(days=1)

SHORTEST, LONGEST = 3, 7
"""Days between which the scale of the fall lies. A log's clock is UTC and people's is not, and nobody writes in every
day, so that a day counts as three; and of a month or a year people tell within a week or two of its end, if late."""

BEFORE = 0.5
"""The scale before a period as a share of that after it: a thing is told on its day and after, less often planned."""

FURTHEST = 3
"""Scales beyond which closeness is 0. Candidates are standardised within a query: were it not cut off, a log that lies
wholly outside the period would be ranked by differences that tell nothing."""


class Asked(NamedTuple):
    """From the beginning of a period's first day to the end of its last, in UTC."""

    start: datetime
    end: datetime


def asked(text: str, as_of: datetime) -> tuple[Asked, ...]:
    """The periods a question names, resolved against the moment it is asked; remembered for the last few questions."""
    return _asked(text, as_of.astimezone(UTC).date())


def closeness(created_at: datetime, periods: Iterable[Asked]) -> float:
    """How near something said at a moment is to the nearest of these periods.

    1 within it; outside exp(-days / scale), where days are counted whole and scale is the period's length, at least
    SHORTEST and at most LONGEST days, and BEFORE of that before the period; 0 beyond FURTHEST scales. The form and its
    constants are ours, chosen on LoCoMo's development conversations, where their neighbours do as well.

    Returns:
        0 to 1; 0 where no period is named.
    """
    return max((_closeness(created_at, period) for period in periods), default=0.0)


def _closeness(created_at: datetime, period: Asked) -> float:
    scale = min(max((period.end - period.start).days, SHORTEST), LONGEST)
    if created_at < period.start:
        scales = -((created_at - period.start) // _DAY) / (scale * BEFORE)
    elif created_at < period.end:
        return 1.0
    else:
        scales = ((created_at - period.end) // _DAY + 1) / scale
    return exp(-scales) if scales <= FURTHEST else 0.0


@lru_cache(maxsize=64)
def _asked(text: str, today: date) -> tuple[Asked, ...]:
    return tuple(
        Asked(_midnight(period.start), _midnight(period.end) + timedelta(days=1))
        for period in find_periods(text, today)
        if period.end < date.max
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
