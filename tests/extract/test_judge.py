import json
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.errors import MissingPartError
from neuralstream.extract.judge import Judge
from neuralstream.llm import Answer
from neuralstream.types import Gem, Source

START = datetime(2026, 3, 1, tzinfo=UTC)


class Scripted:
    """A model that gives these answers, one after another, and keeps what it was asked."""

    name, context_tokens = "scripted", 8192

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def answer(self, request):
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer, "stop", 1, 1, 0.0)


def gem(content, day=0):
    """A gem of a day."""
    return Gem(content, content, Source("s1", "2026-03-01", "0-0"), ("t",), START + timedelta(days=day))


PAIRS = [(gem(f"new {number}", 1), gem(f"old {number}")) for number in range(12)]


def test_many_pairs_are_judged_at_once():
    """Ten pairs are one call; the verdict of each is the one of its number."""
    first = {"verdicts": [{"pair": 1, "verdict": "same"}, {"pair": 10, "verdict": "updates"}]}
    model = Scripted(json.dumps(first), json.dumps({"verdicts": [{"pair": 2, "verdict": "different"}]}))
    assert Judge(model)(PAIRS) == {
        ("new 0", "old 0"): "same",
        ("new 9", "old 9"): "updates",
        ("new 11", "old 11"): "different",
    }
    assert "older (2026-03-01): old 0\nnewer (2026-03-02): new 0" in model.asked[0].prompt
    assert len(model.asked) == 2
    assert model.asked[0].schema


@pytest.mark.parametrize(
    "answer",
    [
        "I think they are the same.",
        "[]",
        '{"verdicts": [{"pair": 1}]}',
        '{"verdicts": [{"pair": 99, "verdict": "same"}, {"pair": 1, "verdict": "perhaps"}]}',
        MissingPartError("the server is down"),
    ],
)
def test_what_was_not_judged_has_no_verdict(answer):
    """A bad answer or a model that is down decides nothing and stops nothing."""
    assert Judge(Scripted(answer))(PAIRS[:1]) == {}


def test_nothing_to_judge_asks_nothing():
    """Without pairs there is no call."""
    assert Judge(Scripted())([]) == {}
