"""What counts from the day of speaking: "yesterday", "two weeks ago", "last weekend", "on Tuesday"."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from neuralstream.dates.spans import Span, days_on, units_on, week, weekend

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["NUMBERS", "RELATIVE", "WEEKDAYS", "Reading", "Tense", "read_relative", "tense_around"]

Unit = Literal["day", "week", "weekend", "month", "year"]
Tense = Literal["past", "future", "unclear"]

NUMBERS = {
    **dict.fromkeys(("a", "an", "one"), 1),
    **dict.fromkeys(("two", "couple"), 2),
    **{word: n for n, word in enumerate("three four five six seven eight nine ten eleven twelve".split(), 3)},  # noqa: SIM905 counted
}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

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

# What tells that "on Tuesday" lies behind the speaker, or ahead.
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
"""Characters around a date that are looked at for its tense."""


class Reading(NamedTuple):
    """The days an expression means, and the unit it is exact to."""

    span: Span
    unit: Unit


def read_relative(match: re.Match[str], day: date, unclear: Literal["past", "future"]) -> Reading:
    """What a match of `RELATIVE` means.

    A weekday needs a word before it ("on", "last", "until"): "Good Friday" and "Tuesday and Friday drops" are no dates.

    Args:
        match: of `RELATIVE`.
        day: the day of speaking.
        unclear: where "on Tuesday" lies when nothing around it tells.

    Raises:
        OverflowError, ValueError: it lies outside the calendar's years 1 to 9999.
    """
    read = next(read for name, read in _READERS.items() if match[name])
    return read(match, day, unclear)


def tense_around(text: str, start: int, end: int, leading: str = "") -> Tense:
    """Whether what stands around `text[start:end]` within its clause tells of the past or of the future.

    `leading` are words of the expression itself that count too.
    """
    before = _CLAUSE_END.split(text[max(0, start - _CLAUSE_REACH) : start])[-1]
    after = _CLAUSE_END.split(text[end : end + _CLAUSE_REACH])[0]
    clause = f"{before}{leading} {after}"
    past, future = bool(_PAST.search(clause)), bool(_FUTURE.search(clause))
    return "unclear" if past == future else "past" if past else "future"


def _by_word(match: re.Match[str], day: date, _unclear: str) -> Reading:
    return Reading(days_on(day, _DAY_OFFSETS[" ".join(match["word"].casefold().split())]), "day")


def _by_distance(match: re.Match[str], day: date, _unclear: str) -> Reading:
    number = match["number"].casefold()
    count = NUMBERS.get(number) or int(number)
    unit = match["unit"].casefold().rstrip("s")
    span = units_on(day, -count if match["ago"] else count, unit)
    return Reading(span, _exact_to(unit))


def _by_period(match: re.Match[str], day: date, _unclear: str) -> Reading:
    step = {"last": -1, "this": 0}.get(match["which_period"].casefold(), 1)
    unit = match["period_unit"].casefold()
    if unit == "week":
        return Reading(week(day + timedelta(weeks=step)), "week")
    if unit == "weekend":
        return Reading(weekend(day + timedelta(weeks=step)), "weekend")
    return Reading(units_on(day, step, unit), _exact_to(unit))


def _by_weekday(match: re.Match[str], day: date, unclear: str) -> Reading:
    which = match["which_day"].casefold()
    ahead = (WEEKDAYS.index(match["weekday"].casefold()) - day.weekday()) % 7
    if which == "this":
        count = ahead
    elif which == "next":
        # Counted in calendar weeks: said on a Monday, "next Friday" is not the Friday of the same week.
        count = ahead if ahead > 6 - day.weekday() else ahead + 7
    elif which in {"last", "past", "since"}:
        count = ahead - 7
    else:
        tense = tense_around(match.string, match.start(), match.end(), which)
        lies_behind = (unclear if tense == "unclear" else tense) == "past"
        count = ahead - 7 if lies_behind else ahead or 7
    return Reading(days_on(day, count), "day")


def _exact_to(unit: str) -> Unit:
    return "month" if unit == "month" else "year" if unit == "year" else "day"


_READERS: dict[str, Callable[[re.Match[str], date, str], Reading]] = {
    "word": _by_word,
    "distance": _by_distance,
    "period": _by_period,
    "named": _by_weekday,
}

RELATIVE = re.compile(
    rf"""(?<![\w-])(?:
    (?P<word> {"|".join(word.replace(" ", "[ ]+") for word in _DAY_OFFSETS)} )
  | (?P<distance>
        (?P<ahead> in[ ] )?
        (?:a[ ])? (?P<number> \d{{1,3}} | {"|".join(NUMBERS)} ) (?:[ ]of)? [ ] (?P<unit> (?:day|week|month|year)s? )
        (?(ahead) (?![ ]ago) | (?: (?P<ago> [ ]ago ) | [ ]from[ ]now ) )
    )
  | (?P<period> (?P<which_period> last|this|next|coming ) [ ] (?P<period_unit> weekend|week|month|year ) )
  | (?P<named>
        (?P<which_day> last|past|this|next|coming|on|by|until|till|since ) [ ]
        (?P<weekday> {"|".join(WEEKDAYS)} )
    )
    )(?![\w-])
    # A date that is given already needs no second one; "last Saturday of the month" is another matter.
    (?! [ ]?\(?\d{{1,4}}[-/.]\d | [ ](?:the[ ])?\d{{1,2}}(?:st|nd|rd|th)?\b(?!:) | [ ]of[ ]
      | ,?[ ](?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""One relative expression; exactly one of the groups `word`, `distance`, `period` and `named` is set."""
