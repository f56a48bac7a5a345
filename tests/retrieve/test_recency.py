from __future__ import annotations

from datetime import timedelta

import pytest

from neuralstream.retrieve.recency import HALF_LIFE, list_gems, newest, recency, session_turns


def test_recency_halves_every_half_life(memory):
    """1 for now and for what lies ahead, a half after HALF_LIFE, a quarter after two."""
    assert recency(memory.now, memory.now) == 1.0
    assert recency(memory.now + timedelta(days=1), memory.now) == 1.0
    assert recency(memory.now - HALF_LIFE, memory.now) == pytest.approx(0.5)
    assert recency(memory.now - 2 * HALF_LIFE, memory.now) == pytest.approx(0.25)


def test_newest_orders_before_the_limit(memory):
    """The newest come first whatever their ids, pending ones included, and score by their time."""
    turns = memory.say(*[f"turn {number}" for number in range(30)])
    pending = (memory.turn(30, "just now"), turns[29])
    hits = newest(memory.store, memory.user_id, 3, pending=pending)
    assert [hit.id for hit in hits] == ["s30", "s29", "s28"]
    assert hits[0].score == pending[0].at().timestamp()
    assert newest(memory.store, memory.user_id, 0) == []
    within = {"since": turns[4].at(), "until": turns[6].at()}
    assert [hit.id for hit in newest(memory.store, memory.user_id, 9, pending=pending, **within)] == ["s6", "s5", "s4"]
    assert newest(memory.store, memory.user_id, 9, session_id="elsewhere", pending=pending) == []


def test_newest_gems_are_the_active_ones(memory):
    """Of gems, the newest active ones are listed."""
    memory.say("a", "b", "c")
    first, second = memory.distil("first", 0), memory.distil("second", 1, tags=("todo",))
    old = memory.distil("old", 2, status="superseded")
    assert [hit.id for hit in newest(memory.store, memory.user_id, 9, kind="gem")] == [second.gem_id, first.gem_id]
    assert list_gems(memory.store, memory.user_id) == [second, first]
    assert list_gems(memory.store, memory.user_id, limit=1) == [second]
    assert list_gems(memory.store, memory.user_id, tags=("todo",)) == [second]
    assert list_gems(memory.store, memory.user_id, status=None) == [old, second, first]
    assert list_gems(memory.store, memory.user_id, session_id="elsewhere") == []


def test_a_session_is_read_in_order(memory):
    """A thread is its turns by index, pending ones included, each once."""
    turns = memory.say("one", "two", "three")
    memory.say("other", session_id="t")
    pending = (memory.turn(3, "four"), turns[2], memory.turn(1, "elsewhere", session_id="t"))
    assert session_turns(memory.store, memory.user_id, "s", pending=pending) == [*turns, pending[0]]
    assert session_turns(memory.store, memory.user_id, "unknown") == []
