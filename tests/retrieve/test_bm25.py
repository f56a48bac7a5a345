from __future__ import annotations

import random

import pytest

from neuralstream.analysis import analyse
from neuralstream.retrieve.bm25 import corpus, score
from neuralstream.retrieve.documents import turn_heading_terms, turn_terms
from neuralstream.store.schema import TERMS_DATED

WORDS = ["redis", "port", "qdrant", "lease", "kettle", "harbour", "violin", "meadow", "quartz", "lantern"]


def dated(turn) -> list[str]:
    """The tokens that mode bm25 ranks."""
    return turn_heading_terms(turn) + turn_terms(turn)


@pytest.fixture
def talk():
    """Forty texts of few words, so that scores differ and repeat."""
    chance = random.Random(7)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(40)]


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (2.0, 0.0)])
def test_scores_equal_bm25s_lucene(memory_with, talk, k1, b):
    """Mode bm25 gives bm25s's `lucene` scores times (k1 + 1), hit for hit."""
    import bm25s

    memory = memory_with(bm25_k1=k1, bm25_b=b)
    turns = memory.say(*talk)
    reference = bm25s.BM25(method="lucene", k1=k1, b=b)
    reference.index([dated(turn) for turn in turns], show_progress=False)
    for text in ("redis port", "meadow", "ada lantern quartz kettle", "8 may 2026", "redis redis unknownword"):
        expected = reference.get_scores(list(dict.fromkeys(t for t in analyse(text) if t in reference.vocab_dict)))
        wanted = {turn.turn_id: value * (k1 + 1) for turn, value in zip(turns, expected, strict=True) if value > 0}
        found = {hit.id: hit.score for hit in memory.search(text, mode="bm25", k=100)}
        assert found == pytest.approx(wanted, rel=1e-4)


def test_frequencies_are_read_back_from_the_engine(memory, talk):
    """Corpus statistics of stored turns are exact: documents, documents per term; and the formula is the engine's."""
    turns = memory.say(*talk)
    documents = [dated(turn) for turn in turns]
    terms = [*analyse("redis meadow ada"), "unknown"]
    known = corpus(memory.store, memory.user_id, terms, TERMS_DATED, [])
    assert known.size == len(turns)
    assert known.frequency == {term: sum(term in document for document in documents) for term in terms}
    assert known.mean_length == pytest.approx(sum(map(len, documents)) / len(documents))
    hits = memory.search("redis meadow ada", mode="bm25", k=100)
    by_id = {turn.turn_id: document for turn, document in zip(turns, documents, strict=True)}
    for hit in hits:
        assert score(terms, by_id[hit.id], known, k1=memory.ranking.bm25_k1, b=memory.ranking.bm25_b) == pytest.approx(
            hit.score, rel=1e-4
        )


def test_an_empty_corpus_scores_nothing():
    """No documents, no length, no terms: 0 and no division by zero."""
    from neuralstream.retrieve.bm25 import Corpus

    assert score(["a"], [], Corpus(0, {"a": 0}, 0.0), k1=0.9, b=0.4) == 0
    assert score([], ["a"], Corpus(1, {}, 1.0), k1=0.9, b=0.4) == 0
    assert score(["a"], ["a"], Corpus(1, {"a": 1}, 0.0), k1=0.9, b=0.4) > 0
