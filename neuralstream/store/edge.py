"""Memory in the process: Qdrant's own engine as a library, no server to install.

One process owns the folder at a time. A search looks at every point that its conditions let through: at the vectors
themselves, or, where it need not be exact, at 4 bits of each component and then at the best points' vectors. HNSW
graphs are never built: for 20,000 points that blocked every read for 80 s, and a scan of compressed vectors takes 1 ms.

What was written last is kept in a form that is quick to write and slow to open, in memory. Once it holds `_SEALED`
points, the write that crosses the line seals it into files that open at once; the process waits for it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from neuralstream.clock import parse_time
from neuralstream.embed.base import Vectors
from neuralstream.errors import MissingPartError, StoreError
from neuralstream.heap import give_back
from neuralstream.store.base import Bm25, Fingerprint, MemoryStore, Nearest, Point, Ranked, Ranking, Record, Where
from neuralstream.store.folder import Generation, StoreFolder
from neuralstream.store.schema import (
    DATETIME_FIELDS,
    GEMS,
    INTEGER_FIELDS,
    MULTIVECTORS,
    TEXT_FIELDS,
    TURNS,
    VECTORS,
)
from neuralstream.store.scope import Scope
from neuralstream.store.shared import (
    PAGE,
    AnyOf,
    Condition,
    Ids,
    Rebuild,
    Token,
    best,
    check_collection,
    check_deletion,
    check_fingerprint,
    check_points,
    check_ranking,
    check_schema,
    check_user,
    conditions,
    corpus,
    known_ids,
    latest,
    query_text,
)

try:
    import qdrant_edge as engine
except ImportError:
    raise MissingPartError(
        "the embedded store needs the package qdrant-edge-py: pip install 'neuralstream[embedded]', or set qdrant_url "
        "to a Qdrant server"
    ) from None

__all__ = ["EdgeStore", "rebuild_edge"]

_FILTERED_FIELDS = ("user_id", "kind", "session_id", "tags", "status")
"""The keyword fields a `Where` can name: an index no condition uses only makes a new store slower to make."""

_SEALED = 20_000
"""Points at which what was written is sealed: more make a longer wait, fewer more files that each query looks into."""

_COMPRESSED = engine.QuantizationSearchParams(rescore=True, oversampling=1.5)
"""Half as many points again as are asked for are looked at whole, in each file."""

Shards = dict[str, engine.EdgeShard]
T = TypeVar("T")


class EdgeStore:
    """A MemoryStore in a folder. Its methods are described there.

    Args:
        path: the folder; made if missing.
        fingerprint: what the store is filled by.
        check: refuse a store that was filled by something else. Without, it opens under what it was filled by.

    Raises:
        StoreLockedError: another process, or another store of this one, holds the folder.
        StoreMismatchError: the store was filled by something else, or by another version.
    """

    def __init__(self, path: Path, fingerprint: Fingerprint, *, check: bool = True) -> None:
        self._guard = RLock()
        self._shards: Shards = {}
        self._scopes = {
            collection: Scope(
                partial(self._has_others, collection),
                partial(self._holds, collection),
                partial(self._newest, collection),
            )
            for collection in (GEMS, TURNS)
        }
        self._folder = StoreFolder(path)
        with ExitStack() as on_error:
            on_error.callback(self.close)
            stored = self._folder.current
            if stored is None:
                stored = Generation(self._folder.fresh(), fingerprint)
                self._shards = _open(stored)
                self._folder.publish(stored, empty=True)
            else:
                check_schema(stored.schema_version, str(path), check=check)
                if check:
                    check_fingerprint(stored.fingerprint, fingerprint, str(path))
                self._shards = _open(stored)
            self._stored = stored
            on_error.pop_all()

    @property
    def fingerprint(self) -> Fingerprint:
        """What this store is filled by."""
        return self._stored.fingerprint

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """See MemoryStore. The engine's write-ahead log holds the points when this returns."""
        check_points(points, self._stored.fingerprint.dim)
        with self._guard:
            if collection in self._scopes:
                self._scopes[collection].add(points)
            if self._run(collection, "write points", lambda shard: _write(shard, points)):
                self._reopen(collection)

    def set_payload(self, collection: str, ids: Sequence[str], payload: Mapping[str, Any]) -> None:
        """See MemoryStore."""
        existing = _filter(Where(user_id=None, ids=tuple(ids)))
        change = engine.UpdateOperation.set_payload_by_filter(existing, dict(payload))
        with self._guard:
            self._run(collection, "write points", lambda shard: shard.update(change))
            self._scopes[collection].forget(payload)

    def retrieve(
        self, collection: str, ids: Sequence[str], *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> list[Record]:
        """See MemoryStore."""
        known, payload = known_ids(ids), list(keys) or True
        found = self._run(collection, "read points", lambda shard: shard.retrieve([*known], payload, with_vectors))
        records = {str(point.id): _record(point) for point in found}
        return [records[point_id] for point_id in known if point_id in records]

    def dense(
        self, collection: str, vector: Vectors, using: str, where: Where, limit: int, *, exact: bool
    ) -> list[Ranked]:
        """See MemoryStore."""
        return self.rank_many(collection, [Nearest(vector, using, where, limit, exact)])[0]

    def text(
        self, collection: str, terms: Sequence[str], field: str, where: Where, limit: int, *, k1: float, b: float
    ) -> list[Ranked]:
        """See MemoryStore."""
        return self.rank_many(collection, [Bm25(terms, field, where, limit, k1, b)])[0]

    def rank_many(self, collection: str, rankings: Sequence[Ranking]) -> list[list[Ranked]]:
        """See MemoryStore."""
        for ranking in rankings:
            check_ranking(ranking, self._stored.fingerprint.dim)

        def fetch(wanted: Sequence[Ranking]) -> list[list[Ranked]]:
            def answer(shard: engine.EdgeShard) -> list[list[engine.ScoredPoint]]:
                scope = self._scopes[collection]
                return [shard.query(_request(one, scope)) if _can_find(one, scope) else [] for one in wanted]

            found = self._run(collection, "search", answer)
            return [[Ranked(_written(hit.id), hit.score) for hit in hits] for hits in found]

        return best(fetch, rankings)

    def newest(self, collection: str, where: Where, limit: int, *, keys: Sequence[str] = ()) -> list[Record]:
        """See MemoryStore."""
        check_user(where)
        order = engine.OrderBy("created_at", engine.Direction.Desc)

        def fetch(size: int) -> list[Record]:
            request = engine.QueryRequest(
                limit=size, query=order, filter=_filter(where), with_payload=["created_at", "index"]
            )
            return list(map(_record, self._run(collection, "read points", lambda shard: shard.query(request))))

        return self.retrieve(collection, [record.id for record in latest(fetch, limit)], keys=keys)

    def scroll(
        self, collection: str, where: Where, *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> Iterator[Record]:
        """See MemoryStore."""
        offset: engine.PointId | None = None
        while True:
            request = engine.ScrollRequest(
                offset=offset,
                limit=PAGE,
                filter=_filter(where),
                with_payload=list(keys) or True,
                with_vector=with_vectors,
            )
            page, offset = self._run(collection, "read points", _scroller(request))
            yield from map(_record, page)
            if offset is None:
                return

    def count(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        request = engine.CountRequest(filter=_filter(where), exact=True)
        return self._run(collection, "count points", lambda shard: shard.count(request))

    def delete(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        check_deletion(where)
        removal = engine.UpdateOperation.delete_points_by_filter(_filter(where))
        with self._guard:
            doomed = self.count(collection, where)
            self._run(collection, "delete points", lambda shard: shard.update(removal))
            self._scopes[collection].forget()
        return doomed

    def purge(self) -> str:
        """Copy what survives into fresh files and remove the old ones, write-ahead log included."""
        with self._guard:
            fresh = self._stored._replace(path=self._folder.fresh())
            shards = _open(fresh)
            try:
                copied = {collection: self._copy(collection, shard) for collection, shard in shards.items()}
            finally:
                _close(shards)
            self._close_shards()
            self._folder.publish(fresh)
            self._stored, self._shards = fresh, _open(fresh)
        give_back()
        return (
            f"rewrote the embedded store with its {copied[TURNS]} turn points and {copied[GEMS]} gem points; the old "
            "files and their write-ahead log are gone"
        )

    def close(self) -> None:
        """See MemoryStore."""
        with self._guard:
            self._close_shards()
            self._folder.release()

    @contextmanager
    def replacing(self, fingerprint: Fingerprint) -> Iterator[MemoryStore]:
        """An empty store that takes this one's place, closing it, when the block ends without an error."""
        try:
            with closing(EdgeStore(self._folder.next, fingerprint)) as new:
                yield new
            with self._guard:
                self._close_shards()
                self._folder.adopt_next()
        finally:
            self._folder.sweep()

    def _reopen(self, collection: str) -> None:
        """Let go of the memory that writing the sealed files took: opened anew, they hold what is looked at."""
        _close({collection: self._shards.pop(collection)})
        self._shards[collection] = _shard(self._stored, collection)

    def _close_shards(self) -> None:
        _close(self._shards)
        self._shards = {}

    def _copy(self, collection: str, target: engine.EdgeShard) -> int:
        """Write every point of a collection into another shard, a page at a time, and return how many there were."""
        copied = 0
        records = self.scroll(collection, Where(user_id=None), with_vectors=True)
        while page := list(islice(records, PAGE)):
            _write(target, page)
            copied += len(page)
        return copied

    def _has_others(self, collection: str, field: str, owner: str, value: str) -> bool:
        has = engine.HasVectorCondition(field) if field in VECTORS else engine.Filter(must_not=[_empty(field)])
        request = engine.CountRequest(filter=engine.Filter(must=[has], must_not=[_equals(owner, value)]), exact=True)
        return self._run(collection, "count points", lambda shard: shard.count(request)) > 0

    def _holds(self, collection: str, vector: str) -> bool:
        having = engine.CountRequest(filter=engine.Filter(must=[engine.HasVectorCondition(vector)]), exact=True)
        return self._run(collection, "count points", lambda shard: shard.count(having)) > 0

    def _newest(self, collection: str) -> datetime:
        undated = engine.CountRequest(filter=engine.Filter(must=[_empty("created_at")]), exact=True)
        if self._run(collection, "count points", lambda shard: shard.count(undated)):
            return datetime.max.replace(tzinfo=UTC)
        order = engine.OrderBy("created_at", engine.Direction.Desc)
        request = engine.QueryRequest(limit=1, query=order, with_payload=["created_at"])
        found = self._run(collection, "read points", lambda shard: shard.query(request))
        return parse_time(_record(found[0]).payload["created_at"]) if found else datetime.min.replace(tzinfo=UTC)

    def _run(self, collection: str, doing: str, call: Callable[[engine.EdgeShard], T]) -> T:
        check_collection(collection)
        with self._guard:
            if not self._shards:
                raise StoreError("the store is closed; open it again")
            try:
                return call(self._shards[collection])
            except Exception as error:  # the engine raises bare Exception, and TypeError for text that is not Unicode
                raise StoreError(
                    f"the embedded store could not {doing}: {str(error)[:300]}; `neuralstream doctor` looks at it"
                ) from error


@contextmanager
def rebuild_edge(path: Path, fingerprint: Fingerprint) -> Iterator[Rebuild]:
    """See `neuralstream.store.rebuilding`."""
    with closing(EdgeStore(path, fingerprint, check=False)) as old, old.replacing(fingerprint) as new:
        yield Rebuild(old, new)


def _open(generation: Generation) -> Shards:
    """The shards of a generation, made where they are missing. Making one waits for the disk, so both go at once."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip((GEMS, TURNS), pool.map(partial(_shard, generation), (GEMS, TURNS)), strict=True))


def _shard(generation: Generation, collection: str) -> engine.EdgeShard:
    path = generation.path / collection
    try:
        return engine.EdgeShard.load(str(path)) if path.exists() else _create(path, generation.fingerprint.dim)
    except Exception as error:  # the engine raises bare Exception
        raise StoreError(f"{path} cannot be opened: {error}; restore the folder from a backup") from error


def _create(path: Path, dim: int) -> engine.EdgeShard:
    compressed = engine.TurboQuantQuantizationConfig(bits=engine.TurboQuantBitSize.Bits4)
    best_of = engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)
    vectors = {
        name: engine.EdgeVectorParams(
            size=dim,
            distance=engine.Distance.Cosine,
            memory=engine.Memory.Cold,
            multivector_config=best_of if name in MULTIVECTORS else None,
            quantization_config=None if name in MULTIVECTORS else compressed,
        )
        for name in VECTORS
    }
    no_graph = engine.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=1)
    sealing = engine.EdgeOptimizersConfig(
        indexing_threshold=max(1, _SEALED * dim * 4 // 1024),
        default_segment_number=10_000,  # sealed files are not merged: that would write the same points again
    )
    shard = engine.EdgeShard.create(
        str(path), engine.EdgeConfig(vectors=vectors, hnsw_config=no_graph, optimizers=sealing)
    )
    index = engine.UpdateOperation.create_field_index
    for field in _FILTERED_FIELDS:
        shard.update(index(field, engine.KeywordIndexParams(is_tenant=field == "user_id")))
    for field in TEXT_FIELDS:
        # Tokens are words of letters and digits already.
        tokens = engine.TextIndexParams(
            tokenizer=engine.TokenizerType.Whitespace, lowercase=False, scoring=True, memory=engine.Memory.Cold
        )
        shard.update(index(field, tokens))
    for field in DATETIME_FIELDS:
        shard.update(index(field, engine.DatetimeIndexParams()))
    for field in INTEGER_FIELDS:
        shard.update(index(field, engine.IntegerIndexParams(lookup=False, range=True)))
    return shard


def _close(shards: Shards) -> None:
    for shard in shards.values():
        shard.flush()
        shard.close()


def _write(shard: engine.EdgeShard, points: Sequence[Point | Record]) -> bool:
    """Write points, and seal where there is enough to seal; says whether it did."""
    made = [
        engine.Point(point.id, {name: _floats(vector) for name, vector in point.vectors.items()}, dict(point.payload))
        for point in points
    ]
    shard.update(engine.UpdateOperation.upsert_points(made))
    sealed: bool = shard.optimize()
    return sealed


def _scroller(
    request: engine.ScrollRequest,
) -> Callable[[engine.EdgeShard], tuple[list[engine.Record], engine.PointId | None]]:
    return lambda shard: shard.scroll(request)


def _can_find(ranking: Ranking, scope: Scope) -> bool:
    """Whether any point holds what is compared: most memories have no long text, and looking for none costs a scan."""
    return isinstance(ranking, Bm25) or scope.holds(ranking.using)


def _request(ranking: Ranking, scope: Scope) -> engine.QueryRequest:
    query: engine.ScoringQueryType
    if isinstance(ranking, Nearest):
        where = scope.narrowest(ranking.where, ranking.using)
        query = engine.Query.Nearest(_floats(ranking.vector), ranking.using)
        params = engine.SearchParams(exact=ranking.exact, quantization=None if ranking.exact else _COMPRESSED)
    else:
        where = scope.narrowest(ranking.where, ranking.field)
        query = engine.TextQuery(ranking.field, query_text(ranking.terms), engine.Bm25Params(ranking.k1, ranking.b))
        params = engine.SearchParams(idf=engine.IdfParams(_if_any(corpus(where))))
    return engine.QueryRequest(limit=ranking.limit, query=query, filter=_if_any(where), params=params)


def _if_any(where: Where) -> engine.Filter | None:
    """The filter of a `Where` with any condition; none of the others, because the engine would try an empty one too."""
    return None if conditions(where) == ((), ()) else _filter(where)


def _filter(where: Where) -> engine.Filter:
    must, must_not = conditions(where)
    return engine.Filter(must=list(map(_condition, must)), must_not=list(map(_condition, must_not)))


def _equals(field: str, value: str) -> engine.FieldCondition:
    return engine.FieldCondition(field, match=engine.MatchValue(value))


def _empty(field: str) -> engine.IsEmptyCondition:
    return engine.IsEmptyCondition(field)


@lru_cache(maxsize=16)
def _among(ids: tuple[str, ...]) -> engine.HasIdCondition:
    """A condition on hundreds of ids, which the signals of one question share."""
    return engine.HasIdCondition(set(ids))


def _condition(condition: Condition) -> engine.ConditionType:
    if isinstance(condition, Ids):
        return _among(condition.ids)
    if isinstance(condition, AnyOf):
        if len(condition.values) == 1:  # a third of the time of MatchAny
            return _equals(condition.field, condition.values[0])
        return engine.FieldCondition(condition.field, match=engine.MatchAny(list(condition.values)))
    if isinstance(condition, Token):
        return engine.FieldCondition(condition.field, match=engine.MatchText(condition.token))
    limits: Any = engine.RangeDateTime if condition.field in DATETIME_FIELDS else engine.RangeFloat
    return engine.FieldCondition(condition.field, range=limits(gte=condition.low, lte=condition.high))


@lru_cache(maxsize=65_536)
def _written(point_id: engine.PointId) -> str:
    """An id as text. A search gives hundreds, mostly the same again, and writing a UUID takes longer than looking."""
    return str(point_id)


def _floats(vector: Vectors) -> list[float]:
    floats: list[float] = np.asarray(vector, np.float32).tolist()
    return floats


def _record(point: Any) -> Record:
    vectors = {name: np.asarray(values, np.float32) for name, values in point.vector.items()} if point.vector else {}
    return Record(str(point.id), point.payload or {}, vectors)
