"""Periods that a question names: calendar dates, dates relative to today, their parts, ranges and neighbours.

Two steps: `absolute.py` and `recent.py` find single dates; what stands before and between them ("early", "since", "the
week before", "between … and …") is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from neuralstream.dates import absolute, recent
from neuralstream.dates.recent import ABOUT
from neuralstream.dates.relative import NUMBERS, WEEKDAYS
from neuralstream.dates.spans import Span, days_on, units_on, week, weekend

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Period", "find_periods"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Period:
    """Days that a text names.

    Attributes:
        start, end: first and last day, both included.
        at: where in the text it stands, as (start, end) of a slice.
        relative: it counts from the day of asking ("last week"), not from the calendar ("May 2023").
    """

    start: date
    end: date
    at: tuple[int, int]
    relative: bool

    @property
    def span(self) -> Span:
        """Its days."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class _Atom:
    """A single date, and how to read it on another day or in another year, where that may be asked."""

    span: Span
    at: tuple[int, int]
    relative: bool
    of_year: Callable[[int], Span] | None = None
    on_day: Callable[[date], Span] | None = None


_PART = re.compile(
    r"""\b(?: (?P<part>early|mid|middle|late|beginning|start|end) (?:[ ](?:of|in))? [ -]
      | (?P<half>first|second)[ ]half[ ]of[ ]
      | (?P<nth>first|1st|opening|second|2nd|third|3rd|fourth|4th|last)[ ](?P<unit>week|weekend)[ ](?:of|in)[ ]
      | (?P<around>week|weekend)[ ]of[ ]
    )(?:the[ ])?$""",
    re.IGNORECASE | re.VERBOSE,
)
_NTH = {"first": 0, "1st": 0, "opening": 0, "second": 1, "2nd": 1, "third": 2, "3rd": 2, "fourth": 3, "4th": 3}
_BESIDE = re.compile(
    rf"""\b(?: (?P<count>\d{{1,3}}|{"|".join(NUMBERS)})[ ](?:of[ ])?(?P<units>day|week|month|year)s?
      | (?P<unit>day|week|weekend|month|year) | (?P<weekday>{"|".join(WEEKDAYS)})
    )[ ](?P<side>before|prior[ ]to|preceding|after|following)[ ](?:the[ ])?$""",
    re.IGNORECASE | re.VERBOSE,
)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_SINCE = re.compile(r"\bsince[ ](?:about[ ]|the[ ])?$", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween[ ](?:the[ ])?$", re.IGNORECASE)
_JOINS = re.compile(r"[ ]?(?:(?P<and>and)|to|until|till|through|[-–—])[ ]?(?:the[ ])?", re.IGNORECASE)
_SAID_ON = re.compile(
    r"(?:,[ ]?|[ ])(?:as[ ])?(?:mentioned[ ]|said[ ]|told[ ])?(?:before|on|of|in)[ ](?:the[ ])?", re.IGNORECASE
)
_REACH = 40
"""Characters before a date in which what belongs to it is looked for."""
_SHORTEST = 28
"""Days that a span needs to have an early part or a second week."""


def find_periods(text: str, today: date) -> list[Period]:
    """The periods a question names, in the order of the text.

    A date without a year is the latest one that has begun by `today`, unless the words around it tell of the future. A
    weekday without a tense lies behind. 5/7/2023, which two countries read differently, is not read.

    Args:
        text: the question; English, the plain forms of eight more European languages, Chinese and Japanese dates, and
            the words for "last week" and its kin in Korean and Thai.
        today: the day it is asked.
    """
    periods: list[Period] = []
    atoms = _atoms(text, today)
    read = 0
    while read < len(atoms):
        begin = max(atoms[read - 1].at[1] if read else 0, atoms[read].at[0] - _REACH)
        try:
            period, used = _period(text, begin, atoms[read : read + 2], today)
            periods.append(period)
            read += used
        except (OverflowError, ValueError):  # outside the years 1 to 9999
            read += 1
    return periods


def _atoms(text: str, today: date) -> list[_Atom]:
    """Single dates; where two overlap, the one of the more telling pattern."""
    atoms: list[_Atom] = []
    taken = bytearray(len(text))

    def add(atom: _Atom) -> None:
        start, end = atom.at
        taken[start:end] = b"\1" * (end - start)
        atoms.append(atom)

    for pattern, read in absolute.RULES:
        for match in pattern.finditer(text):
            start, end = match.span("atom")
            if not any(taken[start:end]) and (found := _tried(read, match, today)):
                add(_Atom(found.span, (start, end), relative=False, of_year=found.of_year))
    for pattern, read_on in recent.RULES:
        for match in pattern.finditer(text):
            start, end = match.span()
            if not any(taken[start:end]) and (span := _tried(read_on, match, today)):
                add(_Atom(span, (start, end), relative=True, on_day=partial(read_on, match)))
    return sorted(atoms, key=lambda atom: atom.at)


def _tried(read: Callable[[re.Match[str], date], _T], match: re.Match[str], today: date) -> _T | None:
    try:
        return read(match, today)
    except (OverflowError, ValueError):  # 31 February, or outside the years 1 to 9999
        return None


def _period(text: str, begin: int, atoms: list[_Atom], today: date) -> tuple[Period, int]:
    """The first atom with what stands around it, and how many atoms that took."""
    atom, following = atoms[0], atoms[1] if len(atoms) > 1 else None
    before = text[begin : atom.at[0]]
    if following:
        gap = text[atom.at[1] : following.at[0]]
        joins = _JOINS.fullmatch(gap)
        between = _BETWEEN.search(before)
        if joins and (between or not joins["and"]) and (span := _joined(atom, following)):
            return Period(*span, (atom.at[0], following.at[1]), relative=atom.relative and following.relative), 2
        if atom.on_day and _SAID_ON.fullmatch(gap) and _tells_when(following, atom):
            # "last Friday, as mentioned on 23 January": counted from that day, not from today
            return Period(*atom.on_day(following.span.start), atom.at, relative=False), 1
    if (since := _SINCE.search(before)) and atom.span.start <= today:
        return Period(atom.span.start, today, (begin + since.start(), atom.at[1]), atom.relative), 1
    for pattern, read in ((_PART, _part), (_BESIDE, _beside)):
        if (found := pattern.search(before)) and (span := read(found, atom.span)):
            return Period(*span, (begin + found.start(), atom.at[1]), atom.relative), 1
    return Period(*atom.span, atom.at, atom.relative), 1


def _tells_when(following: _Atom, atom: _Atom) -> bool:
    """It is a day of the calendar, and not one of the days that are meant: "last week on 5 May" is the fifth."""
    day = following.span
    return day.days == 1 and not following.relative and not atom.span.start <= day.start <= atom.span.end


def _joined(first: _Atom, last: _Atom) -> Span | None:
    """From the one to the other; what names no year has the other's, or the one that puts them in order."""
    start, end = first.span, last.span
    if first.of_year and (start.start > end.end or not last.of_year):
        start = first.of_year(end.end.year)
        if start.start > end.end:
            start = first.of_year(end.end.year - 1)
    elif last.of_year and not first.of_year:
        end = last.of_year(start.start.year)
        if start.start > end.end:
            end = last.of_year(start.start.year + 1)
    return Span(start.start, end.end) if start.start <= end.end else None


def _part(match: re.Match[str], span: Span) -> Span | None:
    """What "the week of 3 May", "the last week of February", "early June" and "the second half of 2022" cut out."""
    if around := match["around"]:
        return None if span.days > 1 else (weekend if around.casefold() == "weekend" else week)(span.start)
    if span.days < _SHORTEST:
        return None
    if match["nth"]:
        return _nth(match, span)
    half = (match["half"] or "").casefold()
    size = timedelta(days=span.days // 2 if half else -(-span.days // 3))
    part = half or match["part"].casefold()
    if part in {"mid", "middle"}:
        return Span(span.start + size, span.end - size)
    if part in {"first", "early", "beginning", "start"}:
        return Span(span.start, span.start + size - timedelta(days=1))
    return Span(span.end - size + timedelta(days=1), span.end)


def _nth(match: re.Match[str], span: Span) -> Span:
    """Weeks are counted from the first day: the second is the days 8 to 14, the last the last seven."""
    nth = match["nth"].casefold()
    start = span.end - timedelta(days=6) if nth == "last" else span.start + timedelta(weeks=_NTH[nth])
    if match["unit"].casefold() == "week":
        return Span(start, start + timedelta(days=6))
    saturday = start + timedelta(days=(5 - start.weekday()) % 7)
    return Span(saturday, saturday + timedelta(days=1))


def _beside(match: re.Match[str], span: Span) -> Span:
    """What lies so far from a date: "two weeks before 11 August", "the week after", "the Friday before 21 April"."""
    sign = -1 if match["side"].casefold() in {"before", "prior to", "preceding"} else 1
    edge = span.start if sign < 0 else span.end
    if match["count"]:
        count, unit = match["count"].casefold(), match["units"].casefold()
        beside = units_on(edge, sign * (NUMBERS.get(count) or int(count)), unit)
        return beside.widened(ABOUT[unit]) if unit == "week" else beside
    unit = (match["unit"] or "").casefold()
    if unit in _DAYS:
        near, far = edge + timedelta(days=sign), edge + timedelta(days=sign * _DAYS[unit])
        return Span(min(near, far), max(near, far))
    # The nearest such weekday that is not the day itself; of a weekend, the day nearer to it.
    nearer = (6 if sign < 0 else 5) if unit == "weekend" else WEEKDAYS.index(match["weekday"].casefold())
    day = days_on(edge, sign * ((sign * (nearer - edge.weekday())) % 7 or 7)).start
    return weekend(day) if unit == "weekend" else Span(day, day)
