"""Memory in the process: Qdrant's own engine as a library, no server to install.

One process owns the folder at a time. Searches compare every point that the filter lets through: 4 ms per 20,000 points.
The engine's HNSW graph is never built, because building it for 20,000 points blocked every read for 80 s; memory that
outgrows this belongs on a Qdrant server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from neuralstream.embed.base import Vectors
from neuralstream.errors import MissingPartError, StoreError, StoreMismatchError
from neuralstream.store.base import Fingerprint, Point, Ranked, Record, Where
from neuralstream.store.folder import StoreFolder
from neuralstream.store.schema import GEMS, TEXT_FIELDS, TURNS, VECTORS
from neuralstream.store.shared import (
    PAGE,
    AnyOf,
    Between,
    Ids,
    best,
    check_collection,
    check_points,
    check_query,
    conditions,
    corpus,
    latest,
    mismatch,
    point_id,
    query_text,
    tenant,
)

if TYPE_CHECKING:
    import qdrant_edge

__all__ = ["EdgeStore"]

_FILTERED_FIELDS = ("user_id", "kind", "session_id", "tags", "status")
"""The keyword fields a `Where` can name. An index no condition uses would cost its fsyncs when the store is made."""

T = TypeVar("T")


class EdgeStore:
    """A MemoryStore in a folder.

    Args:
        folder: where it lies; made if missing.
        fingerprint: what it is filled by.
        check: refuse a store that was filled by something else. Without, it opens under what it was filled by.

    Raises:
        MissingPartError: the engine is not installed.
        StoreLockedError: another process holds the folder.
        StoreMismatchError: the store was filled by something else.
    """

    def __init__(self, folder: Path, fingerprint: Fingerprint, *, check: bool = True) -> None:
        self._engine = _import_engine()
        self._guard = threading.RLock()
        self._shards: dict[str, qdrant_edge.EdgeShard] = {}
        self._owner: EdgeStore | None = None
        self._folder = StoreFolder(folder)
        try:
            stored = self._folder.current
            if stored is None:
                self._fingerprint = fingerprint
                path = self._folder.fresh()
                self._shards = _create(self._engine, path, fingerprint.dim)
                self._folder.publish(path, fingerprint)
                return
            if check and stored.fingerprint != fingerprint:
                raise StoreMismatchError(mismatch(stored.fingerprint, fingerprint, str(folder)))
            self._fingerprint = stored.fingerprint
            self._shards = _load(self._engine, stored.path)
        except BaseException:
            self.close()
            raise

    @property
    def fingerprint(self) -> Fingerprint:
        """What this store is filled by."""
        return self._fingerprint

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """See MemoryStore. The engine's write-ahead log has the points when this returns."""
        check_points(points, self._fingerprint.dim)
        make = self._engine.Point
        made = [
            make(
                _known(point.id),
                {name: np.asarray(vector, np.float32).tolist() for name, vector in point.vectors.items()},
                dict(point.payload),
            )
            for point in points
        ]
        self._update(collection, self._engine.UpdateOperation.upsert_points, made)

    def set_payload(self, collection: str, ids: Sequence[str], payload: Mapping[str, Any]) -> None:
        """See MemoryStore."""
        where = Where(user_id=None, ids=tuple(ids))
        self._update(collection, self._engine.UpdateOperation.set_payload_by_filter, self._filter(where), dict(payload))

    def retrieve(self, collection: str, ids: Sequence[str], *, with_vectors: bool = False) -> list[Record]:
        """See MemoryStore."""
        known = [known for known in map(point_id, ids) if known is not None]
        found = self._run(collection, "read points", lambda shard: shard.retrieve(list(known), True, with_vectors))
        records = {str(point.id): _record(point) for point in found}
        return [records[known_id] for known_id in known if known_id in records]

    def dense(
        self, collection: str, vector: Vectors, using: str, where: Where, limit: int, *, exact: bool
    ) -> list[Ranked]:
        """See MemoryStore."""
        check_query(vector, using, self._fingerprint.dim)
        tenant(where, "a vector query")
        query = self._engine.Query.Nearest(np.asarray(vector, np.float32).tolist(), using)
        params = self._engine.SearchParams(exact=exact)
        return self._ranked(collection, query, where, limit, params)

    def text(
        self, collection: str, terms: Sequence[str], field: str, where: Where, limit: int, *, k1: float, b: float
    ) -> list[Ranked]:
        """See MemoryStore."""
        query = self._engine.TextQuery(field, query_text(terms, field, where), self._engine.Bm25Params(k1, b))
        params = self._engine.SearchParams(idf=self._engine.IdfParams(self._filter(corpus(where))))
        return self._ranked(collection, query, where, limit, params)

    def newest(self, collection: str, where: Where, limit: int) -> list[Record]:
        """See MemoryStore."""
        tenant(where, "the newest points")
        order = self._engine.OrderBy("created_at", self._engine.Direction.Desc)

        def fetch(size: int) -> list[Record]:
            request = self._engine.QueryRequest(
                limit=size, query=order, filter=self._filter(where), with_payload=["created_at", "index"]
            )
            return [_record(hit) for hit in self._run(collection, "read points", lambda shard: shard.query(request))]

        return self.retrieve(collection, [record.id for record in latest(fetch, limit)])

    def scroll(self, collection: str, where: Where, *, with_vectors: bool = False) -> Iterator[Record]:
        """See MemoryStore."""
        offset = None
        while True:
            request = self._engine.ScrollRequest(
                offset=offset, limit=PAGE, filter=self._filter(where), with_payload=True, with_vector=with_vectors
            )
            page, offset = self._run(collection, "read points", lambda shard, page=request: shard.scroll(page))
            yield from map(_record, page)
            if offset is None:
                return

    def count(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        request = self._engine.CountRequest(filter=self._filter(where), exact=True)
        return self._run(collection, "count points", lambda shard: shard.count(request))

    def delete(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        if conditions(where) == ((), ()):
            raise StoreError("delete without any condition would empty the store; name a user, session, ids or time")
        with self._guard:
            doomed = self.count(collection, where)
            if doomed:
                self._update(collection, self._engine.UpdateOperation.delete_points_by_filter, self._filter(where))
        return doomed

    def purge(self) -> str:
        """Copy what survives into fresh files and remove the old ones, write-ahead log included."""
        with self._guard:
            copied = {collection: self.count(collection, Where(user_id=None)) for collection in (GEMS, TURNS)}
            path = self._folder.fresh()
            fresh = _create(self._engine, path, self._fingerprint.dim)
            for collection, shard in fresh.items():
                self._copy(collection, shard)
            _close(fresh)
            _close(self._shards)
            self._folder.publish(path, self._fingerprint)
            self._shards = _load(self._engine, path)
        return (
            f"rewrote the embedded store with its {copied[TURNS]} turn points and {copied[GEMS]} gem points and removed the "
            "old files, write-ahead log included"
        )

    def close(self) -> None:
        """See MemoryStore."""
        with self._guard:
            _close(self._shards)
            self._shards = {}
            if self._owner is None:
                self._folder.release()

    def _copy(self, collection: str, target: qdrant_edge.EdgeShard) -> None:
        make = self._engine.Point
        batch: list[qdrant_edge.Point] = []

        def write() -> None:
            target.update(self._engine.UpdateOperation.upsert_points(batch))
            batch.clear()

        for record in self.scroll(collection, Where(user_id=None), with_vectors=True):
            vectors = {name: vector.tolist() for name, vector in record.vectors.items()}
            batch.append(make(record.id, vectors, dict(record.payload)))
            if len(batch) == PAGE:
                write()
        write()

    def _ranked(self, collection: str, query: Any, where: Where, limit: int, params: Any) -> list[Ranked]:
        def fetch(size: int) -> list[Ranked]:
            request = self._engine.QueryRequest(limit=size, query=query, filter=self._filter(where), params=params)
            hits = self._run(collection, "search", lambda shard: shard.query(request))
            return [Ranked(str(hit.id), hit.score) for hit in hits]

        return best(fetch, limit)

    def _update(self, collection: str, operation: Callable[..., qdrant_edge.UpdateOperation], *arguments: Any) -> None:
        self._run(collection, "write points", lambda shard: shard.update(operation(*arguments)))

    def _run(self, collection: str, doing: str, call: Callable[[qdrant_edge.EdgeShard], T]) -> T:
        check_collection(collection)
        with self._guard:
            if not self._shards:
                raise StoreError("the store is closed; open it again")
            try:
                return call(self._shards[collection])
            except Exception as error:  # the engine raises bare Exception, TypeError and ValueError
                raise StoreError(f"the embedded store could not {doing}: {str(error)[:300]}") from error

    def _filter(self, where: Where) -> qdrant_edge.Filter:
        must, must_not = conditions(where)
        return self._engine.Filter(
            must=[self._condition(c) for c in must], must_not=[self._condition(c) for c in must_not]
        )

    def _condition(self, condition: AnyOf | Ids | Between) -> qdrant_edge.FieldCondition | qdrant_edge.HasIdCondition:
        engine = self._engine
        if isinstance(condition, Ids):
            return engine.HasIdCondition(set(condition.ids))
        if isinstance(condition, AnyOf):
            return engine.FieldCondition(condition.field, match=engine.MatchAny(list(condition.values)))
        limits = engine.RangeDateTime if condition.field == "created_at" else engine.RangeFloat
        return engine.FieldCondition(condition.field, range=limits(gte=condition.low, lte=condition.high))


def _import_engine() -> Any:
    try:
        import qdrant_edge
    except ImportError:
        raise MissingPartError(
            "the embedded store needs the package qdrant-edge-py: pip install 'neuralstream[embedded]', or set qdrant_url "
            "to a Qdrant server"
        ) from None
    return qdrant_edge


def _create(engine: Any, path: Path, dim: int) -> dict[str, qdrant_edge.EdgeShard]:
    """Empty shards. Each index costs several fsyncs, so the two are made side by side."""

    def create(collection: str) -> qdrant_edge.EdgeShard:
        vector = engine.EdgeVectorParams(size=dim, distance=engine.Distance.Cosine)
        shard = engine.EdgeShard.create(
            str(path / collection), engine.EdgeConfig(vectors=dict.fromkeys(VECTORS, vector))
        )
        index = engine.UpdateOperation.create_field_index
        for name in _FILTERED_FIELDS:
            shard.update(index(name, engine.KeywordIndexParams(is_tenant=name == "user_id")))
        for name in TEXT_FIELDS:
            shard.update(index(name, engine.TextIndexParams(scoring=True)))
        shard.update(index("created_at", engine.DatetimeIndexParams()))
        shard.update(index("index", engine.IntegerIndexParams(lookup=False, range=True)))
        return shard

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip((GEMS, TURNS), pool.map(create, (GEMS, TURNS)), strict=True))


def _load(engine: Any, path: Path) -> dict[str, qdrant_edge.EdgeShard]:
    return {collection: engine.EdgeShard.load(str(path / collection)) for collection in (GEMS, TURNS)}


def _close(shards: dict[str, qdrant_edge.EdgeShard]) -> None:
    for shard in shards.values():
        shard.flush()
        shard.close()


def _record(point: Any) -> Record:
    vectors = {name: np.asarray(values, np.float32) for name, values in (point.vector or {}).items()}
    return Record(str(point.id), point.payload or {}, vectors)


def _known(value: str) -> str:
    known = point_id(value)
    assert known is not None
    return known
