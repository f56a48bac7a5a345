"""What every MemoryStore promises: of the embedded engine, in memory, and of a Qdrant server where one is named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import bm25s
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuralstream.errors import StoreError
from neuralstream.store.base import Bm25, MemoryStore, Nearest, Where
from neuralstream.store.schema import GEMS, TURNS

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
WORDS = ("redis", "port", "valkey", "6381", "deploy", "friday", "nginx", "staging")

documents = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=1, max_size=12)
queries = st.lists(st.sampled_from((*WORDS, "unseen")), min_size=1, max_size=5)


def test_is_a_memory_store(store):
    """Every engine has the protocol's methods."""
    assert isinstance(store, MemoryStore)


class TestText:
    @given(documents, queries, st.tuples(st.floats(0, 3), st.floats(0, 1)))
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_is_lucene_bm25_times_k1_plus_1(self, store, make, documents, query, parameters):
        """Scores equal those of bm25s' Lucene variant times (k1 + 1), for any corpus, k1 and b."""
        user, (k1, b) = uuid4().hex, parameters
        points = [make(user, n, terms=" ".join(words)) for n, words in enumerate(documents)]
        store.upsert(TURNS, points)
        found = _scores(store, user, query, k1=k1, b=b)
        assert found == pytest.approx(_expected(points, documents, query, k1, b), abs=1e-4)

    def test_of_nothing_is_nothing(self, store, user):
        """An empty memory, no terms, and terms nobody used give no hits."""
        assert _scores(store, user, ["redis"]) == {}
        assert _scores(store, user, []) == {}

    def test_holds_after_deletes(self, store, make, user):
        """Statistics forget deleted points at once."""
        points = [make(user, n, terms=f"redis word{n} {'port' * (n % 2)}") for n in range(20)]
        store.upsert(TURNS, points)
        store.delete(TURNS, Where(user, ids=tuple(point.id for point in points[:18])))
        kept = [point.payload["terms"].split() for point in points[18:]]
        assert _scores(store, user, ["redis", "port"]) == pytest.approx(
            _expected(points[18:], kept, ["redis", "port"], 0.9, 0.4), abs=1e-4
        )

    def test_another_users_writes_change_no_score(self, store, make, user):
        """IDF and average length range over the user's own points."""
        store.upsert(TURNS, [make(user, n, terms=f"redis {'port ' * n}") for n in range(5)])
        before = _scores(store, user, ["redis", "port"])
        store.upsert(TURNS, [make(user + "1", n, terms="redis " * 50 + "nginx") for n in range(30)])
        after = _scores(store, user, ["redis", "port"])
        assert len(before) == 5
        assert after == pytest.approx(before, abs=1e-6)

    def test_other_kinds_change_no_score(self, store, make, user):
        """A session's points and a turn's, in one collection, count separately."""
        store.upsert(TURNS, [make(user, n, terms=f"redis {'port ' * n}") for n in range(5)])
        before = _scores(store, user, ["redis", "port"])
        stretch = make(user, "stretch", kind="session", vectors=(), terms="redis port " * 90)
        store.upsert(TURNS, [stretch])
        assert _scores(store, user, ["redis", "port"]) == pytest.approx(before, abs=1e-6)
        assert list(_scores(store, user, ["redis"], kind="session")) == [stretch.id]

    def test_points_without_the_field_do_not_count(self, store, make, user):
        """N and the average length range over points that have terms; an empty field is no field."""
        points = [make(user, n, terms="redis port") for n in range(3)]
        store.upsert(TURNS, [*points, make(user, "none"), make(user, "empty", terms="")])
        assert _scores(store, user, ["redis"]) == pytest.approx(
            _expected(points, [["redis", "port"]] * 3, ["redis"], 0.9, 0.4), abs=1e-4
        )

    def test_narrower_filters_change_no_statistics(self, store, make, user):
        """A hit scores the same under any filter that lets it through."""
        points = [
            make(user, n, terms=f"redis {'port ' * n}", session_id=f"s{n % 2}", index=n, created_at=_at(n))
            for n in range(10)
        ]
        store.upsert(TURNS, points)
        everything = _scores(store, user, ["redis", "port"])
        ids = [point.id for point in points]
        for narrow, kept in (
            ({"session_ids": ("s1",)}, ids[1::2]),
            ({"since": START + timedelta(minutes=6)}, ids[6:]),
            ({"ids": tuple(ids[:4])}, ids[:4]),
            ({"not_ids": tuple(ids[:4])}, ids[4:]),
        ):
            found = _scores(store, user, ["redis", "port"], **narrow)
            assert found == pytest.approx({point_id: everything[point_id] for point_id in kept}, abs=1e-6)

    def test_fields_are_separate(self, store, make, user):
        """A query reads the field it names."""
        point = make(user, 0, terms="redis", terms_dated="may", terms_near="port")
        store.upsert(TURNS, [point])
        assert _found_ids(store.text(TURNS, ["may"], "terms_dated", _turns(user), 5, k1=1, b=1)) == [point.id]
        assert _found_ids(store.text(TURNS, ["may"], "terms_near", _turns(user), 5, k1=1, b=1)) == []

    @pytest.mark.parametrize("term", ["汉字", "東京", "naive", "straße", "cafe\u0301"[:4], "ไทย", "привет", "42"])
    def test_terms_of_any_script_are_found(self, store, make, user, term):
        """A token outside the Latin alphabet is found whole."""
        point = make(user, 0, terms=f"redis {term} port")
        store.upsert(TURNS, [point, make(user, 1, terms="other words")])
        assert list(_scores(store, user, [term])) == [point.id]

    def test_ties_are_cut_by_id(self, store, make, user):
        """Equal scores come by id, also where the limit falls among them."""
        points = [make(user, n, terms="redis port") for n in range(90)]
        store.upsert(TURNS, points)
        found = store.text(TURNS, ["redis"], "terms", _turns(user), 7, k1=0.9, b=0.4)
        assert _found_ids(found) == sorted(point.id for point in points)[:7]

    def test_needs_a_user_a_kind_and_a_field(self, store, user):
        """Statistics over nobody's or mixed points are refused, and so is an unknown field."""
        for where in (Where(None, kind="turn"), Where(user)):
            with pytest.raises(StoreError):
                store.text(TURNS, ["redis"], "terms", where, 5, k1=0.9, b=0.4)
        with pytest.raises(StoreError, match="terms_dated"):
            store.text(TURNS, ["redis"], "content", _turns(user), 5, k1=0.9, b=0.4)


class TestDense:
    @pytest.mark.parametrize("exact", [True, False])
    @pytest.mark.parametrize("using", ["text", "near"])
    def test_is_cosine(self, store, make, user, exact, using):
        """Similarities and their order equal numpy's."""
        points = [make(user, n) for n in range(60)]
        store.upsert(TURNS, points)
        query = np.random.default_rng(1).normal(size=8).astype(np.float32)
        found = store.dense(TURNS, query, using, _turns(user), 10, exact=exact)
        matrix = np.stack([point.vectors[using] for point in points])
        cosines = matrix @ query / np.linalg.norm(matrix, axis=1) / np.linalg.norm(query)
        order = np.argsort(-cosines)[:10]
        assert _found_ids(found) == [points[n].id for n in order]
        assert [hit.score for hit in found] == pytest.approx(cosines[order].tolist(), abs=1e-5)

    def test_of_chunks_is_the_best_chunks(self, store, make, user):
        """A point of several rows ranks by the row nearest to the query, whatever their number; others are no hit."""
        random = np.random.default_rng(2)
        rows = [random.normal(size=(count, 8)).astype(np.float32) for count in (1, 2, 7, 3)]
        points = [replace(make(user, n), vectors={"chunks": chunks}) for n, chunks in enumerate(rows)]
        store.upsert(TURNS, [*points, make(user, "short")])
        query = random.normal(size=8).astype(np.float32)
        cosines = [max(c @ query / np.linalg.norm(c, axis=1) / np.linalg.norm(query)) for c in rows]
        found = store.dense(TURNS, query, "chunks", _turns(user), 10, exact=True)
        assert dict(found) == pytest.approx({p.id: c for p, c in zip(points, cosines, strict=True)}, abs=1e-5)
        assert _found_ids(found) == [points[n].id for n in np.argsort(cosines)[::-1]]

    def test_skips_points_without_the_vector(self, store, make, user):
        """A point that lacks the named vector is no hit."""
        with_near = make(user, 0, vectors=("near",))
        store.upsert(TURNS, [with_near, make(user, 1, vectors=("text",)), make(user, 2, vectors=())])
        found = store.dense(TURNS, with_near.vectors["near"], "near", _turns(user), 9, exact=True)
        assert _found_ids(found) == [with_near.id]

    def test_ties_are_cut_by_id(self, store, make, user):
        """Equal vectors come by id, also where the limit falls among them."""
        points = [replace(make(user, n), vectors={"text": np.eye(8, dtype=np.float32)[0]}) for n in range(60)]
        store.upsert(TURNS, points)
        found = store.dense(TURNS, points[0].vectors["text"], "text", _turns(user), 7, exact=True)
        assert _found_ids(found) == sorted(point.id for point in points)[:7]

    def test_limits_are_gentle(self, store, make, user):
        """More than there is gives all; nothing gives nothing."""
        points = [make(user, n) for n in range(3)]
        store.upsert(TURNS, points)
        query = points[0].vectors["text"]
        assert len(store.dense(TURNS, query, "text", _turns(user), 1000, exact=True)) == 3
        assert store.dense(TURNS, query, "text", _turns(user), 0, exact=True) == []

    def test_refuses_what_cannot_be_compared(self, store, user):
        """A query of another length, with NaN, or for an unknown vector is refused."""
        for query, using in (
            (np.ones(7), "text"),
            (np.full(8, np.nan), "text"),
            (np.ones(8), "images"),
            (np.ones((1, 8)), "chunks"),
        ):
            with pytest.raises(StoreError):
                store.dense(TURNS, query.astype(np.float32), using, _turns(user), 5, exact=True)


class TestRankMany:
    def test_each_ranking_is_as_alone(self, store, make, user):
        """Rankings of several fields, users, kinds and limits, asked at once, come in their order, ties by id."""
        points = [make(user, n, terms=f"redis {'port ' * (n % 3)}", terms_near="redis", index=n) for n in range(40)]
        store.upsert(TURNS, [*points, make(user, "stretch", kind="session", vectors=(), terms="redis port")])
        store.upsert(TURNS, [make(user + "1", n, terms="redis") for n in range(3)])
        vector, ids = points[3].vectors["text"], tuple(point.id for point in points[5:9])
        rankings = [
            Bm25(["redis"], "terms_near", _turns(user), 7, 0.9, 0.4),
            Nearest(vector, "text", _turns(user), 5, exact=True),
            Nearest(vector, "near", _turns(user), 0, exact=True),
            Bm25(["redis", "port"], "terms", Where(user, kind="session"), 5, 0.9, 0.4),
            Nearest(vector, "text", Where(user + "1", kind="turn"), 50, exact=False),
            Bm25(["redis", "port"], "terms", Where(user, kind="turn", ids=ids), 9, 1.2, 0.75),
        ]
        found = store.rank_many(TURNS, rankings)
        assert [len(hits) for hits in found] == [7, 5, 0, 1, 3, 4]
        assert _found_ids(found[0]) == sorted(point.id for point in points)[:7]
        for ranking, hits in zip(rankings, found, strict=True):
            (alone,) = store.rank_many(TURNS, [ranking])
            assert _found_ids(hits) == _found_ids(alone)
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-6)
        assert store.rank_many(TURNS, []) == []

    def test_a_loose_ranking_leaves_out_none_but_equals_of_the_last(self, store, make, user):
        """Where many points have the last score, a loose ranking gives as many as asked for, the better ones all."""
        equals = [make(user, n, terms="redis port") for n in range(90)]
        better = [make(user, f"better{n}", terms="redis redis") for n in range(3)]
        store.upsert(TURNS, [*equals, *better])
        strict = Bm25(["redis"], "terms", _turns(user), 5, 0.9, 0.0)
        exact, loose = store.rank_many(TURNS, [strict, replace(strict, loose=True)])
        assert [hit.score for hit in loose] == pytest.approx([hit.score for hit in exact], abs=1e-6)
        assert {point.id for point in better} < set(_found_ids(loose)) <= {point.id for point in [*equals, *better]}

    def test_one_that_cannot_be_made_refuses_all(self, store, user):
        """A ranking without a user, or of an unknown field, is refused whatever stands beside it."""
        good = Bm25(["redis"], "terms", _turns(user), 5, 0.9, 0.4)
        for bad in (replace(good, where=Where(None, kind="turn")), replace(good, field="content")):
            with pytest.raises(StoreError):
                store.rank_many(TURNS, [good, bad])


class TestNewest:
    def test_orders_before_the_limit(self, store, make, user):
        """The newest come first whatever their ids, read at any precision of time."""
        points = [make(user, n, created_at=_at(n), index=n) for n in range(40)]
        late = make(user, "late", created_at="2026-05-01T12:39:00.000001Z", index=0)
        store.upsert(TURNS, [*points, late])
        newest = store.newest(TURNS, _turns(user), 3)
        assert [record.id for record in newest] == [late.id, points[39].id, points[38].id]
        assert newest[0].payload == late.payload

    def test_ties_are_cut_by_index_then_id(self, store, make, user):
        """Of one moment, the highest index comes first, also where the limit falls among them."""
        points = [make(user, n, created_at=_at(0), index=n // 2) for n in range(90)]
        store.upsert(TURNS, points)
        expected_order = sorted(points, key=lambda point: (-point.payload["index"], point.id))
        assert [r.id for r in store.newest(TURNS, _turns(user), 5)] == [point.id for point in expected_order[:5]]

    def test_keeps_to_the_filter(self, store, make, user):
        """Session, time and kind apply before the limit."""
        store.upsert(TURNS, [make(user, n, created_at=_at(n), session_id=f"s{n % 2}", index=n) for n in range(10)])
        store.upsert(TURNS, [make(user, "stretch", kind="session", vectors=(), created_at=_at(99))])
        where = Where(user, kind="turn", session_ids=("s0",), until=START + timedelta(minutes=6))
        assert [record.payload["index"] for record in store.newest(TURNS, where, 2)] == [6, 4]


class TestWhere:
    @pytest.fixture
    def points(self, store, make, user):
        points = [
            make(user, n, kind="gem", session_id=f"s{n % 3}", index=n, created_at=_at(n), tags=tags, status=status)
            for n, (tags, status) in enumerate(
                [(["fact"], "active"), (["fact", "code"], "active"), (["todo"], "superseded"), (["code"], "active")] * 3
            )
        ]
        store.upsert(GEMS, points)
        store.upsert(GEMS, [make(user + "1", n, kind="gem", session_id="s0") for n in range(4)])
        return points

    @pytest.mark.parametrize(
        ("narrow", "kept"),
        [
            ({}, range(12)),
            ({"kind": "gem"}, range(12)),
            ({"kind": "turn"}, []),
            ({"session_ids": ("s0", "s2")}, [0, 2, 3, 5, 6, 8, 9, 11]),
            ({"not_session_ids": ("s0", "s2")}, [1, 4, 7, 10]),
            ({"since": START + timedelta(minutes=4), "until": START + timedelta(minutes=6)}, [4, 5, 6]),
            ({"tags": ("code", "todo")}, [1, 2, 3, 5, 6, 7, 9, 10, 11]),
            ({"status": "superseded"}, [2, 6, 10]),
            ({"session_index_from": 3, "session_index_to": 5}, [3, 4, 5]),
            ({"session_index_from": 10}, [10, 11]),
            ({"ids": ()}, []),
            ({"session_ids": ("s1",), "tags": ("code",), "status": "active"}, [1, 7]),
        ],
    )
    def test_conditions_are_joined_by_and(self, store, user, points, narrow, kept):
        """Counting and scrolling let through just what the conditions name, never another user's."""
        where = Where(user, **narrow)
        assert store.count(GEMS, where) == len(kept)
        assert {record.id for record in store.scroll(GEMS, where)} == {points[n].id for n in kept}

    def test_ids(self, store, user, points):
        """Ids name points; an id that is no UUID names none."""
        ids = (points[3].id, "not-a-uuid", points[1].id.upper())
        assert {record.id for record in store.scroll(GEMS, Where(user, ids=ids))} == {points[1].id, points[3].id}
        assert store.count(GEMS, Where(user, not_ids=ids)) == 10
        assert store.count(GEMS, Where(user, ids=("not-a-uuid",))) == 0

    def test_no_read_leaves_the_user(self, store, make, user):
        """A user whose name begins like another's sees nothing of the other, in any call."""
        mine, theirs = (
            make(name, 0, terms="redis", created_at=_at(0), index=0, session_id="s") for name in (user, user + "1")
        )
        store.upsert(TURNS, [mine, theirs])
        where = _turns(user)
        vector = theirs.vectors["text"]
        assert _found_ids(store.dense(TURNS, vector, "text", where, 10, exact=True)) == [mine.id]
        assert _found_ids(store.dense(TURNS, vector, "text", where, 10, exact=False)) == [mine.id]
        assert list(_scores(store, user, ["redis"])) == [mine.id]
        assert [record.id for record in store.newest(TURNS, where, 10)] == [mine.id]
        assert [record.id for record in store.scroll(TURNS, where)] == [mine.id]
        assert store.count(TURNS, replace(where, ids=(theirs.id,))) == 0
        assert store.delete(TURNS, where) == 1
        assert store.count(TURNS, _turns(user + "1")) == 1

    def test_a_ranking_needs_a_user(self, store):
        """Ranking over everybody's memory is refused."""
        with pytest.raises(StoreError, match="user"):
            store.dense(TURNS, np.ones(8, np.float32), "text", Where(None), 5, exact=True)
        with pytest.raises(StoreError, match="user"):
            store.newest(TURNS, Where(None), 5)

    def test_maintenance_reaches_every_user(self, store, make, user):
        """Without a user, scrolling and counting reach all."""
        store.upsert(TURNS, [make(user, 0, session_id=user), make(user + "1", 0, session_id=user)])
        where = Where(None, session_ids=(user,))
        assert store.count(TURNS, where) == 2
        assert {record.payload["user_id"] for record in store.scroll(TURNS, where)} == {user, user + "1"}


class TestWriting:
    def test_a_point_comes_back_whole(self, store, make, user):
        """Payload and vectors (up to their length) are read as they were written, text of any kind included."""
        payload = {"data": {"text": "日本 🎉 naïve \0 \u202eright to left", "list": [1, 2.5, None, True], "empty": {}}}
        point = make(user, 0, vectors=("text",), **payload)
        store.upsert(TURNS, [point])
        [record] = store.retrieve(TURNS, [point.id], with_vectors=True)
        assert record.payload == point.payload
        assert list(record.vectors) == ["text"]
        unit = point.vectors["text"] / np.linalg.norm(point.vectors["text"])
        assert record.vectors["text"] == pytest.approx(unit, abs=1e-6)
        assert store.retrieve(TURNS, [point.id])[0].vectors == {}

    def test_chunks_come_back_in_order(self, store, make, user):
        """A vector of several rows is read as (n, dim), each row up to its length; a point may have it alone."""
        point = make(user, 0, vectors=("chunks",))
        store.upsert(TURNS, [point])
        [record] = store.retrieve(TURNS, [point.id], with_vectors=True)
        assert list(record.vectors) == ["chunks"]
        rows = point.vectors["chunks"]
        assert record.vectors["chunks"] == pytest.approx(rows / np.linalg.norm(rows, axis=1, keepdims=True), abs=1e-6)

    def test_the_same_id_replaces(self, store, make, user):
        """Writing a known id replaces payload, terms and vectors."""
        store.upsert(TURNS, [make(user, 0, terms="redis", old=1)])
        point = make(user, 0, vectors=("near",), terms="valkey")
        store.upsert(TURNS, [point])
        [record] = store.scroll(TURNS, _turns(user), with_vectors=True)
        assert record.payload == point.payload
        assert list(record.vectors) == ["near"]
        assert _scores(store, user, ["redis"]) == {}

    def test_retrieve_keeps_the_order_of_ids(self, store, make, user):
        """Points come in the order asked for; unknown ids are left out."""
        points = [make(user, n) for n in range(5)]
        store.upsert(TURNS, points)
        asked = [points[3].id, str(uuid4()), "not-a-uuid", points[0].id]
        assert [record.id for record in store.retrieve(TURNS, asked)] == [points[3].id, points[0].id]

    def test_set_payload_leaves_the_rest(self, store, make, user):
        """Keys that are set change, their indexes with them; others stay, and unknown ids are no error."""
        points = [make(user, n, kind="gem", status="active", terms="redis") for n in range(2)]
        store.upsert(GEMS, points)
        store.set_payload(GEMS, [points[0].id, str(uuid4())], {"status": "superseded", "data": {"by": "x"}})
        [record] = store.scroll(GEMS, Where(user, status="superseded"), with_vectors=True)
        assert record.payload == {**points[0].payload, "status": "superseded", "data": {"by": "x"}}
        assert set(record.vectors) == {"text", "near"}
        assert store.count(GEMS, Where(user)) == 2

    def test_scroll_gives_every_point_once(self, store, make, user):
        """More points than a page holds are all there, once."""
        points = [make(user, n, vectors=()) for n in range(700)]
        store.upsert(TURNS, points)
        assert sorted(record.id for record in store.scroll(TURNS, _turns(user))) == sorted(p.id for p in points)

    def test_delete_counts_and_removes(self, store, make, user):
        """What a filter names is gone from every read, and counted once."""
        points = [make(user, n, terms="redis", session_id=f"s{n % 2}", created_at=_at(n), index=n) for n in range(10)]
        store.upsert(TURNS, points)
        where = Where(user, session_ids=("s1",))
        assert store.delete(TURNS, where) == 5
        assert store.delete(TURNS, where) == 0
        kept = {point.id for point in points[::2]}
        assert set(_scores(store, user, ["redis"])) == kept
        assert {record.id for record in store.newest(TURNS, _turns(user), 20)} == kept
        assert set(_found_ids(store.dense(TURNS, np.ones(8, np.float32), "text", _turns(user), 20, exact=True))) == kept

    def test_delete_without_a_condition_is_refused(self, store):
        """A forgotten filter does not empty the store."""
        with pytest.raises(StoreError, match="condition"):
            store.delete(TURNS, Where(None))

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_bad_vector_stores_nothing(self, store, make, user, value):
        """NaN and infinity are refused, and so are the good points of the same call."""
        bad = make(user, "bad")
        bad.vectors["near"][3] = value
        with pytest.raises(StoreError, match=bad.id):
            store.upsert(TURNS, [make(user, "good"), bad])
        assert store.count(TURNS, Where(user)) == 0

    def test_a_malformed_point_stores_nothing(self, store, make, user):
        """A wrong length, an unknown vector, a bad id, a missing user and an unknown collection are refused."""
        good = make(user, "good")
        for bad in (
            replace(good, vectors={"text": np.ones(9, np.float32)}),
            replace(good, vectors={"images": np.ones(8, np.float32)}),
            replace(good, vectors={"chunks": np.ones(8, np.float32)}),
            replace(good, vectors={"chunks": np.ones((2, 9), np.float32)}),
            replace(good, vectors={"chunks": np.ones((0, 8), np.float32)}),
            replace(good, vectors={"text": np.ones((1, 8), np.float32)}),
            replace(good, id="not-a-uuid"),
            replace(good, id=good.id.upper()),
            replace(good, payload={"kind": "turn"}),
            replace(good, payload={"user_id": user}),
        ):
            with pytest.raises(StoreError):
                store.upsert(TURNS, [good, bad])
        with pytest.raises(StoreError, match="memories"):
            store.upsert("memories", [good])
        assert store.count(TURNS, Where(user)) == 0

    def test_nothing_is_a_fine_write(self, store):
        """Empty lists are no error."""
        store.upsert(TURNS, [])
        store.set_payload(TURNS, [], {"status": "active"})
        assert store.retrieve(TURNS, []) == []


def _turns(user):
    return Where(user, kind="turn")


def _at(minute):
    return (START + timedelta(minutes=minute)).isoformat().replace("+00:00", "Z")


def _found_ids(ranked):
    return [hit.id for hit in ranked]


def _scores(store, user, terms, *, k1=0.9, b=0.4, kind="turn", **narrow):
    return dict(store.text(TURNS, terms, "terms", Where(user, kind=kind, **narrow), 1000, k1=k1, b=b))


def _expected(points, documents, query, k1, b):
    """Scores above 0 by bm25s, by point id."""
    reference = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    reference.index(documents, show_progress=False)
    known = [word for word in dict.fromkeys(query) if any(word in words for words in documents)]
    if not known:
        return {}
    found = reference.get_scores(known) * (k1 + 1)
    return {point.id: score for point, score in zip(points, found, strict=True) if score > 0}
