from __future__ import annotations

import numpy as np
import pytest

from neuralstream.retrieve.features import Candidate
from neuralstream.retrieve.hybrid import fuse
from neuralstream.store.base import Ranked


class Table:
    """A source whose scores are written down."""

    def __init__(self, **signals) -> None:
        self.signals = signals
        self.asked: set[str] = set()

    def top(self, signal, limit):
        """Scores above 0, best first."""
        ranked = sorted(self.signals.get(signal, {}).items(), key=lambda pair: (-pair[1], pair[0]))
        return [Ranked(*pair) for pair in ranked if pair[1] > 0][:limit]

    def candidates(self, ids):
        """All of them."""
        return [Candidate(one, {}) for one in ids]

    def scores(self, signal, candidates):
        """Scores, 0 where none is written."""
        self.asked.add(signal)
        return {one.id: self.signals.get(signal, {}).get(one.id, 0.0) for one in candidates}


def ranking(found) -> list[str]:
    """The ids in order."""
    return [hit.candidate.id for hit in found]


def test_scores_are_weighted_sums_of_z_scores():
    """Each signal is standardised over the candidates, weighted and summed; raw scores stay visible."""
    table = Table(
        bm25={"a": 4.0, "b": 1.0, "c": 1.0}, dense={"a": 0.1, "b": 0.7, "c": 0.1}, recency={"a": 0, "b": 0.5, "c": 1}
    )
    found = fuse([table], {"bm25": 2.0, "dense": 1.0, "recency": 0.5}, 10)
    columns = np.array([[4, 1, 1], [0.1, 0.7, 0.1], [0, 0.5, 1]])
    standardised = (columns - columns.mean(1, keepdims=True)) / columns.std(1, keepdims=True)
    expected = dict(zip("abc", np.array([2, 1, 0.5]) @ standardised, strict=True))
    assert {hit.candidate.id: hit.score for hit in found} == pytest.approx(expected)
    assert ranking(found) == sorted("abc", key=lambda one: -expected[one])
    assert dict(found[0].signals) == {"bm25": 4.0, "dense": 0.1, "recency": 0}


def test_a_signal_without_weight_is_neither_asked_nor_finds_anything():
    """Weight 0 means the signal costs nothing and adds no candidate."""
    table = Table(bm25={"a": 1.0}, graph={"z": 9.0}, dense={"b": 0.5})
    assert sorted(ranking(fuse([table], {"bm25": 1.0, "dense": 1.0, "graph": 0.0}, 10))) == ["a", "b"]
    assert table.asked == {"bm25", "dense"}


def test_context_ranks_what_evidence_found():
    """Recency and the session's BM25 order candidates and add none."""
    table = Table(bm25={"a": 1.0, "b": 1.0}, recency={"a": 0.1, "b": 0.9, "c": 1.0}, bm25_session={"c": 5.0})
    assert ranking(fuse([table], {"bm25": 1.0, "recency": 1.0, "bm25_session": 1.0}, 10)) == ["b", "a"]


def test_sources_stand_under_one_ranking_and_points_count_once():
    """Signals are standardised over all sources together; a point that two give is the first one's."""
    first = Table(bm25={"a": 1.0, "b": 3.0})
    second = Table(bm25={"b": 9.0, "c": 2.0})
    found = fuse([first, second], {"bm25": 1.0}, 10)
    assert ranking(found) == ["b", "c", "a"]
    assert found[0].source is first
    assert found[0].signals == {"bm25": 3.0}


def test_signals_that_do_not_differ_decide_nothing():
    """Equal scores standardise to 0, without a division by zero; ties are ordered by id; nothing found is []."""
    assert ranking(fuse([Table(bm25={"b": 1.0, "a": 1.0})], {"bm25": 1.0}, 10)) == ["a", "b"]
    assert fuse([Table(bm25={"a": 1.0})], {"bm25": 1.0}, 10)[0].score == 0.0
    assert fuse([Table()], {"bm25": 1.0}, 10) == []
    assert fuse([], {"bm25": 1.0}, 10) == []


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
