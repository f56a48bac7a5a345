"""Relative dates, resolved against the day they were said.

"last Friday" becomes "last Friday (2023-05-05)": a memory is read long after its day. The words stay, so nothing is
lost where a reading is wrong. "today" and its kin are left alone, because a gem carries the day it was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralstream.dates.relative import RELATIVE, read_relative

if TYPE_CHECKING:
    import re
    from datetime import date

    from neuralstream.dates.relative import Reading

__all__ = ["resolve_dates"]


def resolve_dates(text: str, said_on: date) -> str:
    """The text with the calendar date after each relative one.

    Args:
        text: one or more sentences; English, and the plain words for yesterday and tomorrow in eight more languages.
        said_on: the day the text was said.

    Returns:
        The same text with a date after each expression, as exact as the expression is: `(2023-05-05)`,
        `(week of 2023-05-01)`, `(2023-05-06/07)` for a weekend, `(2023-04)` or `(2022)`. A date outside the calendar's
        years 1 to 9999 is left out.
    """

    def dated(match: re.Match[str]) -> str:
        if _tells_nothing(match):
            return match.group()
        try:
            # A statement that tells no tense is a plan: "let's meet on Tuesday".
            reading = read_relative(match, said_on, "future")
        except (OverflowError, ValueError):
            return match.group()
        return f"{match.group()} ({_written(reading)})"

    return RELATIVE.sub(dated, text)


def _tells_nothing(match: re.Match[str]) -> bool:
    """This week, month or year is where the day lies that a gem carries; a weekend is not."""
    return bool(match["period"]) and match["which_period"].casefold() == "this" and match["period_unit"] != "weekend"


def _written(reading: Reading) -> str:
    (start, end), unit = reading
    if unit == "weekend":
        return f"{start}/{end:%d}" if start.month == end.month else f"{start}/{end:%m-%d}"
    if unit == "week":
        return f"week of {start}"
    return start.isoformat()[: {"year": 4, "month": 7}.get(unit, 10)]
