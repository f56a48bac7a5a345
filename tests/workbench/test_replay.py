from datetime import UTC, datetime

from neuralstream import NeuralStream, Turn, Usage
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor
from neuralstream.workbench.replay import replay


def log(count, session="s1"):
    """Exchanges of about ten tokens each, a minute apart."""
    return [
        Turn.exchange(
            f"What about port {7000 + n}?",
            "It is free, take it.",
            session_id=session,
            turn_id=f"{session}-{n}",
            created_at=datetime(2026, 1, 1, 0, n, tzinfo=UTC),
        )
        for n in range(count)
    ]


def run(settings, turns, usage=None, **changes):
    """Replay turns, returning what was told and the trigger and size of each batch."""
    extractor = ScriptedExtractor()
    changed = settings.model_copy(update=changes)
    with NeuralStream(changed, clock=FakeClock("2026-06-01"), embedder=FakeEmbedder(), extractor=extractor) as memory:
        done = replay(memory, turns, usage or {})
    return done, [(batch.trigger, len(batch.turns)) for batch in extractor.batches]


def test_forty_exchanges_make_eight_batches_and_a_second_replay_adds_nothing(settings):
    """Batches of five, each once, whatever was replayed before."""
    done, batches = run(settings, log(40))
    assert done == (40, 0, 1)
    assert batches == [("batch", 5)] * 8
    assert run(settings, log(40)) == ((0, 40, 1), [])


def test_every_session_ends_with_its_tail(settings):
    """Seven turns of two interleaved sessions make a batch and a tail each."""
    turns = [turn for pair in zip(log(7, "a"), log(7, "b"), strict=True) for turn in pair]
    done, batches = run(settings, turns)
    assert done == (14, 0, 2)
    assert sorted(batches) == [("batch", 5), ("batch", 5), ("end", 2), ("end", 2)]


def test_a_simulated_host_fills_its_context_and_compacts(settings):
    """With a context window, what was said fires the context trigger and the compaction."""
    _, batches = run(settings, log(12), context_window=512, batch_size=100, compact_at=15.0, compact_to=0.0)
    assert ("compaction", 6) in batches
    _, batches = run(
        settings.model_copy(update={"home": settings.home / "b"}), log(12), context_window=200, batch_size=100
    )
    assert batches[0][0] == "context"


def test_what_the_log_says_of_its_context_counts(settings):
    """Logged tokens replace the estimate."""
    usage = {"s1-2": Usage(tokens=300)}
    _, batches = run(settings, log(4), usage, context_window=512, batch_size=100)
    assert batches == [("context", 3), ("end", 1)]
