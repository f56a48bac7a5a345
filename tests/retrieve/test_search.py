from __future__ import annotations

from datetime import timedelta

import pytest

from neuralstream.errors import InputError
from neuralstream.indexing import turn_point_id
from neuralstream.ranking import SIGNALS
from neuralstream.retrieve import Query
from neuralstream.retrieve.documents import REMEMBERED
from neuralstream.retrieve.features import OF_EXCHANGES
from neuralstream.retrieve.kinds import kind_of
from neuralstream.types import Gem, Part, Source, Turn

MODES = ("substring", "bm25", "semantic", "hybrid")
TALK = (
    "The staging redis listens on port 6379",
    "My violin lessons start on Tuesday",
    "We moved production redis to port 6381",
    "The kettle in the office is broken",
    "Lunch was good today",
)


class Activation:
    """A graph that activates what it is told to."""

    def __init__(self, scores) -> None:
        self.scores = scores

    def activate(self, _user_id, _text):
        """The scores."""
        return self.scores


def point(memory, index):
    """The point id of a turn of session s."""
    return turn_point_id(memory.user_id, f"s{index}")


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_puts_the_turn_that_says_it_first(memory, mode):
    """Asked in its own words, the turn that says it is the first hit, with the score of the signal that found it."""
    memory.say(*TALK)
    hits = memory.search("violin lessons", mode=mode)
    assert hits[0].id == "s1"
    assert hits[0].item == memory.turn(1, TALK[1])
    assert hits[0].signals
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("mode", [*MODES, "graph"])
def test_an_empty_memory_and_an_empty_query_are_empty_answers(memory, mode):
    """No points, or nothing asked: no hits and no error; k larger than the corpus is fine."""
    assert memory.search("violin", mode=mode) == []
    memory.say(*TALK[:2])
    assert memory.search("", mode=mode) == []
    assert memory.search(" \n", mode=mode) == []
    assert len(memory.search("violin", mode=mode, k=500)) <= 2


def test_words_nobody_said_have_no_hits(memory):
    """Without evidence there is no hit: not the newest, not the last one."""
    memory.say(*TALK)
    for mode in ("substring", "bm25", "graph"):
        assert memory.search("xylophone quasar", mode=mode) == []


def test_no_hit_points_away_from_the_question(memory):
    """A turn whose embedding has nothing in common with the question's is no hit, however large k is."""
    memory.say(*[f"word{number}" for number in range(40)])
    hits = memory.search("xylophone", mode="semantic", k=100)
    assert 0 < len(hits) < 40
    assert all(hit.score > 0 for hit in hits)


def test_stop_words_fall_back_to_the_meaning(memory):
    """A query of stop words has no BM25 hits; hybrid still answers through embeddings."""
    memory.say("who are you and what do you do here", *TALK)
    assert memory.search("what do you do", mode="bm25") == []
    assert memory.search("what do you do", mode="hybrid")


def test_substring_scores_by_share_of_the_text(memory):
    """Case and white space do not matter; the shorter text is the better hit."""
    memory.say("Long ago the  Violin\nlessons were on Monday", "violin lessons", "violins")
    hits = memory.search("VIOLIN lessons", mode="substring")
    assert [hit.id for hit in hits] == ["s1", "s0"]
    assert hits[0].score == 1.0


def test_ties_are_ordered_by_id(memory):
    """Equal scores come in the order of their points' ids, at any k."""
    memory.say(*["same words"] * 6, session_id="t")
    everything = memory.ids("same words", mode="substring", k=6)
    assert memory.ids("same words", mode="substring", k=3) == everything[:3]
    assert memory.ids("same words", mode="bm25", k=6, session_id="t") == memory.ids("same words", mode="bm25", k=6)


@pytest.mark.parametrize("mode", MODES)
def test_another_user_is_never_found_and_changes_no_score(memory, mode):
    """Neither hits nor scores depend on other users, not even on one whose name contains this one's."""
    memory.say(*TALK)
    before = memory.search("redis port", mode=mode)
    memory.say(*TALK, "redis redis redis port", user_id=memory.user_id + "1")
    after = memory.search("redis port", mode=mode)
    assert [(hit.id, hit.item.user_id) for hit in after] == [(hit.id, memory.user_id) for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], abs=1e-6)


@pytest.mark.parametrize("mode", [*MODES, "graph"])
def test_filters_hold_in_every_mode(memory, mode):
    """Time range, session, excluded turns and the query's moment limit what is found, in every mode."""
    memory.say(*TALK)
    memory.say("redis port talk elsewhere", session_id="t")
    memory.graph = Activation({point(memory, index): 1.0 + index for index in range(len(TALK))})
    day = memory.turn(0, "x").created_at
    text = "redis" if mode == "substring" else "redis port"
    found = set(memory.ids(text, mode=mode, k=20, session_id="s"))
    assert {"s0", "s2"} <= found <= {f"s{index}" for index in range(5)}
    assert "s0" not in memory.ids(text, mode=mode, since=day + timedelta(hours=1), k=20)
    assert "s2" not in memory.ids(text, mode=mode, until=day + timedelta(days=1), k=20)
    assert "s2" not in memory.ids(text, mode=mode, as_of=day + timedelta(days=1), k=20)
    assert "s2" not in memory.ids(text, mode=mode, exclude_turns=("s2",), k=20)
    assert memory.ids(text, mode=mode, until=day - timedelta(days=1)) == []


@pytest.mark.parametrize("mode", MODES)
def test_lanes_give_turns_gems_or_gems_with_uncovered_turns(memory, mode):
    """A turn that an active gem cites is left out of lane "all" and stays in lane "turns"."""
    memory.say(*TALK)
    gem = memory.distil("Production redis listens on port 6381", 2)
    text = "redis" if mode == "substring" else "redis port"
    assert gem.gem_id in memory.ids(text, mode=mode, lane="gems", k=20)
    assert all(isinstance(hit.item, Gem) for hit in memory.search(text, mode=mode, lane="gems", k=20))
    turns = memory.search(text, mode=mode, lane="turns", k=20)
    assert {"s0", "s2"} <= {hit.id for hit in turns}
    assert all(isinstance(hit.item, Turn) for hit in turns)
    everything = memory.ids(text, mode=mode, lane="all", k=20)
    assert {"s0", gem.gem_id} <= set(everything)
    assert "s2" not in everything


def test_a_turn_is_uncovered_before_its_gem_was_made(memory):
    """Asked about a moment before the gem existed, lane "all" gives the turn itself."""
    memory.say(*TALK)
    gem = memory.distil("Production redis listens on port 6381", 2, day=4)
    before, after = gem.created_at - timedelta(hours=1), gem.created_at
    assert memory.ids("production redis", lane="all", mode="bm25", as_of=before)[0] == "s2"
    assert set(memory.ids("production redis", lane="all", mode="bm25", as_of=after)) == {"s0", gem.gem_id}


def test_gems_count_as_they_stood_at_the_moment(memory):
    """A superseded gem is found only before it ended, a gem that is not valid yet not at all."""
    memory.say(*TALK)
    end = memory.turn(3, "x").created_at
    old = memory.distil("redis port was 6380", 1, status="superseded", valid_until=end)
    coming = memory.distil("redis port will be 7000", 2, valid_from=memory.now + timedelta(days=1))
    gone = memory.distil("redis port was 1", 0, status="superseded")
    for mode in MODES:
        text = "redis port" if mode != "substring" else "redis port w"
        assert memory.ids(text, mode=mode, lane="gems") == []
        assert memory.ids(text, mode=mode, lane="gems", as_of=end - timedelta(hours=1)) == [old.gem_id]
    later = memory.ids("redis port", lane="gems", as_of=memory.now + timedelta(days=2))
    assert later == [coming.gem_id]
    assert gone.gem_id not in later


def test_many_superseded_gems_do_not_hide_the_active_one(memory):
    """However many superseded gems rank higher, the active one is found."""
    memory.say(*TALK)
    for number in range(60):
        memory.distil(f"redis redis redis {number}", 0, status="superseded")
    active = memory.distil("a long sentence that mentions redis once among many other words", 0)
    assert memory.ids("redis", mode="bm25", lane="gems", k=1) == [active.gem_id]
    assert memory.ids("redis", mode="semantic", lane="gems", k=1) == [active.gem_id]


def test_tags_find_gems_only(memory):
    """With tags, gems of any of them are found and no turn."""
    memory.say(*TALK)
    decision = memory.distil("redis decision", 2, tags=("decision",))
    memory.distil("redis todo", 3, tags=("todo",))
    assert memory.ids("redis", tags=("decision",), lane="all") == [decision.gem_id]
    assert len(memory.ids("redis", tags=("decision", "todo"))) == 2
    assert memory.ids("redis", tags=("decision",), lane="turns") == []


def test_graph_mode_ranks_by_activation(memory):
    """The graph's activation orders hits; points outside the lane or filter are passed over."""
    memory.say(*TALK)
    gem = memory.distil("redis", 2)
    memory.graph = Activation({point(memory, 0): 0.2, point(memory, 3): 0.9, gem.gem_id: 0.5, point(memory, 2): 0.8})
    assert memory.ids("kettle", mode="graph", lane="turns") == ["s3", "s2", "s0"]
    assert memory.ids("kettle", mode="graph", lane="all") == ["s3", gem.gem_id, "s0"]
    assert memory.search("kettle", mode="graph", lane="turns", k=1)[0].signals == {"graph": 0.9}


def test_explain_adds_every_signal_and_changes_no_ranking(memory):
    """With explain, each hit carries every feature that applies to it; order and scores stay."""
    memory.say(*TALK)
    memory.distil("Production redis listens on port 6381", 2)
    plain, explained = memory.search("redis port"), memory.search("redis port", explain=True)
    assert [(hit.id, hit.score) for hit in plain] == [(hit.id, hit.score) for hit in explained]
    for hit in explained:
        assert {*SIGNALS} - {"tag", "bm25_before", "dense_before", *OF_EXCHANGES} <= set(hit.signals)
        assert ("importance:gem" in hit.signals) == isinstance(hit.item, Gem)
        assert {"question:person", "length:person"} <= set(hit.signals), "a gem's role is that of its turn"
    assert all(set(hit.signals) <= set(memory.ranking.weights) for hit in plain)
    for before, after in zip(plain, explained, strict=True):
        assert before.signals == {name: after.signals[name] for name in before.signals}
    assert "substring" in memory.search("kettle", mode="substring", explain=True)[0].signals


def test_approximate_and_exact_search_agree_here(memory, memory_with):
    """Below and above `exact_below`, the same turn comes first."""
    approximate = memory_with(exact_below=0)
    for one in (memory, approximate):
        one.say(*TALK)
    assert approximate.ids("violin lessons", mode="semantic")[0] == memory.ids("violin lessons", mode="semantic")[0]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"mode": "fuzzy"}, "use one of substring"),
        ({"lane": "both"}, "use one of turns"),
        ({"k": 0}, "at least 1"),
        ({"tags": ("x",)}, "tag"),
    ],
)
def test_questions_that_make_no_sense_are_refused(memory, field, message):
    """An unknown mode, lane or tag and a k below 1 are refused, with what is allowed."""
    with pytest.raises(InputError, match=message):
        Query("text", memory.user_id, memory.now, **field)


def test_the_turn_before_counts_also_where_the_question_may_not_find_it(memory_with):
    """Leaving a turn out of the hits changes nothing of what it tells about the turn after it."""
    memory = memory_with(weights={"bm25": 1.0, "bm25_before": 1.0, "dense_before": 1.0})
    memory.say("where does redis listen?", "on port 6381", "fine")
    whole = {hit.id: hit.signals for hit in memory.search("redis port", explain=True)}
    limited = {hit.id: hit.signals for hit in memory.search("redis port", explain=True, exclude_turns=("s0",))}
    assert "s0" not in limited
    assert limited["s1"]["dense_before"] == pytest.approx(whole["s1"]["dense_before"]) != 0
    assert limited["s1"]["bm25_before"] == pytest.approx(whole["s1"]["bm25_before"]) != 0


def test_superseded_versions_do_not_crowd_out_the_one_that_counts(memory):
    """However many versions of a gem were superseded, hybrid finds the valid one."""
    memory.say(*(f"the lantern of room {number}" for number in range(3)))
    old = [
        Gem(
            gem_id=Gem.make_id(memory.user_id, "s", ("s1",), f"lantern number {number}"),
            content=f"lantern number {number}",
            source=Source("s", "2026-05-01", "1-1"),
            source_turns=("s1",),
            created_at=memory.now - timedelta(days=9),
            user_id=memory.user_id,
            status="superseded",
            valid_until=memory.now - timedelta(days=1),
        )
        for number in range(230)
    ]
    memory.indexer.index_gems(old)
    valid = memory.distil("a lantern was bought", 2)
    assert memory.ids("lantern number", lane="gems") == [valid.gem_id]


def test_what_was_asked_to_be_remembered_is_no_conversation(memory):
    """Remembered statements stand alone, and do not make people talking a user with an assistant."""
    memory.say("hello there", "hi", "how was the concert?")
    said = ("the harbour lantern is lit", "my dentist is in Oslo", "the kettle is new", "pier nine", "a violin", "tea")
    turns = [
        Turn((Part("user", text),), REMEMBERED, f"r{n}", memory.user_id, n, memory.now) for n, text in enumerate(said)
    ]
    memory.indexer.index_turns(turns)
    assert kind_of(memory.store, memory.user_id, ()) == "people"
    found = memory.search("harbour lantern", explain=True, k=20)
    beside = next(hit for hit in found if hit.id == "r1")
    assert beside.signals["bm25_near"] == beside.signals["bm25_session"] == 0
    assert "dense_before" not in beside.signals


def test_signals_of_an_exchange_tell_nothing_of_other_turns(memory):
    """Where nobody replies, there is no part to score: the signal is left out rather than 0."""
    memory.say("the kettle is broken")
    hit = memory.search("kettle", explain=True)[0]
    assert {"bm25_user", "bm25_reply", "dense_user"}.isdisjoint(hit.signals)
