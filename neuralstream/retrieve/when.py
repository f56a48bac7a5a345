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

SHORTEST = timedelta(days=3)
"""A period counts as at least so long: a log's clock is UTC and people's is not, and nobody writes in every day."""

BEFORE = 0.5
"""The scale before a period as a share of that after it: a thing is told on its day and after, less often planned."""


class Asked(NamedTuple):
    """From the beginning of a period's first day to the end of its last, in UTC."""

    start: datetime
    end: datetime


def asked(text: str, as_of: datetime) -> tuple[Asked, ...]:
    """The periods a question names, resolved against the moment it is asked; remembered for the last few questions."""
    return _asked(text, as_of.astimezone(UTC).date())


def closeness(created_at: datetime, periods: Iterable[Asked]) -> float:
    """How near something said at a moment is to the nearest of these periods.

    1 within it; outside exp(-distance / scale), where scale is the period's length, at least SHORTEST, and half of
    that before the period. So the month after "in March" keeps more than the month after "on 7 March".

    Returns:
        0 to 1; 0 where no period is named.
    """
    return max((_closeness(created_at, period) for period in periods), default=0.0)


def _closeness(created_at: datetime, period: Asked) -> float:
    scale = max(period.end - period.start, SHORTEST)
    if created_at < period.start:
        return exp((created_at - period.start) / (scale * BEFORE))
    return exp(-max(created_at - period.end, timedelta()) / scale)


@lru_cache(maxsize=64)
def _asked(text: str, today: date) -> tuple[Asked, ...]:
    return tuple(
        Asked(_midnight(period.start), _midnight(period.end) + timedelta(days=1))
        for period in find_periods(text, today)
        if period.end < date.max
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
