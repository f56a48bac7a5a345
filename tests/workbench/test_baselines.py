"""The workbench's own rankings."""

from datetime import UTC, datetime

import pytest

from neuralstream.analysis import analyse
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Gem, Source, Turn
from neuralstream.workbench.baselines import OkapiRanking

TEXTS = ["Redis runs on port 6381", "Redis ran on 6379 before", "The oven is hot", "Ovens and kilns", "the the the"]
LATE = datetime(2030, 1, 1, tzinfo=UTC)


class _Store:
    """What the rankings ask of a store: the points that a condition lets through."""

    def __init__(self, turns, gems=()):
        self.points = {TURNS: turns, GEMS: gems}

    def scroll(self, collection, where):
        for item in self.points[collection]:
            kind = "turn" if collection == TURNS else "gem"
            text = item.text if kind == "turn" else item.content
            covered = kind == "turn" and item.turn_id == "t0"
            assert (where.user_id, where.kind) == ("default", kind)
            if where.covered in {None, covered}:
                yield _Record({"kind": kind, "data": item.to_dict(), "terms_dated": " ".join(analyse(text))})


class _Record:
    def __init__(self, payload):
        self.payload = payload


def _turn(n, text):
    return Turn.utterance("Ada", text, session_id="s", turn_id=f"t{n}", created_at=f"2026-01-0{n + 1}T00:00:00Z")


@pytest.fixture
def turns():
    """Five short turns, a day apart."""
    return [_turn(n, text) for n, text in enumerate(TEXTS)]


def test_okapi_scores_are_rank_bm25s(turns):
    """Scores are rank_bm25's own over our tokens; turns without a term of the query are no hits."""
    from rank_bm25 import BM25Okapi

    expected = BM25Okapi([analyse(text) for text in TEXTS]).get_scores(analyse("redis port"))
    hits = OkapiRanking("okapi", _Store(turns), "default", "turns").search("redis port", k=5, as_of=LATE)
    assert {hit.id: hit.score for hit in hits} == {"t0": expected[0], "t1": expected[1]}
    assert hits[0].signals == {"okapi": expected[0]}


def test_whitespace_does_not_fold(turns):
    """Split at spaces, case and inflection matter."""
    ranking = OkapiRanking("whitespace-bm25", _Store(turns), "default", "turns")
    assert ranking.search("redis", k=5, as_of=LATE) == []
    assert [hit.id for hit in ranking.search("Redis port", k=1, as_of=LATE)] == ["t0"]


def test_later_turns_are_not_found(turns):
    """Nothing created after `as_of` is returned."""
    ranking = OkapiRanking("okapi", _Store(turns), "default", "turns")
    assert [hit.id for hit in ranking.search("redis", k=5, as_of=turns[0].at())] == ["t0"]


def test_lanes(turns):
    """`all` ranks gems together with the turns that no gem covers."""
    gem = Gem("g", "Redis listens on 6381", Source("s", "2026-01-01", "0-0"), ("t0",), turns[0].at())
    store = _Store(turns, [gem])
    found = {
        lane: {hit.id for hit in OkapiRanking("okapi", store, "default", lane).search("redis", k=9, as_of=LATE)}
        for lane in ("turns", "gems", "all")
    }
    # One gem is a corpus of one document: every score is negative there, and still it is the hit.
    assert found == {"turns": {"t0", "t1"}, "gems": {"g"}, "all": {"g", "t1"}}


@pytest.mark.parametrize("texts", [[], ["..."]])
def test_nothing_to_rank(texts):
    """An empty memory, or one without words, answers with nothing."""
    store = _Store([_turn(n, text) for n, text in enumerate(texts)])
    assert OkapiRanking("okapi", store, "default", "turns").search("redis", k=5, as_of=LATE) == []
