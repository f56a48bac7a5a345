"""LoCoMo: sessions in order, captions, and evidence as it is labelled, malformed ids included."""

import json

import pytest

from neuralstream.errors import LogFormatError
from neuralstream.logs import locomo, read_log


def _said(speaker, key, text, **more):
    return {"speaker": speaker, "dia_id": key, "text": text} | more


SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_10_date_time": "9:05 am on 2 June, 2023",
        "session_10": [_said("Bo", "D10:1", "Later")],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            _said("Ana", "D2:1", "Look", img_url=["http://x"], blip_caption="a red boat", query="boat photo"),
            _said("Bo", "D2:2", "Nice"),
            _said("Ana", "D2:3", "", blip_caption="a dog"),
        ],
        "session_11_date_time": "1:56 pm on 8 July, 2023",
    },
    "qa": [
        {"question": "What?", "answer": 2023, "evidence": ["D2:1; D10:1", "D:2:02"], "category": 1},
        {"question": "Who?", "adversarial_answer": "Bo", "evidence": ["D", "D7:1", "D2:3", "D2:3"], "category": 5},
        {"question": "When?", "answer": "May", "evidence": [], "category": 9},
    ],
}


@pytest.fixture
def path(write):
    """A file with one sample."""
    return write("locomo.json", json.dumps([SAMPLE], indent=1))


def test_utterances_in_order_of_sessions(path):
    """Sessions are sorted by number; a caption is part of what was said, search words and addresses are not."""
    turns = list(read_log(path))
    assert [(turn.turn_id, turn.session_id, turn.text) for turn in turns] == [
        ("D2:1", "session_2", "Look [image: a red boat]"),
        ("D2:2", "session_2", "Nice"),
        ("D2:3", "session_2", "[image: a dog]"),
        ("D10:1", "session_10", "Later"),
    ]
    assert {turn.user_id for turn in turns} == {"conv-1"}
    assert [(part.role, part.speaker) for part in turns[0].parts] == [("person", "Ana")]


def test_a_session_has_one_time(path):
    """The first utterance has the session's time; the others follow in equal steps, marked."""
    times = [(turn.created_at.isoformat(), turn.time_estimated) for turn in read_log(path)]
    assert times == [
        ("2023-05-08T13:56:00+00:00", False),
        ("2023-05-08T13:56:30+00:00", True),
        ("2023-05-08T13:57:00+00:00", True),
        ("2023-06-02T09:05:00+00:00", False),
    ]


def test_questions_and_their_evidence(path):
    """Several ids in one label and malformed ids are read; labels that name no turn are counted."""
    (conversation,) = locomo.read_conversations(path)
    assert conversation.name == "conv-1"
    shown = [(q.query_id, q.category, q.evidence, q.unreadable_evidence, q.answer) for q in conversation.questions]
    assert shown == [
        ("conv-1-q001", "multi-hop", ("D2:1", "D10:1", "D2:2"), 0, "2023"),
        ("conv-1-q002", "adversarial", ("D2:3",), 2, ""),
        ("conv-1-q003", "9", (), 0, "May"),
    ]


def test_labelled_data_is_read_whole_or_not_at_all(write):
    """A damaged utterance is a problem of a log, and an error of a data set."""
    broken = json.loads(json.dumps(SAMPLE))
    broken["conversation"]["session_2"][1].pop("dia_id")
    path = write("broken.json", [broken])
    log = read_log(path)
    assert len(list(log)) == 3
    assert len(log.problems) == 1
    with pytest.raises(LogFormatError, match="utterance 2"):
        list(locomo.read_conversations(path))


def test_the_development_file(benchmark_data):
    """Of the 999 questions in the five development conversations, two have no evidence; two labels name no turn."""
    conversations = list(locomo.read_conversations(benchmark_data / "locomo" / "locomo_dev5.json"))
    assert [conversation.name for conversation in conversations] == [
        "conv-26",
        "conv-30",
        "conv-41",
        "conv-42",
        "conv-43",
    ]
    assert sum(len(conversation.turns) for conversation in conversations) == 2760
    questions = [question for conversation in conversations for question in conversation.questions]
    assert len(questions) == len({question.query_id for question in questions}) == 999
    assert sum(not question.evidence for question in questions) == 2
    assert sum(question.unreadable_evidence for question in questions) == 2
    for conversation in conversations:
        times = [turn.created_at for turn in conversation.turns]
        assert times == sorted(times)
