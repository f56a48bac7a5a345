from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from neuralstream.ranking import RankingSettings
from neuralstream.retrieve import Query
from neuralstream.retrieve.features import Candidate, Question
from neuralstream.retrieve.hybrid import fuse, tabulate, trusted
from neuralstream.store.base import Ranked
from neuralstream.testing import FakeEmbedder

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Source:
    """A source whose scores are written down; a candidate speaks as its id's first letter says."""

    def __init__(self, payloads=None, **signals) -> None:
        self.signals = signals
        self.payloads = payloads or {}
        self.measured: list[str] = []

    def top(self, signals, limit):
        """Scores above 0, best first."""
        return {signal: self._ranked(signal)[:limit] for signal in signals}

    def candidates(self, ids):
        """All of them."""
        return [Candidate(one, {"kind": "turn", "session_id": "s"} | self.payloads.get(one, {})) for one in ids]

    def scores(self, signals, candidates):
        """Scores, 0 where none is written."""
        self.measured += signals
        columns = [[self.signals.get(name, {}).get(one.id, 0.0) for name in signals] for one in candidates]
        return np.array(columns, float).reshape(len(candidates), len(signals))

    def _ranked(self, signal):
        ranked = sorted(self.signals.get(signal, {}).items(), key=lambda pair: (-pair[1], pair[0]))
        return [Ranked(*pair) for pair in ranked if pair[1] > 0]


def tabulated(sources, names, limit=10, shortlist=10):
    """The table of a question to these sources."""
    question = Question(Query("which port?", "u", NOW), FakeEmbedder(), None, RankingSettings())
    return tabulate(sources, names, question, kind="people", limit=limit, shortlist=shortlist)


def fused(sources, weights, limit=10):
    """The ranking by these weights."""
    return fuse(tabulated(sources, list(weights), limit), weights, 10)


def ranking(found) -> list[str]:
    """The ids in order."""
    return [hit.candidate.id for hit in found]


def test_scores_are_weighted_sums_of_z_scores():
    """Each feature is standardised over the candidates, weighted and summed; raw scores stay visible."""
    source = Source(
        bm25={"a": 4.0, "b": 1.0, "c": 1.0},
        dense={"a": 0.1, "b": 0.7, "c": 0.1},
        bm25_session={"a": 0, "b": 0.5, "c": 1},
    )
    found = fused([source], {"bm25": 2.0, "dense": 1.0, "bm25_session": 0.5})
    columns = np.array([[4, 1, 1], [0.1, 0.7, 0.1], [0, 0.5, 1]])
    standardised = (columns - columns.mean(1, keepdims=True)) / columns.std(1, keepdims=True)
    expected = dict(zip("abc", np.array([2, 1, 0.5]) @ standardised, strict=True))
    assert {hit.candidate.id: hit.score for hit in found} == pytest.approx(expected)
    assert ranking(found) == sorted("abc", key=lambda one: -expected[one])
    assert dict(found[0].signals) == {"bm25": 4.0, "dense": 0.1, "bm25_session": 0}


def test_a_feature_without_weight_is_not_measured():
    """Weight 0 means that the feature costs nothing, and the graph adds no candidate."""
    source = Source(bm25={"a": 1.0}, graph={"z": 9.0}, dense={"b": 0.5}, coverage={"a": 1.0})
    weights = {"bm25": 1.0, "graph": 0.0}
    assert sorted(ranking(fuse(tabulated([source], ["bm25"]), weights, 10))) == ["a", "b"]
    assert source.measured == ["bm25"]
    assert sorted(ranking(fused([source], {"bm25": 1.0, "graph": 1.0}))) == ["a", "b", "z"]


def test_context_ranks_what_evidence_found():
    """The session's BM25 orders candidates and adds none."""
    source = Source(bm25={"a": 1.0, "b": 1.0}, bm25_session={"a": 0.1, "b": 0.9, "c": 5.0})
    assert ranking(fused([source], {"bm25": 1.0, "bm25_session": 1.0})) == ["b", "a"]


def test_a_prior_counts_only_among_those_whose_role_it_is_about():
    """A person's question is set against other persons' turns; what an assistant says is neither raised nor lowered."""
    turns = {
        "a": {"role": "person", "question": 1.0},
        "b": {"role": "person", "question": 0.0},
        "c": {"role": "assistant", "question": 1.0},
    }
    table = tabulated([Source(turns, bm25=dict.fromkeys("abc", 1.0))], ["bm25", "question:person"])
    assert dict(zip(table.ids, table.values[:, 1], strict=True)) == {"a": 1.0, "b": -1.0, "c": 0.0}
    assert ranking(fuse(table, {"bm25": 1.0, "question:person": -0.5}, 10)) == ["b", "c", "a"]
    assert "question:person" not in fuse(table, {"bm25": 1.0}, 10)[2].signals


def test_only_the_most_promising_of_what_was_found_are_measured():
    """The shortlist keeps what most finders rank high; what one did not find counts as its last."""
    source = Source(
        bm25={"a": 5.0, "b": 4.0, "c": 1.0}, bm25_near={"b": 3.0, "c": 1.0}, dense={"b": 0.9, "c": 0.8, "a": 0.1}
    )
    assert sorted(tabulated([source], ["bm25", "coverage"], shortlist=2).ids) == ["b", "c"]
    assert sorted(tabulated([source], ["bm25", "coverage"], shortlist=3).ids) == ["a", "b", "c"]
    pending = Source(bm25={"b": 1.0, "z": 9.0}, bm25_near={"z": 9.0}, dense={"z": 0.9})
    table = tabulated([source, pending], ["bm25"], shortlist=2)
    assert dict(zip(table.ids, table.sources, strict=True)) == {"b": source, "z": pending}


def test_a_session_is_as_good_as_its_best_candidate():
    """`dense_session` lifts what shares a session with the best match."""
    sessions = {"a": {"session_id": "x"}, "b": {"session_id": "x"}, "c": {"session_id": "y"}}
    source = Source(sessions, dense={"a": 0.9, "b": 0.1, "c": 0.5})
    table = tabulated([source], ["dense_session"])
    assert dict(zip(table.ids, table.raw[:, 0], strict=True)) == {"a": 0.9, "b": 0.9, "c": 0.5}


def test_what_cosines_lose_of_a_question_the_model_cannot_read_goes_to_words():
    """Standardised noise is scaled by the share of the question that was read; BM25 has the rest of its weight."""
    turns = {"a": {"role": "person", "length": 1}, "b": {"role": "person", "length": 99}}
    source = Source(turns, bm25={"a": 2.0, "b": 1.0}, dense={"b": 0.9, "a": 0.1})
    table = tabulated([source], ["bm25", "dense", "length:person"])
    weights = {"dense": 2.0, "length:person": 0.5}
    assert ranking(fuse(table, weights, 10)) == ["b", "a"]
    assert [hit.score for hit in fuse(table, trusted(weights, 0.0), 10)] == pytest.approx([1.5, -1.5])
    assert ranking(fuse(table, trusted(weights, 0.0), 10)) == ["a", "b"]


def test_sources_stand_under_one_ranking_and_points_count_once():
    """Features are standardised over all sources together; a point that two give is the first one's."""
    first = Source(bm25={"a": 1.0, "b": 3.0})
    second = Source(bm25={"b": 9.0, "c": 2.0})
    found = fused([first, second], {"bm25": 1.0})
    assert ranking(found) == ["b", "c", "a"]
    assert found[0].source is first
    assert found[0].signals == {"bm25": 3.0}


def test_signals_that_do_not_differ_decide_nothing():
    """Equal scores standardise to 0, without a division by zero; ties are ordered by id; nothing found is []."""
    alike = dict.fromkeys("cba", 0.1 + 0.2)
    assert ranking(fused([Source(bm25=alike)], {"bm25": 1.0})) == ["a", "b", "c"]
    assert {hit.score for hit in fused([Source(bm25=alike)], {"bm25": 1.0})} == {0.0}
    assert fused([Source()], {"bm25": 1.0}) == []
    assert fused([], {"bm25": 1.0}) == []


def test_missing_scores_are_filled_in_beyond_the_limit(memory_with):
    """A candidate that one signal found has its true scores in the others, although it is not among their first."""
    memory = memory_with(candidates=10)
    memory.say(
        *[f"lantern {number} " + "lantern " * (number % 7) for number in range(40)],
        "one lantern in a sentence about redis",
    )
    hit = next(hit for hit in memory.search("lantern redis", k=50) if hit.id == "s40")
    every = {hit.id: hit.score for hit in memory.search("lantern redis", mode="bm25", k=50)}
    assert hit.signals["bm25"] == pytest.approx(every["s40"], rel=1e-5)
    for found in memory.search("lantern redis", k=50):
        assert found.signals["bm25"] == pytest.approx(every[found.id], rel=1e-5)
        assert found.signals["dense"] != 0
