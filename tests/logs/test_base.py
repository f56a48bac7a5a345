"""Messages become turns: what joins which turn, when it was said, and under which id."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import TURN_STEP, Log, Message, assemble, fill_times, read_time, stable_id

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)


def _log(unit="exchange"):
    return Log(Path("nowhere.jsonl"), "test", lambda _: iter(()), unit=unit)


def _said(role, text, number, at=None, speaker=None):
    return Message(role, text, f"m{number}", number, at, speaker)


def _turns(messages, unit="exchange"):
    return [assembled.turn for assembled in assemble(messages, _log(unit), session_id="s", path=Path("nowhere.jsonl"))]


def _texts(messages, unit="exchange"):
    return [[part.text for part in turn.parts] for turn in _turns(messages, unit)]


def test_an_exchange_is_a_user_message_and_all_that_answers_it():
    """Replies and tool lines join the user's message; each user message opens a turn of its own."""
    messages = [
        _said("user", "a", 1), _said("tool", "t()", 2), _said("assistant", "b", 3),
        _said("user", "c", 4), _said("user", "d", 5), _said("assistant", "e", 6),
    ]  # fmt: skip
    assert _texts(messages) == [["a", "t()", "b"], ["c"], ["d", "e"]]
    assert [turn.turn_id for turn in _turns(messages)] == ["m1", "m4", "m5"]


def test_a_log_may_start_with_a_reply_and_end_without_one():
    """Nothing said is lost at either end."""
    assert _texts([_said("assistant", "hello", 1), _said("user", "a", 2)]) == [["hello"], ["a"]]


def test_a_message_without_words_keeps_its_reply_apart():
    """The reply to a pseudo-prompt does not join the turn before; where nobody spoke, there is no turn."""
    messages = [_said("user", "a", 1), _said("assistant", "b", 2), _said("user", "", 3), _said("assistant", "alert", 4)]
    assert _texts(messages) == [["a", "b"], ["alert"]]
    assert _texts([_said("user", "", 1), _said("tool", "write()", 2)]) == []


def test_an_utterance_is_one_message_with_its_tools():
    """By utterance, each speaker's words are a turn, and tool lines stay with the words before them."""
    messages = [_said("user", "a", 1), _said("assistant", "b", 2), _said("tool", "t()", 3)]
    silent = [_said("assistant", "", 4), _said("tool", "u()", 5)]
    assert _texts(messages + silent, "utterance") == [["a"], ["b", "t()", "u()"]]


def test_among_people_the_opener_opens_the_next_exchange():
    """Two people's chat is cut where whoever began speaks again after an answer."""
    chat = [_said("person", str(i), i, speaker=name) for i, name in enumerate("AABBABA")]
    assert _texts(chat) == [["0", "1", "2", "3"], ["4", "5"], ["6"]]


def test_times_are_kept_or_estimated_between_their_neighbours():
    """A missing time lies between the known ones around it and is marked; known ones are not."""
    messages = [
        _said("user", str(i), i, at) for i, at in enumerate([None, NOON, None, NOON + timedelta(minutes=2), None])
    ]
    made = _turns(messages)
    assert [turn.created_at - NOON for turn in made] == [
        -TURN_STEP, timedelta(0), timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=2) + TURN_STEP,
    ]  # fmt: skip
    assert [turn.time_estimated for turn in made] == [True, False, True, False, True]


def test_without_any_time_the_last_turn_is_as_old_as_the_file(tmp_path):
    """A log that never tells the time ends when its file was last written."""
    file = tmp_path / "log.jsonl"
    file.write_text("")
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    assert fill_times([None, None], file) == [written - TURN_STEP, written]
    assert fill_times([], file) == []


@given(st.lists(st.none() | st.integers(0, 10**9).map(lambda seconds: NOON + timedelta(seconds=seconds)), max_size=20))
def test_filling_keeps_what_is_known(moments):
    """Every turn gets a time, and a known time is never changed."""
    filled = fill_times(moments, Path("nowhere"))
    assert len(filled) == len(moments)
    assert all(known is None or known == time for known, time in zip(moments, filled, strict=True))


@pytest.mark.parametrize(
    "value", [None, True, float("nan"), float("inf"), 10**400, "yesterday", "", [], "0001-01-01T00:00:00+05:00"]
)
def test_what_is_no_time_is_none(value):
    """A damaged time is a missing one."""
    assert read_time(value) is None


@pytest.mark.parametrize("value", ["2026-05-08T12:00:00Z", 1778241600, 1778241600000, "2026-05-08T14:00:00+02:00"])
def test_times_of_all_kinds_are_utc(value):
    """ISO text, seconds and milliseconds name the same moment."""
    assert read_time(value) == NOON


def test_ids_depend_on_every_part():
    """Parts do not run into each other, and lone surrogates do no harm."""
    assert stable_id("a", "bc") != stable_id("ab", "c")
    assert stable_id("\ud800") == stable_id("\ud800")


def test_labelled_data_refuses_what_it_cannot_read():
    """A problem becomes an error that names file and line."""
    reader = _log()
    reader.refuse_problems()
    reader.problem(7, "not JSON", Path("folder/part.jsonl"))
    with pytest.raises(LogFormatError, match=r"part\.jsonl, line 7: not JSON"):
        reader.refuse_problems()
