"""The seam between memory and the engine that keeps it.

A store holds two collections (see `schema`): gems, and turns. Points are addressed by UUID, filtered by `Where`,
ranked by a dense vector or by BM25 over a field of analysed tokens, or ordered by time. Every implementation passes
`tests/store/test_contract.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from neuralstream.embed.base import Vectors

__all__ = ["Bm25", "Fingerprint", "MemoryStore", "Nearest", "Point", "Ranked", "Ranking", "Record", "Where"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a store was filled by. A store refuses to open under another.

    Attributes:
        embedder: the model's name, for people.
        embedder_digest: identifies its weights.
        dim: length of a vector.
        analyser: identifies the analysis that made the token fields.
    """

    embedder: str
    embedder_digest: str
    dim: int
    analyser: str


@dataclass(frozen=True, slots=True)
class Point:
    """What is stored: a UUID, JSON payload, and vectors by name: (dim,) float32, of `schema.MULTIVECTORS` (n, dim)."""

    id: str
    payload: Mapping[str, Any]
    vectors: Mapping[str, Vectors] = field(default_factory=dict)


class Record(NamedTuple):
    """A stored point's id, payload and, where asked for, its vectors by name."""

    id: str
    payload: Mapping[str, Any]
    vectors: Mapping[str, Vectors]


class Ranked(NamedTuple):
    """A point's id and its score in one ranking; higher is better."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Where:
    """Which points a call may touch. Conditions are joined by "and"; None or empty means no condition.

    Attributes:
        user_id: the tenant. None reaches every user and is meant for maintenance only (export of all, reindex).
        kind: payload `kind`: "turn", "session" or "gem".
        session_ids: any of these sessions.
        not_session_ids: none of these sessions.
        ids: any of these points. An empty tuple is a condition that nothing meets; None is no condition.
        not_ids: none of these points.
        since: created_at >= since.
        until: created_at <= until.
        tags: any of these gem tags.
        status: payload `status`, "active" or "superseded".
        session_index_from, session_index_to: payload `index` within this closed range.
        terms: only points whose `schema.TERMS` field holds every one of these tokens.
        covered: True, only turns that an active gem made by `until` cites (payload `covered_at` <= until); False, only
            the others.
    """

    user_id: str | None
    kind: str | None = None
    session_ids: tuple[str, ...] = ()
    not_session_ids: tuple[str, ...] = ()
    ids: tuple[str, ...] | None = None
    not_ids: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    status: str | None = None
    session_index_from: int | None = None
    session_index_to: int | None = None
    terms: tuple[str, ...] = ()
    covered: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """A ranking to be made: the arguments of `MemoryStore.dense`.

    With `loose`, any of the points that have the last score may be left out: finding out which comes first by id can
    take reading thousands of equals.
    """

    vector: Vectors
    using: str
    where: Where
    limit: int
    exact: bool
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Bm25:
    """A ranking to be made: the arguments of `MemoryStore.text`; `loose` as for `Nearest`."""

    terms: Sequence[str]
    field: str
    where: Where
    limit: int
    k1: float
    b: float
    loose: bool = False


Ranking = Nearest | Bm25


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps points. `collection` is `schema.GEMS` or `schema.TURNS`; the store maps them to real names."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What this store is filled by."""
        ...

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points; one with a known id replaces it. On return they survive kill -9.

        Raises:
            StoreError: a vector has NaN, infinity or another length; nothing of the call is stored.
        """
        ...

    def set_payload(self, collection: str, ids: Sequence[str], payload: Mapping[str, Any]) -> None:
        """Set these payload keys on points that exist, leaving their other keys and vectors."""
        ...

    def retrieve(
        self, collection: str, ids: Sequence[str], *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> list[Record]:
        """The points that exist among `ids`, in the order of `ids`.

        Args:
            collection: which collection.
            ids: points.
            with_vectors: read their vectors too.
            keys: the payload keys to read, nested ones dotted; none named reads all.
        """
        ...

    def dense(
        self, collection: str, vector: Vectors, using: str, where: Where, limit: int, *, exact: bool
    ) -> list[Ranked]:
        """Points by cosine similarity (-1 to 1) of the named vector to `vector`, best first, ties by id.

        A point with several rows (`schema.MULTIVECTORS`) has the similarity of the best of them.

        Args:
            vector: (dim,) float32.
            using: one of `schema.VECTORS`.
            exact: compare every point that `where` lets through by its full vector. Otherwise the engine may leave out
                points that belong: a server walks its HNSW graph, the embedded engine compares compressed vectors and
                looks at the full ones of the best. Scores are exact either way.
        """
        ...

    def text(
        self, collection: str, terms: Sequence[str], field: str, where: Where, limit: int, *, k1: float, b: float
    ) -> list[Ranked]:
        """Points by BM25 of a token field, best first, ties by id; none without a shared term.

        Lucene's BM25 times (k1 + 1): for each distinct query term, IDF = ln(1 + (N - n + 0.5) / (n + 0.5)) times
        tf (k1 + 1) / (tf + k1 (1 - b + b len/avglen)). N, n and avglen range over the points of `where`'s user and
        kind that have the field, so another user's writes change no score and narrower filters change no statistics.
        """
        ...

    def rank_many(self, collection: str, rankings: Sequence[Ranking]) -> list[list[Ranked]]:
        """Several rankings at once, in their order, each as `dense` or `text` makes it; one request to a server."""
        ...

    def newest(self, collection: str, where: Where, limit: int, *, keys: Sequence[str] = ()) -> list[Record]:
        """Points by `created_at`, newest first, ordered before the limit; ties by descending `index`, then id.

        `keys` as for `retrieve`.
        """
        ...

    def scroll(
        self, collection: str, where: Where, *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> Iterator[Record]:
        """Every point once, in no promised order; `keys` as for `retrieve`."""
        ...

    def count(self, collection: str, where: Where) -> int:
        """How many points there are, exactly."""
        ...

    def delete(self, collection: str, where: Where) -> int:
        """Delete points, returning how many there were. A `where` without any condition is refused with StoreError."""
        ...

    def purge(self) -> str:
        """Rewrite what deleted points left on disk (write-ahead log, segments); says what was done."""
        ...

    def close(self) -> None:
        """Flush and release. Closing twice is fine."""
        ...
