from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.extract.base import Batch
from neuralstream.llm import Answer
from neuralstream.tokens import count_tokens
from neuralstream.types import Turn

START = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.fixture
def batch_of():
    """A batch made of turns, numbered and timed as the buffer would; `history` turns come first."""

    def make(*turns: Turn, history=0, session_id="s1"):
        placed = tuple(
            Turn(
                parts=turn.parts,
                session_id=session_id,
                turn_id=f"t{place}",
                user_id="mel",
                index=place,
                created_at=START + timedelta(minutes=place),
            )
            for place, turn in enumerate(turns)
        )
        return Batch("b1", placed[history:], placed[:history])

    return make


@pytest.fixture
def say():
    """One utterance of one person."""
    return lambda speaker, text: Turn.utterance(speaker, text, session_id="s1")


@pytest.fixture
def exchange():
    """A user's message and the reply to it."""
    return lambda user, assistant: Turn.exchange(user, assistant, session_id="s1")


class ScriptedModel:
    """A language model that answers as told, in order, and keeps what it was asked.

    An answer is a text; a text and why it ended; an error to raise; or a function of the request that gives one of
    these. The last one answers every further request.
    """

    name = "scripted"

    def __init__(self, *answers, context_tokens=8192):
        self.context_tokens = context_tokens
        self.requests = []
        self.closed = False
        self._answers = list(answers)

    def answer(self, request):
        self.requests.append(request)
        told = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        told = told(request) if callable(told) else told
        if isinstance(told, Exception):
            raise told
        text, finish = told if isinstance(told, tuple) else (told, "stop")
        return Answer(text, finish, prompt_tokens=request.tokens, answer_tokens=count_tokens(text), seconds=0.5)

    def close(self):
        self.closed = True


@pytest.fixture
def scripted():
    """A model that answers as told."""
    return ScriptedModel
