"""The native format: turns as they were written, labelled queries, strict where numbers depend on it."""

import json
from datetime import UTC, datetime

import pytest

from neuralstream.errors import InputError, LogFormatError
from neuralstream.logs import native, read_log
from neuralstream.types import Turn

TURNS = [
    Turn.exchange("Move redis", "Done", session_id="s1", turn_id="t1", user_id="ana", index=0,
                  created_at=datetime(2026, 3, 3, 19, 40, tzinfo=UTC)),
    Turn.utterance("Bo", "Hello", session_id="s2", turn_id="t2", user_id="ana", index=0,
                   created_at=datetime(2026, 3, 4, 9, 0, tzinfo=UTC), source="elsewhere"),
]  # fmt: skip
QUERY = {
    "query_id": "ana-q1", "text": "Where?", "category": "fact", "evidence": ["t1", "t9", "t1"], "answer": None,
    "asked_at": "2026-03-10T09:00:00Z",
}  # fmt: skip


@pytest.fixture
def dataset(write):
    """A data set of two users, one of whom nobody asks about."""
    write("set/dataset.json", "{}")
    write("set/queries/ana.jsonl", [QUERY])
    write("set/conversations/bo.jsonl", [{key: TURNS[0].to_dict()[key] for key in ("turn_id", "session_id", "parts")}])
    return write("set/conversations/ana.jsonl", [turn.to_dict() for turn in TURNS]).parents[1]


def test_what_was_written_is_read(write):
    """A file of stored turns gives the same turns; only a missing source is filled in."""
    path = write("turns.jsonl", [turn.to_dict() for turn in TURNS])
    log = read_log(path)
    first, second = log
    assert log.format == "native"
    assert first.source == f"native:{path}#1"
    assert [first.to_dict() | {"source": None}, second.to_dict()] == [turn.to_dict() for turn in TURNS]


def test_a_data_set(dataset):
    """Users come in order of their names, with their queries; labels that name no turn are counted."""
    ana, bo = native.read_conversations(dataset)
    assert (ana.name, bo.name) == ("ana", "bo")
    assert [turn.turn_id for turn in ana.turns] == ["t1", "t2"]
    (question,) = ana.questions
    assert (question.evidence, question.unreadable_evidence, question.answer) == (("t1",), 1, "")
    assert question.asked_at == datetime(2026, 3, 10, 9, tzinfo=UTC)
    assert bo.questions == ()
    assert (bo.turns[0].user_id, bo.turns[0].time_estimated) == ("bo", True)


def test_a_data_set_is_a_log_too(dataset):
    """Replaying a data set reads its conversations and not its queries."""
    log = read_log(dataset)
    assert [(turn.user_id, turn.turn_id) for turn in log] == [("ana", "t1"), ("ana", "t2"), ("bo", "t1")]
    assert (log.used, log.problems) == (3, [])


def test_turns_without_a_user_are_the_readers(write):
    """Outside a data set, a turn that names nobody is the caller's."""
    data = TURNS[0].to_dict()
    del data["user_id"]
    (turn,) = read_log(write("a.jsonl", [data]), user_id="zoe")
    assert turn.user_id == "zoe"


@pytest.mark.parametrize(
    "line",
    [
        "{torn",
        "5",
        "{}",
        json.dumps(TURNS[0].to_dict()),
        json.dumps(TURNS[1].to_dict() | {"parts": [{"role": "wizard", "text": "x"}]}),
        json.dumps(TURNS[1].to_dict() | {"parts": [{"role": "user", "text": None}]}),
        json.dumps(TURNS[1].to_dict() | {"created_at": "soon"}),
        json.dumps(TURNS[1].to_dict() | {"turn_id": ""}),
    ],
)
def test_a_bad_line_is_a_problem_of_a_log_and_an_error_of_a_data_set(dataset, line):
    """Reading a log goes on; scoring a set that is not whole would give false numbers."""
    path = dataset / "conversations" / "ana.jsonl"
    path.write_text(json.dumps(TURNS[0].to_dict()) + "\n" + line + "\n")
    log = read_log(path)
    assert [turn.turn_id for turn in log] == ["t1"]
    assert [problem.line for problem in log.problems] == [2]
    with pytest.raises(LogFormatError, match=r"ana\.jsonl, line 2"):
        list(native.read_conversations(dataset))


@pytest.mark.parametrize("damage", [[QUERY | {"evidence": 5}], [{"query_id": "x"}], ["text"], "{torn"])
def test_a_bad_query_is_an_error(dataset, write, damage):
    """A query that cannot be read is named with file and line."""
    write("set/queries/ana.jsonl", damage)
    with pytest.raises(LogFormatError, match=r"ana\.jsonl, line 1"):
        list(native.read_conversations(dataset))


def test_wrong_use(dataset):
    """A folder that is no data set, and a unit for turns that exist already, are refused with the reason."""
    with pytest.raises(LogFormatError, match="no folder conversations"):
        list(native.read_conversations(dataset / "queries"))
    with pytest.raises(InputError, match="holds turns already"):
        read_log(dataset, unit="utterance")
