from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.extract.base import Batch
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
