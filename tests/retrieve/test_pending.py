from __future__ import annotations

from datetime import timedelta

import pytest

from neuralstream.ranking import SIGNALS
from neuralstream.retrieve.features import OF_EXCHANGES
from neuralstream.retrieve.pending import EMBEDDED

STORED = ("redis runs on port 6379", "the kettle is broken", "lunch was good", "violin on Tuesday")


@pytest.mark.parametrize("mode", ["substring", "bm25", "semantic", "graph", "hybrid"])
@pytest.mark.parametrize("stored", [STORED, ()])
def test_a_turn_captured_a_moment_ago_is_found(memory, mode, stored):
    """A turn that is not indexed yet is the first hit for its own words, whether or not anything is stored."""
    memory.say(*stored)
    pending = tuple(
        memory.turn(len(stored) + at, text)
        for at, text in enumerate(["the harbour lantern is lit", "yes", "redis too"])
    )
    hits = memory.search("harbour lantern", mode=mode, pending=pending)
    assert hits[0].item == pending[0]
    assert memory.ids("harbour lantern", mode=mode, lane="gems", pending=pending) == []


@pytest.mark.parametrize("mode", ["bm25", "semantic", "hybrid"])
def test_pending_turns_score_as_they_will_when_stored(memory, mode):
    """The best hits, and nearly their scores, are those after indexing."""
    texts = (*STORED, "redis moved to port 6381", "a new kettle arrived", "redis port again: 6381 it is")
    memory.say(*texts[:4])
    pending = tuple(memory.turn(at, texts[at]) for at in range(4, 7))
    before = memory.search("redis port 6381", mode=mode, pending=pending, k=2)
    memory.indexer.index_turns(pending)
    after = memory.search("redis port 6381", mode=mode, k=2)
    assert {hit.id for hit in before} == {hit.id for hit in after}
    if mode != "hybrid":
        for early, late in zip(before, after, strict=True):
            if early.item in pending:
                assert early.score == pytest.approx(late.score, rel=0.03)


def test_a_turn_that_was_indexed_meanwhile_is_given_once(memory):
    """A turn that is both stored and still listed as pending is one hit."""
    turns = memory.say(*STORED)
    for mode in ("substring", "bm25", "semantic", "hybrid"):
        ids = memory.ids("redis", mode=mode, pending=tuple(turns), k=10)
        assert len(ids) == len(set(ids))
        assert "s0" in ids


def test_filters_hold_for_pending_turns(memory):
    """Another user's, session's or time's pending turns, and excluded ones, are not found."""
    memory.say(*STORED)
    pending = (memory.turn(9, "harbour lantern"), memory.turn(9, "harbour lantern", user_id="stranger"))
    for mode in ("substring", "bm25", "semantic", "hybrid"):
        found = [hit.item for hit in memory.search("harbour lantern", mode=mode, pending=pending, k=20)]
        assert pending[0] in found
        assert pending[1] not in found
        for limit in (
            {"session_id": "t"},
            {"since": pending[0].at() + timedelta(hours=1)},
            {"until": pending[0].at() - timedelta(hours=1)},
            {"as_of": pending[0].at() - timedelta(hours=1)},
            {"exclude_turns": ("s9",)},
            {"tags": ("fact",)},
        ):
            assert "s9" not in memory.ids("harbour lantern", mode=mode, pending=pending, k=20, **limit)


def test_only_the_newest_are_embedded_the_others_found_by_words(memory):
    """Beyond EMBEDDED pending turns, older ones cost no embedding and are still found by their words."""
    pending = tuple(memory.turn(at, f"meadow lantern {at}") for at in range(EMBEDDED + 5))
    asked = []
    embed = memory.embedder.embed_chunks
    memory.embedder.embed_chunks = lambda texts: (asked.extend(texts), embed(texts))[1]
    assert "s0" in memory.ids("meadow", mode="hybrid", pending=pending, k=100)
    assert len(asked) == EMBEDDED
    assert min(asked, key=lambda text: int(text.split()[-1])) == "Ada: meadow lantern 5"


def test_pending_turns_can_be_explained(memory):
    """Every signal that applies has a value for a pending turn."""
    memory.say(*STORED)
    pending = (memory.turn(4, "harbour lantern"), memory.turn(5, " "))
    hit = memory.search("harbour", pending=pending, explain=True)[0]
    assert hit.item == pending[0]
    assert {*SIGNALS} - set(hit.signals) == {"tag", *OF_EXCHANGES}
    assert hit.signals["length:person"] > 0
    assert hit.signals["recency"] > 0
    assert hit.signals["bm25_session"] > 0
