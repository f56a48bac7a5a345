"""Capturing logs whole: counts, ended sessions, and refused turns that hold up no other."""

import pytest

from neuralstream import NeuralStream, Turn
from neuralstream.importing import import_turns, keep
from neuralstream.testing import FakeEmbedder


@pytest.fixture
def memory(settings):
    """An embedded memory that works inside each call."""
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        yield opened


def _turn(turn_id, session_id="s"):
    return Turn.exchange(f"Move redis to port {turn_id}", "Done.", session_id=session_id, turn_id=turn_id)


def test_a_log_is_captured_and_its_sessions_end(memory):
    """Nothing waits for a trigger afterwards; importing again adds nothing."""
    turns = [_turn(str(place), f"s{place % 2}") for place in range(70)]
    seen = []
    assert import_turns(memory, turns, seen.append) == (70, 0, 2, {})
    assert seen == [64, 70]
    assert memory.status().undistilled == 0
    assert import_turns(memory, turns)[:2] == (0, 70)


def test_a_turn_of_another_session_is_refused_alone(memory):
    """The rest is captured, and the reason names the turn."""
    memory.capture(_turn("1", "other"))
    kept = keep(memory, [_turn("0"), _turn("1"), _turn("2")])
    assert list(kept.refused) == ["1"]
    assert "'1'" in kept.refused["1"]
    assert [turn.turn_id for turn in memory.thread("s")] == ["0", "2"]
    assert import_turns(memory, [_turn("1"), _turn("3")])[:3] == (1, 0, 1)
