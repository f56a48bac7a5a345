"""Time: one clock, one way to read it, one way to write it for programs and one for people."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.clock import iso_time, parse_time, short_time, utc_now
from neuralstream.errors import InputError

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
AWAY = timezone(timedelta(hours=-3, minutes=-30))


def test_the_clock_tells_utc():
    """It is aware, UTC, and goes forward."""
    before = datetime.now(UTC)
    assert before <= utc_now() <= datetime.now(UTC)
    assert utc_now().tzinfo is UTC


@pytest.mark.parametrize(
    "written",
    [
        "2026-05-08T12:00:00Z",
        " 2026-05-08T12:00:00+00:00 ",
        "2026-05-08T14:00:00+02:00",
        "2026-05-08 12:00",
        NOON.timestamp(),
        int(NOON.timestamp() * 1000),
        NOON,
        NOON.astimezone(AWAY),
        NOON.replace(tzinfo=None),
    ],
)
def test_times_are_read_however_they_are_written(written):
    """ISO 8601, seconds, milliseconds, aware and naive datetimes become the same aware UTC."""
    assert parse_time(written) == NOON
    assert parse_time(written).tzinfo is UTC


@pytest.mark.parametrize("written", ["yesterday", "", float("nan"), 1e300, None, []])
def test_what_is_no_time_is_refused(written):
    """Anything else is an input error that says how to write a time."""
    with pytest.raises(InputError, match="ISO 8601"):
        parse_time(written)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_beyond_the_calendar_are_refused(moment):
    """A time that UTC cannot express is no time."""
    with pytest.raises(InputError, match="is not a time"):
        parse_time(moment)


@pytest.mark.parametrize("moment", [NOON, NOON.replace(tzinfo=None), NOON.astimezone(AWAY)])
def test_a_time_is_written_as_utc(moment):
    """Whatever its zone, and where it names none."""
    assert iso_time(moment) == "2026-05-08T12:00:00Z"
    assert short_time(moment) == "2026-05-08 12:00"


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_was_written_is_read_again(moment):
    """To the microsecond."""
    assert parse_time(iso_time(moment)) == moment
