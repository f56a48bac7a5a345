from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.dates import find_periods

MONDAY = date(2023, 5, 8)


def found(text, today=MONDAY):
    """Each period as start/end."""
    return [f"{period.start}/{period.end}" for period in find_periods(text, today)]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What did Ada do on 7 May?", "2023-05-07", "2023-05-07"),
        ("Who joined on May 7th, 2022?", "2022-05-07", "2022-05-07"),
        ("the forest picture of December 1,2022", "2022-12-01", "2022-12-01"),
        ("the 21 April session", "2023-04-21", "2023-04-21"),
        ("what broke on 2023-04-12T10:00:00Z?", "2023-04-12", "2023-04-12"),
        ("what broke on 25/4/2023?", "2023-04-25", "2023-04-25"),
        ("what broke on 4/25/2023?", "2023-04-25", "2023-04-25"),
        ("what broke on 5.4.2023?", "2023-04-05", "2023-04-05"),
        ("what was said on the 3rd?", "2023-05-03", "2023-05-03"),
        ("what was said on the 31st?", "2023-03-31", "2023-03-31"),
        ("on 29 February", "2020-02-29", "2020-02-29"),
        ("what was said in May 2022?", "2022-05-01", "2022-05-31"),
        ("the log of 2023-04", "2023-04-01", "2023-04-30"),
        ("which port did we pick in march?", "2023-03-01", "2023-03-31"),
        ("whom did we hire in July?", "2022-07-01", "2022-07-31"),
        ("who visited last March?", "2023-03-01", "2023-03-31"),
        ("who visited last May?", "2022-05-01", "2022-05-31"),
        ("what did we ship in March of last year?", "2022-03-01", "2022-03-31"),
        ("last year's March", "2022-03-01", "2022-03-31"),
        ("which states did she visit in 2021?", "2021-01-01", "2021-12-31"),
        ("where was he in the summer of 2022?", "2022-06-01", "2022-08-31"),
        ("what did John enjoy last summer?", "2022-06-01", "2022-08-31"),
        ("which alerts have we set this spring?", "2023-03-01", "2023-05-31"),
        ("who visited last winter?", "2022-12-01", "2023-02-28"),
        ("the numbers of Q1 2022", "2022-01-01", "2022-03-31"),
        ("music of the 1990s", "1990-01-01", "1999-12-31"),
        ("music of the 90s", "1990-01-01", "1999-12-31"),
    ],
)
def test_calendar_dates(text, start, end):
    """A date means its days; without a year, the latest that has begun."""
    assert found(text) == [f"{start}/{end}"]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("what did I eat yesterday?", "2023-05-07", "2023-05-07"),
        ("what did I decide last Friday?", "2023-05-05", "2023-05-05"),
        ("who is the guest on Tuesday?", "2023-05-02", "2023-05-02"),
        ("who will come on Tuesday?", "2023-05-09", "2023-05-09"),
        ("what did I say last weekend?", "2023-05-06", "2023-05-07"),
        ("what happened last month?", "2023-04-01", "2023-04-30"),
        ("what have I done this week?", "2023-05-08", "2023-05-14"),
        ("what did I ask today?", "2023-05-08", "2023-05-08"),
        ("what came up in the past two weeks?", "2023-04-24", "2023-05-08"),
        ("what came up over the last 3 months?", "2023-02-08", "2023-05-08"),
        ("what came up in the last few days?", "2023-05-03", "2023-05-08"),
        ("whom did I meet a few days ago?", "2023-05-03", "2023-05-06"),
        ("whom did I meet two weeks ago?", "2023-04-21", "2023-04-27"),
        ("whom did I meet a month ago?", "2023-03-24", "2023-04-23"),
        ("whom did I meet 3 years ago?", "2020-01-01", "2020-12-31"),
        ("what did we sell last quarter?", "2023-01-01", "2023-03-31"),
        ("what broke since Thursday?", "2023-05-04", "2023-05-08"),
    ],
)
def test_relative_dates(text, start, end):
    """What counts from the day of asking is told apart, and looks back where nothing tells."""
    assert found(text) == [f"{start}/{end}"]
    assert [period.relative for period in find_periods(text, MONDAY)] == [True]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("what did we do between 3 and 7 May?", "2023-05-03", "2023-05-07"),
        ("where was he between August 11 and August 15 2022", "2022-08-11", "2022-08-15"),
        ("what happened between June and September?", "2022-06-01", "2022-09-30"),
        ("from November to February", "2022-11-01", "2023-02-28"),
        ("from May 2022 to July", "2022-05-01", "2022-07-31"),
        ("10-12 April", "2023-04-10", "2023-04-12"),
        ("since March", "2023-03-01", "2023-05-08"),
        ("since May", "2023-05-01", "2023-05-08"),
        ("in early June 2022", "2022-06-01", "2022-06-10"),
        ("mid-April", "2023-04-11", "2023-04-20"),
        ("at the end of last month", "2023-04-21", "2023-04-30"),
        ("the first half of September 2022", "2022-09-01", "2022-09-15"),
        ("the second half of September 2022", "2022-09-16", "2022-09-30"),
        ("the second week of November", "2022-11-08", "2022-11-14"),
        ("the last week of February", "2023-02-22", "2023-02-28"),
        ("the first weekend of April", "2023-04-01", "2023-04-02"),
        ("the week of 3 May", "2023-05-01", "2023-05-07"),
        ("the week before August 3, 2022", "2022-07-27", "2022-08-02"),
        ("two weeks before 21 April", "2023-04-04", "2023-04-10"),
        ("3 days after March 1st", "2023-03-04", "2023-03-04"),
        ("the Friday before the 21 April session", "2023-04-14", "2023-04-14"),
        ("the Tuesday after 21 April", "2023-04-25", "2023-04-25"),
        ("the weekend before May 3", "2023-04-29", "2023-04-30"),
        ("the weekend after 3 May", "2023-05-06", "2023-05-07"),
        ("early last week", "2023-05-01", "2023-05-07"),
    ],
)
def test_parts_ranges_and_neighbours(text, start, end):
    """What stands before and between dates cuts out, joins and moves them."""
    assert found(text) == [f"{start}/{end}"]


@pytest.mark.parametrize(
    "text",
    [
        "What may I do?",
        "How early may someone call?",
        "this may help",
        "They march 20 miles a day.",
        "May 2 of us come?",
        "What did the June and April from accounting say?",
        "what did Sun Li say to Mon, and did Jan call?",
        "the second test took a second",
        "which port, 2022 or 2024?",
        "a limit of 2000 tokens, done in 2000 ms",
        "is ERR-1042 the one with 12/24 retries?",
        "release 2.11.3 went to 10.0.0.7 at PAY-2023-04",
        "what was on 5/7/2023?",
        "who will fall in the spring of the watch, or at the fall of Rome?",
        "on the 3rd floor",
        "a spring boot, a Q3 form, and mars",
        "every March, each December, on Fridays",
        "augment the mars dec file",
        "in his 30s, on the last day",
    ],
)
def test_words_that_are_no_dates(text):
    """Verbs, people, amounts and names of versions are left alone, and so is what two countries read differently."""
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Was haben wir am 7. Mai beschlossen?", "2023-05-07", "2023-05-07"),
        ("Wer kam im März?", "2023-03-01", "2023-03-31"),
        ("Wer kam letzte Woche?", "2023-05-01", "2023-05-07"),
        ("le 7 mai 2022", "2022-05-07", "2022-05-07"),
        ("l’année dernière", "2022-01-01", "2022-12-31"),
        ("el 7 de mayo de 2022", "2022-05-07", "2022-05-07"),
        ("settimana scorsa", "2023-05-01", "2023-05-07"),
        ("2022年5月7日に何を決めた?", "2022-05-07", "2022-05-07"),
        ("3月", "2023-03-01", "2023-03-31"),
        ("上周我们决定了什么", "2023-05-01", "2023-05-07"),
        ("先月何を食べた?", "2023-04-01", "2023-04-30"),
        ("지난주에 뭐 했어?", "2023-05-01", "2023-05-07"),
        ("เมื่อวานฉันกินอะไร", "2023-05-07", "2023-05-07"),
    ],
)
def test_other_languages(text, start, end):
    """The plain forms of other languages are read as well."""
    assert found(text) == [f"{start}/{end}"]


@pytest.mark.parametrize(
    ("text", "asked", "start"),
    [
        ("who moves on 28 April?", date(2023, 4, 22), date(2023, 4, 28)),
        ("who moved on 28 April?", date(2023, 4, 22), date(2022, 4, 28)),
        ("who moves on 28 July?", date(2023, 4, 22), date(2022, 7, 28)),
        ("what are the plans for the summer?", date(2023, 4, 22), date(2023, 6, 1)),
        ("what were the plans for the summer?", date(2023, 10, 22), date(2023, 6, 1)),
        ("what are the plans for the summer?", date(2023, 10, 22), date(2023, 6, 1)),
        ("what starts next March?", date(2023, 3, 5), date(2024, 3, 1)),
    ],
)
def test_a_date_without_year_looks_back_unless_the_coming_one_is_nearer(text, asked, start):
    """The coming one is meant where it is nearer and the words around it speak of it, or it is close."""
    assert [period.start for period in find_periods(text, asked)] == [start]


def test_a_relative_date_told_on_a_day_counts_from_that_day():
    """The week before the sixth is "last week, as mentioned on 6 November"; "last week on 5 May" is last week."""
    assert found("the issue last week,as mentioned on November 6, 2022") == [
        "2022-10-24/2022-10-30",
        "2022-11-06/2022-11-06",
    ]
    assert found("last weekend before April 10, 2023")[0] == "2023-04-08/2023-04-09"
    assert found("what did I say last week on 5 May?") == ["2023-05-01/2023-05-07", "2023-05-05/2023-05-05"]


def test_several_dates_come_in_the_order_of_the_text():
    """Each period tells where in the text it stands."""
    text = "was it in March, on 2022-04-12 or yesterday?"
    assert [text[slice(*period.at)] for period in find_periods(text, MONDAY)] == ["March", "2022-04-12", "yesterday"]


def test_a_month_beside_another_one_is_a_month():
    """Two are named by "January and March"."""
    assert found("the novels I read in January and March") == ["2023-01-01/2023-01-31", "2023-03-01/2023-03-31"]


def test_days_that_no_calendar_has():
    """A date outside the calendar is left out, and the others are kept."""
    assert found("31/31/2023, 3 years ago, yesterday, on 7 May 2023", date.min) == ["2023-05-07/2023-05-07"]
    assert found("tomorrow, in 3 years, the week after 7 May 2023", date.max) == ["2023-05-08/2023-05-14"]


_WORDS = st.sampled_from(
    """
    in on since between and to the early last next this week weekend month May 7 31 2022 Friday before after two days
    ago 3rd March summer of Q1 first half end yesterday - , .
    """.split()  # noqa: SIM905 - a list of quoted words would be unreadable
)


@pytest.mark.parametrize("text", ["5 and 3 March", "March 5 to 3", "from 5 to 3 March"])
def test_two_days_the_wrong_way_round_are_the_days_between(text):
    """A period is never one that ends before it begins."""
    [period] = find_periods(text, date(2022, 6, 1))
    assert (period.start, period.end) == (date(2022, 3, 3), date(2022, 3, 5))


@given(st.one_of(st.text(), st.lists(_WORDS).map(" ".join)), st.dates())
def test_any_text_is_read(text, today):
    """Whatever is asked, whenever, gives periods that are in order and stand in the text."""
    end = 0
    for period in find_periods(text, today):
        assert period.start <= period.end
        assert end <= period.at[0] < period.at[1] <= len(text)
        end = period.at[1]


@given(st.dates(date(1600, 1, 1), date(2400, 1, 1)))
def test_last_week_ends_the_day_before_this_week_begins(today):
    """Weeks are the calendar's, whatever the day."""
    last, this = find_periods("last week or this week", today)
    assert last.end + timedelta(days=1) == this.start <= today <= this.end
    assert this.start.weekday() == 0
