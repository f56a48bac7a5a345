"""LongMemEval: nothing in an id gives the evidence away, and labels survive the new names."""

import gzip
import json

import pytest

from neuralstream.errors import LogFormatError
from neuralstream.logs import longmemeval, read_log

RECORD = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "Which port?",
    "answer": 6381,
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_dates": ["2023/05/22 (Mon) 10:00", "2023/05/20 (Sat) 09:00", "2023/05/21 (Sun) 08:00"],
    "haystack_session_ids": ["answer_9", "noise", "noise"],
    "haystack_sessions": [
        [
            {"role": "user", "content": "It is 6381", "has_answer": True},
            {"role": "assistant", "content": "Noted", "has_answer": False},
        ],
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
        [{"role": "user", "content": ""}, {"role": "assistant", "content": "Anyone?"}],
    ],
    "answer_session_ids": ["answer_9"],
}


def test_both_roles_in_order_of_time(write):
    """Sessions are named by their place, come in order of time, and both roles are utterances."""
    turns = list(read_log(write("lme.json", [RECORD])))
    assert [(turn.turn_id, turn.parts[0].role, turn.text) for turn in turns] == [
        ("s001:0", "user", "Hi"),
        ("s001:1", "assistant", "Hello"),
        ("s002:1", "assistant", "Anyone?"),
        ("s000:0", "user", "It is 6381"),
        ("s000:1", "assistant", "Noted"),
    ]
    assert {turn.user_id for turn in turns} == {"q1"}
    assert turns[3].created_at.isoformat() == "2023-05-22T10:00:00+00:00"
    assert "answer" not in json.dumps([turn.to_dict() | {"source": None, "parts": None} for turn in turns])


def test_the_question(write):
    """Evidence is what is marked, under its new id; the question has its date."""
    (conversation,) = longmemeval.read_conversations(write("lme.json", [RECORD]))
    (question,) = conversation.questions
    assert (question.query_id, question.evidence, question.answer) == ("q1", ("s000:0",), "6381")
    assert question.category == "single-session-user"
    assert question.asked_at.isoformat() == "2023-05-30T23:40:00+00:00"


def test_the_whole_history_comes_before_the_question(write):
    """A session that the file dates after the question is part of what is asked of."""
    late = RECORD | {"haystack_dates": ["2023/06/01 (Thu) 10:00", *RECORD["haystack_dates"][1:]]}
    (conversation,) = longmemeval.read_conversations(write("lme.json", [late]))
    assert conversation.questions[0].asked_at == conversation.turns[-1].created_at


def test_an_unanswerable_question_has_no_evidence(write):
    """What such a question's history marks answers another question."""
    (conversation,) = longmemeval.read_conversations(write("lme.json", [RECORD | {"question_id": "q1_abs"}]))
    assert conversation.questions[0].evidence == ()


def test_damage(write):
    """A message without a role is a problem of the log and an error of the data set."""
    broken = RECORD | {
        "haystack_sessions": [[{"content": "x"}, {"role": [], "content": "y"}, "z"]],
        "haystack_dates": None,
    }
    path = write("lme.json", [broken])
    log = read_log(path)
    assert list(log) == []
    assert len(log.problems) == 3
    with pytest.raises(LogFormatError, match="no role"):
        list(longmemeval.read_conversations(path))


def test_exchanges_on_request(write):
    """By exchange, a user's message and the reply are one turn."""
    assert [turn.turn_id for turn in read_log(write("a.json", [RECORD]), unit="exchange")] == [
        "s001:0",
        "s002:0",
        "s000:0",
    ]


def test_the_development_file(benchmark_data, write):
    """The first records of the development file give turns for every message, and evidence for every label."""
    with gzip.open(benchmark_data / "longmemeval" / "longmemeval_s_dev.json.gz", "rt", encoding="utf-8") as file:
        records = json.load(file)[:6]
    path = write("part.json.gz", gzip.compress(json.dumps(records).encode(), 1))
    conversations = list(longmemeval.read_conversations(path))
    for record, conversation in zip(records, conversations, strict=True):
        said = [message for session in record["haystack_sessions"] for message in session]
        assert len(conversation.turns) == sum(bool(message["content"].strip()) for message in said)
        (question,) = conversation.questions
        marked = sum(bool(message.get("has_answer")) for message in said)
        assert len(question.evidence) == (0 if record["question_id"].endswith("_abs") else marked)
        assert question.unreadable_evidence == 0
