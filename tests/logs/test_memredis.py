"""The earlier Redis buffer: three shapes, pushed from either end, read without taking anything away."""

import json

import pytest

from neuralstream.logs import read_log
from neuralstream.logs.memredis import list_log

MESSAGES = [
    {"turn": 1, "role": "user", "content": "a", "timestamp": "2026-02-10T10:00:00Z", "user_id": "ana", "session": "s"},
    {
        "turn": 1,
        "role": "assistant",
        "content": "b",
        "timestamp": "2026-02-10T10:00:00Z",
        "user_id": "ana",
        "session": "s",
    },
    {"turn": 2, "role": "user", "content": "c", "timestamp": "2026-02-10T10:05:00Z", "user_id": "ana", "session": "s"},
    {
        "turn": 2,
        "role": "assistant",
        "content": "d",
        "timestamp": "2026-02-10T10:05:00Z",
        "user_id": "ana",
        "session": "s",
    },
]
EXCHANGE = {
    "user_id": "bo", "user_message": "e", "ai_response": "f", "turn": 1, "timestamp": 1770717600.5,
    "date": "2026-02-10", "conversation_id": "c1", "channel": "web",
}  # fmt: skip


def _texts(turns):
    return [[part.text for part in turn.parts] for turn in turns]


def _strings(entries):
    return [json.dumps(entry) for entry in entries]


@pytest.mark.parametrize("reverse", [False, True])
def test_either_end_is_the_newest(reverse):
    """Whichever end a list was pushed from, turns come oldest first, questions before answers, under the same ids."""
    plain = list(list_log("mem:ana", _strings(MESSAGES)))
    turns = list(list_log("mem:ana", [text.encode() for text in _strings(MESSAGES[:: -1 if reverse else 1])]))
    assert _texts(turns) == [["a", "b"], ["c", "d"]]
    assert [turn.turn_id for turn in turns] == [turn.turn_id for turn in plain]
    assert {(turn.user_id, turn.session_id) for turn in turns} == {("ana", "s")}


def test_turn_numbers_may_be_missing():
    """Without turn numbers, time alone orders the messages."""
    entries = [{key: value for key, value in entry.items() if key != "turn"} for entry in MESSAGES]
    assert _texts(list_log("mem:ana", _strings(entries[::-1]))) == [["a", "b"], ["c", "d"]]


def test_a_late_reply_joins_its_own_question():
    """Questions may be asked before the first is answered; the turn number tells which one a reply is to."""
    question, reply, second, last = (dict(entry) for entry in MESSAGES)
    reply["timestamp"] = "2026-02-10T10:06:00Z"
    entries = _strings([question, second, reply, last | {"timestamp": "2026-02-10T10:07:00Z"}])
    log = list_log("mem:ana", entries)
    assert _texts(log) == [["a", "b"], ["c", "d"]]
    assert len(log.ended) == 2


def test_whole_exchanges(write):
    """An entry may hold both sides; its user and conversation are its own."""
    (turn,) = read_log(write("dump.json", json.dumps(_strings([EXCHANGE]))))
    assert (turn.user_id, turn.session_id, turn.text) == ("bo", "c1", "e\nf")
    assert turn.created_at.isoformat() == "2026-02-10T10:00:00.500000+00:00"


@pytest.mark.parametrize("form", ["array of strings", "array of objects", "strings", "objects"])
def test_dumps_however_written(write, form):
    """A dump is an array or lines, of strings or of objects."""
    texts = _strings(MESSAGES)
    content = {
        "array of strings": json.dumps(texts, indent=1),
        "array of objects": json.dumps(MESSAGES),
        "strings": "\n".join(json.dumps(text) for text in texts),
        "objects": "\n".join(texts),
    }[form]
    log = read_log(write("dump.json", content))
    assert _texts(log) == [["a", "b"], ["c", "d"]]
    assert (log.format, log.used, log.problems) == ("memredis", 4, [])


def test_a_list_that_grew_and_was_cut_keeps_its_ids():
    """Ids do not depend on an entry's place."""
    old = list(list_log("mem:ana", _strings(MESSAGES)))
    later = MESSAGES[0] | {"turn": 3, "content": "g", "timestamp": "2026-02-10T11:00:00Z"}
    new = list(list_log("mem:ana", _strings([*MESSAGES[2:], later])))
    assert new[0].turn_id == old[1].turn_id
    assert new[1].turn_id not in {turn.turn_id for turn in old}


def test_entries_without_a_time_follow_their_neighbours():
    """A missing time is estimated, and the list's order stands."""
    entries = [MESSAGES[0], *({**entry, "timestamp": None} for entry in MESSAGES[1:3]), MESSAGES[3]]
    turns = list(list_log("mem:ana", _strings(entries)))
    assert _texts(turns) == [["a", "b"], ["c", "d"]]
    assert [turn.time_estimated for turn in turns] == [False, False]


def test_a_time_of_day_belongs_to_its_date():
    """A timestamp that is only a time of day is read together with the date."""
    (turn,) = list_log("mem:bo", _strings([EXCHANGE | {"timestamp": "10:30:00"}]))
    assert turn.created_at.isoformat() == "2026-02-10T10:30:00+00:00"


def test_what_is_no_entry_is_a_problem():
    """Damaged entries are counted with their place, system messages are skipped, names that are missing are made."""
    entries = [
        "{torn",
        "[]",
        "5",
        '{"role": "user"}',
        '{"role": "system", "content": "x"}',
        '{"role": "user", "content": "y"}',
    ]
    log = list_log("mem:ana", entries, user_id="ana")
    (turn,) = log
    assert (turn.user_id, turn.session_id, turn.time_estimated) == ("ana", "mem:ana", True)
    assert [problem.line for problem in log.problems] == [1, 2, 3, 4]
    assert (log.used, log.skipped) == (1, 1)
