"""Stretches of days and their arithmetic. Whatever leaves the years 1 to 9999 raises OverflowError or ValueError."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import NamedTuple

__all__ = ["SEASON_STARTS", "Span", "days_on", "month", "season", "units_on", "week", "weekend", "year"]

SEASON_STARTS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""First month of the meteorological season, northern hemisphere. A winter bears the year of its December."""


class Span(NamedTuple):
    """The days from `start` to `end`, both included."""

    start: date
    end: date

    @property
    def days(self) -> int:
        """How many, at least 1."""
        return (self.end - self.start).days + 1

    def widened(self, days: int) -> Span:
        """The same with so many days more on each side."""
        return Span(self.start - timedelta(days=days), self.end + timedelta(days=days))


def days_on(day: date, count: int) -> Span:
    """The one day that is `count` days after `day`."""
    moved = day + timedelta(days=count)
    return Span(moved, moved)


def week(day: date) -> Span:
    """Monday to Sunday around a day (ISO 8601)."""
    monday = day - timedelta(days=day.weekday())
    return Span(monday, monday + timedelta(days=6))


def weekend(day: date) -> Span:
    """Saturday and Sunday of a day's week."""
    monday = day - timedelta(days=day.weekday())
    return Span(monday + timedelta(days=5), monday + timedelta(days=6))


def month(of_year: int, number: int, count: int = 1) -> Span:
    """`count` calendar months from month `number`, which may lie outside 1 to 12 and then counts over years."""
    first, last = of_year * 12 + number - 1, of_year * 12 + number + count - 2
    end_year, end_month = last // 12, last % 12 + 1
    start = date(first // 12, first % 12 + 1, 1)
    return Span(start, date(end_year, end_month, monthrange(end_year, end_month)[1]))


def year(number: int) -> Span:
    """A calendar year."""
    return month(number, 1, 12)


def season(of_year: int, name: str) -> Span:
    """A season's three months, by a name of `SEASON_STARTS`."""
    return month(of_year, SEASON_STARTS[name], 3)


def units_on(day: date, count: int, unit: str) -> Span:
    """What "`count` units from now" means on a day: a day for days and weeks, else a calendar month or year.

    Args:
        day: from when it is counted.
        count: how many; negative for the past.
        unit: "day", "week", "month" or "year".
    """
    if unit in {"day", "week"}:
        return days_on(day, count * (7 if unit == "week" else 1))
    return month(day.year, day.month + count) if unit == "month" else year(day.year + count)
