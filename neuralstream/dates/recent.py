"""Relative expressions that only a question needs: "today", "in the past two weeks", "a few days ago"."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

from neuralstream.dates.relative import NUMBERS, RELATIVE, read_relative
from neuralstream.dates.spans import Span, days_on, month, units_on, week, weekend
from neuralstream.dates.words import PHRASES, UNSPACED_PHRASES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ABOUT", "RULES"]

ABOUT = {"week": 3, "month": 15}
"""Days on either side of "two weeks ago": who counts in a unit knows the day to half of it."""

_FEW = (2, 5)
"""What "a few" and "several" span."""


def _relative(match: re.Match[str], today: date) -> Span:
    span = read_relative(match, today, "past").span
    if match["named"] and match["which_day"].casefold() == "since":
        return Span(span.start, today)
    if not match["ago"]:
        return span
    unit = match["unit"].casefold().rstrip("s")
    middle = _same_day(span, today) if unit == "month" else span
    return middle.widened(ABOUT.get(unit, 0))


def _back_from_now(match: re.Match[str], today: date) -> Span:
    """The stretch that ends today: "the past two weeks", "the last few days"."""
    number, unit = (match["number"] or "one").casefold(), match["unit"].casefold().rstrip("s")
    count = NUMBERS.get(number) or (_FEW[1] if number in {"few", "several"} else int(number))
    months = count * (12 if unit == "year" else 1)
    if unit in {"day", "week"}:
        return Span(today - timedelta(days=count * (7 if unit == "week" else 1)), today)
    return Span(_same_day(month(today.year, today.month - months), today).start, today)


def _same_day(of_month: Span, day: date) -> Span:
    """The day of the same number in another month, or its last."""
    same = min(of_month.start + timedelta(days=day.day - 1), of_month.end)
    return Span(same, same)


def _few_ago(match: re.Match[str], today: date) -> Span:
    unit = match["unit"].casefold().rstrip("s")
    return Span(units_on(today, -_FEW[1], unit).start, units_on(today, -_FEW[0], unit).end)


def _quarter(match: re.Match[str], today: date) -> Span:
    step = -1 if match["which"].casefold() == "last" else 0
    return month(today.year, (today.month - 1) // 3 * 3 + 1 + 3 * step, 3)


def _phrase(match: re.Match[str], today: date) -> Span:
    unit, step = PHRASES[" ".join(match.group().casefold().replace("’", "'").split())]
    return _unit_away(today, unit, step)


def _unspaced(match: re.Match[str], today: date) -> Span:
    return _unit_away(today, *UNSPACED_PHRASES[match.group()])


def _unit_away(today: date, unit: str, step: int) -> Span:
    if unit == "week":
        return week(today + timedelta(weeks=step))
    if unit == "weekend":
        return weekend(today + timedelta(weeks=step))
    return days_on(today, step) if unit == "day" else units_on(today, step, unit)


def _any_of(phrases: dict[str, tuple[str, int]]) -> str:
    return "|".join(re.escape(phrase).replace("'", "['’]") for phrase in sorted(phrases, key=len, reverse=True))


_COUNT = rf"(?:\d{{1,3}}|few|several|{'|'.join(NUMBERS)})"
_BACK_FROM_NOW = re.compile(
    rf"""\b(?: (?:the|these)[ ](?:past|last) | past | last(?=[ ]{_COUNT}[ ]) )
    [ ](?: (?:a[ ])? (?P<number>{_COUNT}) [ ](?:of[ ])? )?
    (?!day\b) (?P<unit>(?:day|week|month|year)s?) \b (?! [ ](?:of|in)\b )""",
    re.IGNORECASE | re.VERBOSE,
)

RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Span]], ...] = (
    (_BACK_FROM_NOW, _back_from_now),
    (re.compile(r"\b(?:a few|several) (?P<unit>(?:day|week|month|year)s) ago\b", re.IGNORECASE), _few_ago),
    (re.compile(r"\b(?P<which>last|this) quarter\b", re.IGNORECASE), _quarter),
    (RELATIVE, _relative),
    (re.compile(rf"(?<![\w-])(?:{_any_of(PHRASES)})(?![\w-])", re.IGNORECASE), _phrase),
    (re.compile(_any_of(UNSPACED_PHRASES)), _unspaced),
)
"""Patterns and what they mean on a day, the more telling first."""
