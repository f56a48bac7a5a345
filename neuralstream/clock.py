"""The one clock, and the one way a time is read and written.

Times are aware UTC everywhere. Programs get them as ISO 8601 with a `Z` (`iso_time`), people to the minute
(`short_time`); what comes from outside is read by `parse_time`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from neuralstream.errors import InputError

__all__ = ["Clock", "iso_time", "parse_time", "short_time", "utc_now"]

Clock = Callable[[], datetime]
"""Tells the time, aware UTC: `utc_now`, or the virtual clock of a replay."""


def utc_now() -> datetime:
    """The time by this machine's clock, aware UTC."""
    return datetime.now(UTC)


def parse_time(value: datetime | str | float) -> datetime:
    """Aware UTC from a datetime, ISO 8601 text, or seconds or milliseconds since 1970; a naive time is taken as UTC.

    Raises:
        InputError: it is none of these.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
        else:
            # Above 1e11 a number of seconds would lie after the year 5138: it is milliseconds.
            moment = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise InputError(f"{value!r} is not a time; write ISO 8601, such as 2026-05-08T13:56:00Z") from error


def iso_time(moment: datetime) -> str:
    """ISO 8601, UTC, with a `Z`; inverse of `parse_time`."""
    return parse_time(moment).isoformat().replace("+00:00", "Z")


def short_time(moment: datetime) -> str:
    """For people, to the minute, UTC: `2026-05-08 13:56`."""
    return f"{parse_time(moment):%Y-%m-%d %H:%M}"
