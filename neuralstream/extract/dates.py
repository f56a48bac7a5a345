"""Relative dates, resolved against the day they were said.

"last Friday" becomes "last Friday (2023-05-05)": a memory is read long after its day. The words stay, so nothing is
lost where a reading is wrong. "today" and its kin are left alone, because a gem carries the day it was said.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["resolve_dates"]

_NUMBERS = {
    **dict.fromkeys(("a", "an", "one"), 1),
    **dict.fromkeys(("two", "couple"), 2),
    **{word: n for n, word in enumerate("three four five six seven eight nine ten eleven twelve".split(), 3)},  # noqa: SIM905 counted
}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# Days from the day of speaking, per word. Words that mean something else too (German "morgen", French "hier",
# Spanish "mañana") are left out.
_DAY_OFFSETS = {
    "the day before yesterday": -2, "day before yesterday": -2, "yesterday": -1, "last night": -1,
    "the day after tomorrow": 2, "day after tomorrow": 2, "tomorrow": 1,
    "vorgestern": -2, "gestern": -1, "übermorgen": 2,
    "avant-hier": -2, "après-demain": 2, "demain": 1,
    "anteayer": -2, "ayer": -1,
    "ieri": -1, "domani": 1, "dopodomani": 2,
    "anteontem": -2, "ontem": -1, "amanhã": 1,
    "eergisteren": -2, "gisteren": -1, "overmorgen": 2,
    "przedwczoraj": -2, "wczoraj": -1, "jutro": 1, "pojutrze": 2,
    "i förrgår": -2, "igår": -1, "imorgon": 1,
}  # fmt: skip

# What tells that "on Tuesday" lies behind the speaker. Without any of it, the coming one is meant.
# A weekday without such a word before it is left alone: "Good Friday", "Tuesday and Friday drops".
_PAST = re.compile(
    r"\b(?:was|were|had|did|didn't|went|got|came|saw|took|made|met|said|told|gave|found|left|lost|won|ran|ate|bought|felt"
    r"|held|broke|sent|wrote|spent|since|ago|last|(?!need|seed|feed)\w{2,}ed)\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"\b(?:will|won't|going to|gonna|coming|due|by|until|till|next|plan\w*|schedul\w*)\b|['’]ll\b", re.IGNORECASE
)
_CLAUSE_END = re.compile(r"[.!?;\n]")
_CLAUSE_REACH = 120
"""Characters around a weekday that are looked at for its tense."""


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
        read = next(read for name, read in _READINGS.items() if match[name])
        try:
            resolved = read(match, said_on)
        except (OverflowError, ValueError):
            return match.group()
        return f"{match.group()} ({resolved})" if resolved else match.group()

    return _RELATIVE.sub(dated, text)


def _by_word(match: re.Match[str], day: date) -> str:
    return _days_on(day, _DAY_OFFSETS[" ".join(match["word"].casefold().split())])


def _by_distance(match: re.Match[str], day: date) -> str:
    number = match["number"].casefold()
    count = _NUMBERS.get(number) or int(number)
    return _units_on(day, -count if match["ago"] else count, match["unit"].casefold().rstrip("s"))


def _by_period(match: re.Match[str], day: date) -> str:
    step = {"last": -1, "this": 0}.get(match["which_period"].casefold(), 1)
    period = match["period_unit"].casefold()
    monday = day - timedelta(days=day.weekday() - 7 * step)
    if period == "weekend":
        saturday, sunday = monday + timedelta(days=5), monday + timedelta(days=6)
        return f"{saturday}/{sunday:%d}" if saturday.month == sunday.month else f"{saturday}/{sunday:%m-%d}"
    if not step:
        return ""
    return f"week of {monday}" if period == "week" else _units_on(day, step, period)


def _by_weekday(match: re.Match[str], day: date) -> str:
    which = match["which_day"].casefold()
    ahead = (_WEEKDAYS.index(match["weekday"].casefold()) - day.weekday()) % 7
    if which == "this":
        return _days_on(day, ahead)
    if which == "next":
        # Counted in calendar weeks: said on a Monday, "next Friday" is not the Friday of the same week.
        return _days_on(day, ahead if ahead > 6 - day.weekday() else ahead + 7)
    if _lies_behind(match, which):
        return _days_on(day, ahead - 7)
    return _days_on(day, ahead or 7)


def _lies_behind(match: re.Match[str], which: str) -> bool:
    if which in {"last", "past", "since"}:
        return True
    before = _CLAUSE_END.split(match.string[max(0, match.start() - _CLAUSE_REACH) : match.start()])[-1]
    after = _CLAUSE_END.split(match.string[match.end() : match.end() + _CLAUSE_REACH])[0]
    clause = f"{before}{which} {after}"
    return bool(_PAST.search(clause)) and not _FUTURE.search(clause)


def _units_on(day: date, count: int, unit: str) -> str:
    if unit in {"day", "week"}:
        return _days_on(day, count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
    moved = date(months // 12, months % 12 + 1, 1)
    return moved.isoformat()[: 4 if unit == "year" else 7]


def _days_on(day: date, days: int) -> str:
    return (day + timedelta(days=days)).isoformat()


_READINGS: dict[str, Callable[[re.Match[str], date], str]] = {
    "word": _by_word,
    "distance": _by_distance,
    "period": _by_period,
    "named": _by_weekday,
}

_RELATIVE = re.compile(
    rf"""(?<![\w-])(?:
    (?P<word> {"|".join(word.replace(" ", "[ ]+") for word in _DAY_OFFSETS)} )
  | (?P<distance>
        (?P<ahead> in[ ] )?
        (?:a[ ])? (?P<number> \d{{1,3}} | {"|".join(_NUMBERS)} ) (?:[ ]of)? [ ] (?P<unit> (?:day|week|month|year)s? )
        (?(ahead) (?![ ]ago) | (?: (?P<ago> [ ]ago ) | [ ]from[ ]now ) )
    )
  | (?P<period> (?P<which_period> last|this|next|coming ) [ ] (?P<period_unit> weekend|week|month|year ) )
  | (?P<named>
        (?P<which_day> last|past|this|next|coming|on|by|until|till|since ) [ ]
        (?P<weekday> {"|".join(_WEEKDAYS)} )
    )
    )(?![\w-])
    # A date that is given already needs no second one; "last Saturday of the month" is another matter.
    (?! [ ]?\(?\d{{1,4}}[-/.]\d | [ ](?:the[ ])?\d{{1,2}}(?:st|nd|rd|th)?\b(?!:) | [ ]of[ ]
      | ,?[ ](?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
