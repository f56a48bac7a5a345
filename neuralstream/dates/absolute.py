"""Dates by the calendar: "7 May 2023", "in March", "last summer", "the 1990s", "2023-05-07".

A month, season or year needs more evidence the more its name means otherwise: "may" and "march" are verbs, "June" and
"April" people, "2022" a port.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.dates.relative import tense_around
from neuralstream.dates.spans import SEASON_STARTS, Span, month, season, year
from neuralstream.dates.words import ENGLISH_MONTHS, MONTH_ABBREVIATIONS, MONTHS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RULES", "Found"]


class Found(NamedTuple):
    """What an expression means, and where it named no year, what it would mean in any."""

    span: Span
    of_year: Callable[[int], Span] | None = None


_AHEAD = 31
"""Days by which a date without year and tense may lie ahead."""

_LEAP = 8
"""Years in which 29 February comes round at least once (1896 to 1904)."""

_BEFORE = 24
"""Characters before a name that are looked at for its evidence."""

_LEAD = re.compile(
    rf"""\b (?: (?P<part>(?:week|weekend|half|end|beginning|start|middle)[ ]of
        | (?:in|during|between)[ ](?:{"|".join(ENGLISH_MONTHS)})[ ](?:and|or))
      | (?: (?P<prior>in|since|until|from|by)[ ](?:the[ ])? )? (?P<lead>early|late|mid)
      | (?P<word>in|during|since|until|till|before|after|throughout|through|around|on|by|from|between|and|to|over|last
        |this|next|past|coming|of|for)
    )[ -](?:the[ ]|about[ ])?$""",
    re.IGNORECASE | re.VERBOSE,
)
_WORD_FOLLOWS = re.compile(r" *\w")
_HABIT = re.compile(r"\b(?:every|each) $", re.IGNORECASE)
_CLEAR = frozenset({"in", "during", "since", "until", "till", "throughout", "last", "next"})
"""Those after which "may" and "march" are no verbs either, as they are in "how early may I call"."""
_STRICT = _CLEAR | {"before", "after", "through", "around", "between", "early", "late", "mid", "this", "past", "coming"}
"""Words that stand before a month and rarely before a person."""
_VERBS = frozenset({"may", "march"})
_PEOPLE = frozenset({"april", "june", "august"})


def _yearless(match: re.Match[str], today: date, of_year: Callable[[int], Span]) -> Found:
    """The latest one that has begun, or the coming one where that is nearer and the words around it allow it.

    "Who moves on 28 April?", asked on the 22nd, means the coming one, and so do "plans for the summer" in spring; in
    autumn they were plans for the summer that is past.
    """
    lead = _lead(match)
    latest = _first(of_year, range(today.year, today.year - _LEAP - 1, -1), lambda span: span.start <= today)
    if lead in {"last", "past"}:
        return Found(_first(of_year, range(today.year, today.year - _LEAP - 1, -1), lambda span: span.end < today))
    if lead in {"next", "coming"}:
        return Found(_first(of_year, range(today.year, today.year + _LEAP + 1), lambda span: span.start > today))
    if latest.end >= today:
        return Found(latest, of_year)
    coming = _first(of_year, range(today.year, today.year + _LEAP + 1), lambda span: span.start > today)
    if lead == "this":
        return Found(next((one for one in (latest, coming) if one.start.year == today.year), coming))
    tense = tense_around(match.string, match.start("atom"), match.end("atom"))
    ahead = coming.start - today
    nearer = ahead < today - latest.end and (tense == "future" or ahead.days <= _AHEAD)
    return Found(coming if nearer and tense != "past" else latest, of_year)


def _first(of_year: Callable[[int], Span], years: range, fits: Callable[[Span], bool]) -> Span:
    for number in years:
        try:
            span = of_year(number)
        except ValueError:  # 29 February of a common year, or a year that no calendar has
            continue
        if fits(span):
            return span
    raise ValueError(f"no year of {years} has this date")


def _lead(match: re.Match[str]) -> str:
    """The word before it that tells how it is meant; "in" for "the end of", "in January and" and "in early"."""
    start = match.start("atom")
    found = _LEAD.search(match.string, max(0, start - _BEFORE), start)
    if not found:
        return ""
    return "in" if found["part"] else (found["prior"] or found["lead"] or found["word"]).casefold()


def _in_year(match: re.Match[str], today: date) -> int | None:
    """The year that stands beside, in digits or as "of last year"."""
    groups = match.groupdict()
    if groups.get("year"):
        return int(groups["year"])
    if groups.get("which_year"):
        return today.year + {"last": -1, "next": 1}.get(groups["which_year"].casefold(), 0)
    return None


def _year_or_latest(match: re.Match[str], today: date, of_year: Callable[[int], Span]) -> Found:
    number = _in_year(match, today)
    return _yearless(match, today, of_year) if number is None else Found(of_year(number))


def _numeric(match: re.Match[str], _today: date) -> Found | None:
    first, second, number = int(match["first"]), int(match["second"]), int(match["year"])
    if match["mark"] == "/" and first != second and max(first, second) <= 12:
        return None  # 5/7/2023 is May in one country and July in the next
    day, month_number = (first, second) if match["mark"] == "." or first > 12 or first == second else (second, first)
    one = date(number, month_number, day)
    return Found(Span(one, one))


def _iso(match: re.Match[str], _today: date) -> Found | None:
    if not match["day"]:
        if match["mark"] == "/":
            return None  # a fraction, a path
        return Found(month(int(match["year"]), int(match["month"])))
    one = date(int(match["year"]), int(match["month"]), int(match["day"]))
    return Found(Span(one, one))


def _day(match: re.Match[str], today: date) -> Found | None:
    name = match["month"].casefold()
    if not (match["ordinal"] or _in_year(match, today)) and not _written_as_month(match, name):
        return None
    first, last = sorted((int(match["day"]), int(match["last_day"] or match["day"])))
    number = MONTHS[name]
    return _year_or_latest(match, today, lambda of: Span(date(of, number, first), date(of, number, last)))


def _written_as_month(match: re.Match[str], name: str) -> bool:
    """With a day beside, a verb or a short form is a month by its capital, by "on" before it, or by nothing after it.

    A capital is no evidence where a text begins: "May 2 of us come?".
    """
    if name not in _VERBS and name not in MONTH_ABBREVIATIONS:
        return True
    capital = match["month"][0].isupper() and match.start("month") > 0
    return capital or bool(_lead(match)) or not _WORD_FOLLOWS.match(match.string, match.end("atom"))


def _month(match: re.Match[str], today: date) -> Found | None:
    name = match["month"].casefold()
    if _in_year(match, today) is None and not _bare_month(match, name):
        return None
    number = MONTHS[name]
    return _year_or_latest(match, today, lambda of: month(of, number))


def _bare_month(match: re.Match[str], name: str) -> bool:
    lead, capital = _lead(match), match["month"][0].isupper()
    if name in _VERBS:
        return lead in (_STRICT if capital else _CLEAR)
    if name in _PEOPLE:
        return lead in _STRICT
    if name in MONTH_ABBREVIATIONS:
        return capital and lead in {"in", "last", "next"}
    return bool(lead) or (
        match["month"][0].isupper()
        and not _HABIT.search(match.string, max(0, match.start("month") - _BEFORE), match.start("month"))
    )


def _foreign_month(match: re.Match[str], today: date) -> Found | None:
    number = MONTHS[match["month"].casefold()]
    return _year_or_latest(match, today, lambda of: month(of, number))


def _season(match: re.Match[str], today: date) -> Found | None:
    name = match["season"].casefold()
    if _in_year(match, today) is None and _lead(match) not in _STRICT | {"over", "by", "for", "of"}:
        return None
    return _year_or_latest(match, today, lambda of: season(of, name))


def _quarter(match: re.Match[str], today: date) -> Found | None:
    if not match["year"] and _lead(match) not in _STRICT | {"of", "for"}:
        return None
    first = 3 * int(match["quarter"]) - 2
    return _year_or_latest(match, today, lambda of: month(of, first, 3))


def _year(match: re.Match[str], _today: date) -> Found:
    return Found(year(int(match["year"])))


def _decade(match: re.Match[str], today: date) -> Found:
    start = int(match["decade"]) * 10 if match["decade"] else today.year // 100 * 100 + int(match["short"]) * 10
    if start > today.year:
        start -= 100
    return Found(month(start, 1, 120))


def _day_of_month(match: re.Match[str], today: date) -> Found:
    """The latest ninth, for "on the 9th"."""
    number = int(match["day"])
    for back in range(_LEAP):
        start, end = month(today.year, today.month - back)
        if number <= end.day and start.replace(day=number) <= today:
            one = start.replace(day=number)
            return Found(Span(one, one))
    raise ValueError(f"no month has a day {number}")


def _ideographic(match: re.Match[str], today: date) -> Found | None:
    if not match["month"]:
        return Found(year(int(match["year"])))
    number, day = int(match["month"]), match["day"]

    def of_year(of: int) -> Span:
        return Span(date(of, number, int(day)), date(of, number, int(day))) if day else month(of, number)

    return _year_or_latest(match, today, of_year)


def _names(months: dict[str, int]) -> str:
    return "|".join(sorted(months, key=len, reverse=True))


_FOREIGN = {name: number for name, number in MONTHS.items() if name not in ENGLISH_MONTHS | MONTH_ABBREVIATIONS}
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_TO = r"(?:[ ]?[-–—][ ]?|[ ](?:to|and|until|till|through|bis|au|al)[ ](?:the[ ])?)"
_YEAR = r"(?:,[ ]?|[ ](?:of[ ]|de[ ]|del[ ])?) (?P<year>(?:19|20)\d\d) (?![\w%]|[.,/:-]\d)"
_WHICH_YEAR = r"[ ](?:of[ ])? (?P<which_year>last|this|next)[ ]year\b"
_ANY_YEAR = rf"(?: {_YEAR} | {_WHICH_YEAR} )"
_BEGINS = r"(?: (?<![\w-]) | (?<=\bmid-) )"
_NOT_AFTER = r"(?<![\w.,:/$€£#-])"
_NO_AMOUNT = (
    r"(?! \w | [.,/:-]\d | [ ]?(?:[%€$£]"
    r" | (?:[km]?b|ms|s|px|km|miles|steps|words|lines|tokens|times|people|users|items|rows)\b) )"
)

RULES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], date], Found | None]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.VERBOSE), read)
    for pattern, read in (
        (
            rf"""{_NOT_AFTER}(?P<atom>(?P<year>(?:19|20)\d\d)(?P<mark>[-/])(?P<month>0[1-9]|1[0-2])
            (?:(?P=mark)(?P<day>{_DAY}))?) (?= T\d | (?![\w/-]|[.,]\d) )""",
            _iso,
        ),
        (
            rf"""{_NOT_AFTER}(?P<atom>(?P<first>{_DAY})(?P<mark>[./])(?P<second>{_DAY})(?P=mark)(?P<year>(?:19|20)\d\d))
            (?![\w/-]|\.\d)""",
            _numeric,
        ),
        (
            rf"""{_NOT_AFTER}(?P<atom>(?:the[ ])?(?P<day>{_DAY})(?P<ordinal>st|nd|rd|th|er|º|\.)?
            (?: {_TO} (?P<last_day>{_DAY})(?:st|nd|rd|th|\.)? )?
            [ ](?:of[ ]|de[ ])?(?P<month>{_names(MONTHS)})\b(?:\.?{_ANY_YEAR})?) (?!\w)""",
            _day,
        ),
        (
            rf"""(?<![\w-])(?P<atom>(?P<month>{_names(ENGLISH_MONTHS | MONTH_ABBREVIATIONS)})\b\.?[ ](?:the[ ])?
            (?P<day>{_DAY})(?P<ordinal>st|nd|rd|th)? (?![\w:%]|[./]\d|,\d(?!\d\d\d\b)|-\d\d\d)
            (?: {_TO} (?P<last_day>{_DAY})(?:st|nd|rd|th)? (?![\w:%]|[.,/]\d) )?{_ANY_YEAR}?)""",
            _day,
        ),
        (
            rf"(?<![\w-])(?P<atom>(?P<which_year>last|this|next)[ ]year['’]s[ ](?P<month>{_names(ENGLISH_MONTHS)}))\b",
            _month,
        ),
        (rf"{_BEGINS}(?P<atom>(?P<month>{_names(MONTHS)})\b\.?{_ANY_YEAR})", _month),
        (rf"{_BEGINS}(?P<atom>(?P<month>{_names(ENGLISH_MONTHS | MONTH_ABBREVIATIONS)})\b)(?!-\w)", _month),
        (rf"\b(?:im|en|em|seit|depuis|desde|i|nel)[ ](?P<atom>(?P<month>{_names(_FOREIGN)}))\b", _foreign_month),
        (
            rf"{_BEGINS}(?P<atom>(?P<season>{'|'.join(SEASON_STARTS)})\b(?:{_ANY_YEAR}|(?![ ]of\b|-)))",
            _season,
        ),
        (r"\b(?P<atom>Q(?P<quarter>[1-4])(?:[ /-]?(?P<year>(?:19|20)\d\d))?)\b", _quarter),
        (r"\bthe[ ](?P<atom>(?P<decade>19\d|20\d)0s|['’]?(?P<short>[1-9])0s)\b", _decade),
        (
            rf"""\b(?:in|of|during|since|until|till|before|after|by|from|to|and|between|early|late|mid|year|for)[ -]
            (?P<atom>(?P<year>(?:19|20)\d\d)){_NO_AMOUNT}""",
            _year,
        ),
        (
            r"""\b(?:on|by|since|until|till|from|before|after)[ ](?P<atom>the[ ](?P<day>[12]?\d|3[01])(?:st|nd|rd|th))
            (?=[ ]*(?:[?.!,;]|$))""",
            _day_of_month,
        ),
        (
            r"""(?P<atom>(?:(?P<year>(?:19|20)\d\d)\s?年\s?)(?:(?P<month>1[0-2]|0?[1-9])\s?月(?:\s?(?P<day>[12]\d|3[01]|0?[1-9])\s?[日号號])?)?)
            """,
            _ideographic,
        ),
        (
            r"(?<!\d)(?P<atom>(?P<month>1[0-2]|0?[1-9])\s?月(?:\s?(?P<day>[12]\d|3[01]|0?[1-9])\s?[日号號])?)",
            _ideographic,
        ),
    )
)
"""Patterns and what they mean on a day (None: no date after all), the more telling first."""
