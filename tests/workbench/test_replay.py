from datetime import UTC, datetime, timedelta

import pytest

from neuralstream import NeuralStream, Turn, Usage
from neuralstream.errors import ExtractionError
from neuralstream.testing import FakeEmbedder, ScriptedExtractor
from neuralstream.workbench.replay import Interlude, replay
from neuralstream.workbench.timeline import Recorder
from neuralstream.workbench.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(minute, session="s1", user="default"):
    """An exchange of about ten tokens, said so many minutes after the start."""
    return Turn.exchange(
        f"What about port {7000 + minute}?",
        "It is free, take it.",
        session_id=session,
        turn_id=f"{session}-{minute}",
        user_id=user,
        created_at=START + timedelta(minutes=minute),
    )


def log(count, session="s1"):
    """Exchanges a minute apart."""
    return [said(minute, session) for minute in range(count)]


def run(settings, turns, usage=None, *, script=None, interludes=(), **changes):
    """Replay turns into a memory that lies where the settings say."""
    clock = VirtualClock()
    recorder = Recorder(ScriptedExtractor(script), clock)
    changed = settings.model_copy(update=changes)
    with NeuralStream(changed, clock=clock, embedder=FakeEmbedder(), extractor=recorder) as memory:
        given = [Interlude(START + timedelta(minutes=at), lambda call=call: call(memory)) for at, call in interludes]
        return replay(memory, turns, usage, clock=clock, recorder=recorder, interludes=given)


def batches(done):
    """The trigger and size of each batch."""
    return [(batch.cause, len(batch.turn_ids)) for batch in done.timeline.batches]


def minutes(done):
    """The trigger of each batch, and when it was due."""
    return [(batch.cause, (batch.moment.at - START).total_seconds() / 60) for batch in done.timeline.batches]


def test_forty_exchanges_make_eight_batches_and_a_second_replay_adds_nothing(settings):
    """Batches of five, each once, whatever was replayed before."""
    done = run(settings, log(40))
    assert done[:3] == (40, 0, 1)
    assert batches(done) == [("batch", 5)] * 8
    again = run(settings, log(40))
    assert again[:3] == (0, 40, 1)
    assert batches(again) == []


def test_every_session_ends_with_its_tail(settings):
    """Seven turns of two interleaved sessions make a batch and a tail each."""
    turns = [turn for pair in zip(log(7, "a"), log(7, "b"), strict=True) for turn in pair]
    done = run(settings, turns)
    assert done[:3] == (14, 0, 2)
    assert sorted(batches(done)) == [("batch", 5), ("batch", 5), ("end", 2), ("end", 2)]


def test_sessions_interleave_by_their_times_whatever_their_order_in_the_log(settings):
    """The same turns session by session, or as they were said, leave the same timeline."""
    one, other = log(7, "a"), [said(minute + 0.5, "b") for minute in range(7)]
    mixed = [turn for pair in zip(one, other, strict=True) for turn in pair]
    first = run(settings, [*other, *one])
    second = run(settings.model_copy(update={"home": settings.home / "b"}), mixed)
    assert [turn.turn_id for turn in first.timeline.turns] == [turn.turn_id for turn in mixed]
    assert first.timeline.turns == second.timeline.turns
    assert minutes(first) == minutes(second)


def test_a_full_batch_is_due_with_its_last_turn(settings):
    """Turns are captured many at a time, but a trigger's moment is that of the turn that caused it."""
    assert minutes(run(settings, log(12))) == [("batch", 4), ("batch", 9), ("end", 11)]


def test_a_silent_session_falls_idle_at_its_last_turn_plus_the_timeout(settings):
    """Whether the next turn is another session's or its own, a minute or a day later."""
    turns = [said(0), said(1), said(5, "s2"), said(1000)]
    done = run(settings, turns, idle_timeout=timedelta(minutes=15))
    assert minutes(done) == [("idle", 16), ("idle", 20), ("end", 1000)]
    assert [batch.session_id for batch in done.timeline.batches] == ["s1", "s2", "s1"]


@pytest.mark.parametrize("seconds", [0.1, 59.999999, 899.7, 86399.000001])
def test_the_idle_moment_is_exact_whatever_fraction_of_a_second_the_log_has(settings, seconds):
    """Float times that differ in their last bit neither miss the trigger nor move it."""
    at = START + timedelta(seconds=seconds)
    first = Turn.exchange("Take port 1", "Taken.", session_id="s1", turn_id="t1", created_at=at)
    done = run(settings, [first, said(100_000)], idle_timeout=timedelta(seconds=13.37))
    assert done.timeline.batches[0].moment.at == at + timedelta(seconds=13.37)


def test_a_session_is_reset_when_its_user_begins_another_and_the_log_has_no_more_of_it(settings):
    """Its turns leave the context then; another user's new session, or one that goes on, changes nothing."""
    turns = [said(0), said(1, "eve", "eve"), said(2, "s2"), said(3, "s2"), said(4, "s3"), said(5, "s2")]
    done = run(settings, turns)
    assert minutes(done) == [("reset", 2), ("end", 5), ("end", 5), ("end", 5)]
    assert [(turn.turn_id, turn.left.at) for turn in done.timeline.turns if turn.left] == [
        ("s1-0", START + timedelta(minutes=2))
    ]


def test_a_simulated_host_fills_its_context_and_compacts(settings):
    """With a context window, what was said fires the context trigger and the compaction."""
    done = run(settings, log(12), context_window=512, batch_size=100, compact_at=15.0, compact_to=0.0)
    assert ("compaction", 6) in batches(done)
    other = settings.model_copy(update={"home": settings.home / "b"})
    assert batches(run(other, log(12), context_window=200, batch_size=100))[0][0] == "context"


def test_a_compaction_keeps_the_newest_turns_that_fit(settings):
    """What was said before them leaves the window at that moment."""
    done = run(settings, log(12), context_window=512, batch_size=100, compact_at=20.0, compact_to=8.0)
    left = [turn.left.turns if turn.left else None for turn in done.timeline.turns]
    first = next(moment for moment in left if moment)
    kept = left[:first].count(None) + sum(1 for moment in left[:first] if moment != first)
    assert 0 < kept < first
    assert left[:first] == [first] * (first - kept) + left[first - kept : first]


def test_what_the_log_says_of_its_context_counts(settings):
    """Logged tokens replace the estimate; a context is never fuller than full."""
    done = run(settings, log(4), {"s1-2": Usage(tokens=300)}, context_window=512, batch_size=100)
    assert batches(done) == [("context", 3), ("end", 1)]
    other = settings.model_copy(update={"home": settings.home / "b"})
    done = run(other, log(4), {"s1-2": Usage(tokens=30_000)}, context_window=512, batch_size=100)
    assert batches(done)[0] == ("context", 3)


def test_interludes_see_what_could_be_seen_at_their_moment(settings):
    """Turns and gems of later are not there yet, and the clock shows the moment."""
    seen = []

    def look(memory):
        asked = memory.parts.clock()
        seen.append(((asked - START).total_seconds() / 60, len(memory.thread("s1")), len(memory.gems())))

    run(settings, log(12), interludes=[(4, look), (3.5, look), (60, look)])
    assert seen == [(3.5, 4, 0), (4, 5, 1), (60, 12, 3)]


def test_a_batch_that_fails_is_told_once_with_its_reason(settings):
    """Every try of it together, without gems."""

    def refuse(_batch):
        raise ExtractionError("no")

    [failed] = run(settings, log(5), script=refuse).timeline.batches
    assert (failed.failed, failed.tries, failed.gems) == ("no", 3, ())


def test_conversations_one_after_the_other_turn_the_clock_back(settings):
    """A second replay into the same memory begins with its own times."""
    clock = VirtualClock()
    recorder = Recorder(ScriptedExtractor(), clock)
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder(), extractor=recorder) as memory:
        replay(memory, [said(5000, "late", "ada")], clock=clock, recorder=recorder)
        second = replay(memory, [said(0, "early", "bo"), said(100, "early", "bo")], clock=clock, recorder=recorder)
    assert minutes(second) == [("idle", 15), ("end", 100)]
    assert {turn.user_id for turn in second.timeline.turns} == {"bo"}
