from datetime import UTC, datetime

import pytest

from neuralstream.capture.buffer import open_buffer
from neuralstream.capture.records import SessionKey
from neuralstream.types import Turn

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSION = SessionKey("ada", "s1")


@pytest.fixture
def buffer(settings):
    """An empty buffer."""
    opened = open_buffer(settings, sole_owner=True)
    yield opened
    opened.close()


def fill(buffer, count):
    """Capture turns of the one session."""
    for _ in range(count):
        turn = Turn.exchange("a", "b", session_id="s1", user_id="ada")
        buffer.append(turn, NOW)


def test_what_made_a_batch_due_stays_on_record_once_it_is_distilled(buffer):
    """Each batch is known by its last turn, also when nothing of it is left in the buffer."""
    fill(buffer, 7)
    buffer.end(SESSION, "compaction")
    while batch := buffer.lease():
        buffer.done(batch)
    assert buffer.planned(SESSION) == [(4, "batch"), (6, "compaction")]


def test_a_forgotten_session_leaves_no_record_of_its_batches(buffer):
    """A session of the same name starts anew."""
    fill(buffer, 5)
    buffer.forget_session(SESSION)
    assert buffer.planned(SESSION) == []
