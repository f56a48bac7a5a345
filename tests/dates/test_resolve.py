from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.dates import resolve_dates

MONDAY = date(2023, 5, 8)


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("I went yesterday.", "I went yesterday (2023-05-07)."),
        ("the day before yesterday we met", "the day before yesterday (2023-05-06) we met"),
        ("see you the day after tomorrow", "see you the day after tomorrow (2023-05-10)"),
        ("last night it rained", "last night (2023-05-07) it rained"),
        ("in two weeks", "in two weeks (2023-05-22)"),
        ("a couple of weeks ago", "a couple of weeks ago (2023-04-24)"),
        ("10 days from now", "10 days from now (2023-05-18)"),
        ("three months ago", "three months ago (2023-02)"),
        ("3 years ago", "3 years ago (2020)"),
        ("next month", "next month (2023-06)"),
        ("last year", "last year (2022)"),
        ("last week", "last week (week of 2023-05-01)"),
        ("this weekend", "this weekend (2023-05-13/14)"),
        ("last weekend", "last weekend (2023-05-06/07)"),
        ("last Friday", "last Friday (2023-05-05)"),
        ("last Monday", "last Monday (2023-05-01)"),
        ("this friday", "this friday (2023-05-12)"),
        ("next Friday", "next Friday (2023-05-19)"),
        ("let's meet on Tuesday", "let's meet on Tuesday (2023-05-09)"),
        ("I saw her on Tuesday", "I saw her on Tuesday (2023-05-02)"),
        ("I promised it by Thursday", "I promised it by Thursday (2023-05-11)"),
        ("it broke, since Monday it is slow", "it broke, since Monday (2023-05-01) it is slow"),
        ("gestern war es warm", "gestern (2023-05-07) war es warm"),
    ],
)
def test_relative_dates(text, resolved):
    """A relative expression keeps its words and gains the date it means, as exact as it is."""
    assert resolve_dates(text, MONDAY) == resolved


@pytest.mark.parametrize(
    "text",
    [
        "today and tonight",
        "every Tuesday",
        "on Tuesdays",
        "Good Friday",
        "on Tuesday 9 May",
        "on Tuesday the 9th",
        "the last Saturday of each month",
        "this month",
        "for two weeks",
        "yesterday-ish",
        "yesterday (2023-05-07)",
    ],
)
def test_what_is_left_alone(text):
    """Habits, durations, dates in full and what the gem's own day tells stay as they are."""
    assert resolve_dates(text, MONDAY) == text


def test_next_weekday_on_a_sunday_lies_in_the_coming_week():
    """Calendar weeks count: said on a Sunday, "next Friday" is five days on."""
    assert resolve_dates("next Friday", date(2023, 5, 7)) == "next Friday (2023-05-12)"


def test_a_weekend_across_months():
    """A weekend's second day names its month where it is another."""
    assert resolve_dates("this weekend", date(2023, 9, 28)) == "this weekend (2023-09-30/10-01)"


def test_years_outside_the_calendar():
    """A date that no calendar has is left out."""
    assert resolve_dates("yesterday, in 5 years, last year", date.min) == "yesterday, in 5 years (0006), last year"


@given(st.text(), st.dates())
def test_nothing_said_is_lost(text, day):
    """Resolving only ever adds."""
    resolved = iter(resolve_dates(text, day))
    assert all(char in resolved for char in text)
