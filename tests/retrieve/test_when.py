from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.retrieve.when import asked, closeness

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)


def at(month, day, hour=12):
    """A moment of 2026."""
    return datetime(2026, month, day, hour, tzinfo=UTC)


def test_a_named_day_lasts_from_midnight_to_midnight():
    """The last minute of a named day is within it, the next midnight is its end."""
    assert asked("what did I do on 7 May?", NOW) == ((at(5, 7, 0), at(5, 8, 0)),)
    assert closeness(at(5, 7, 0), asked("on 7 May", NOW)) == 1.0
    assert closeness(at(5, 7, 23), asked("on 7 May", NOW)) == 1.0


def test_the_day_of_asking_is_taken_in_utc():
    """One moment gives one answer, whatever zone it is written in."""
    moment = datetime(2026, 5, 8, 1, tzinfo=timezone(timedelta(hours=5)))
    assert asked("what did I eat yesterday?", moment) == ((at(5, 6, 0), at(5, 7, 0)),)


def test_what_was_said_further_away_is_less_close():
    """Closeness falls on both sides, to nothing."""
    april = asked("in April", NOW)
    after = [closeness(at(5, day), april) for day in (1, 2, 8, 20, 22)]
    before = [closeness(at(3, day), april) for day in (31, 25, 22, 21)]
    for falling in (after, before):
        assert all(near > far for near, far in pairwise([1.0, *falling]))
        assert falling[-2] > falling[-1] == 0.0


def test_a_log_of_one_day_is_not_ranked_by_the_hour():
    """Outside a period whole days count: morning and evening are equally far."""
    assert closeness(at(5, 1, 8), asked("in April", NOW)) == closeness(at(5, 1, 22), asked("in April", NOW)) < 1.0
    assert closeness(at(3, 31, 8), asked("in April", NOW)) == closeness(at(3, 31, 22), asked("in April", NOW)) < 1.0


def test_a_year_falls_like_a_week():
    """Months after a long period nothing tells any more."""
    assert closeness(at(2, 1), asked("in 2025", NOW)) == 0.0


def test_the_days_after_are_closer_than_the_days_before():
    """People tell of a thing on its day or later, and plan it less often."""
    day = asked("on 7 April", NOW)
    assert closeness(at(4, 9), day) > closeness(at(4, 5), day)


def test_a_long_period_falls_more_slowly_than_a_day():
    """Ten days after "in March" is nearer than ten days after "on 31 March"."""
    assert closeness(at(4, 10), asked("in March", NOW)) > closeness(at(4, 10), asked("on 31 March", NOW))


def test_a_day_counts_as_three():
    """What was said two days after a named day is still near: clocks differ and nobody writes in every day."""
    assert closeness(at(4, 9), asked("on 7 April", NOW)) > 0.5 > closeness(at(4, 11), asked("on 7 April", NOW))


def test_the_nearest_of_several_periods_counts():
    """Two days are asked for, and each is found."""
    periods = asked("on 7 April and on 3 May", NOW)
    assert closeness(at(4, 7), periods) == closeness(at(5, 3), periods) == 1.0


@pytest.mark.parametrize("text", ["", "which port does redis use?", "how early may I call?"])
def test_a_question_that_names_no_period_has_no_closeness(text):
    """Nothing named, nothing near."""
    assert closeness(NOW, asked(text, NOW)) == 0.0


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_closeness_lies_between_0_and_1(created_at, as_of):
    """Any two moments of the calendar can be compared."""
    assert 0 <= closeness(created_at, asked("last week, in March, 2 years ago or tomorrow", as_of)) <= 1
