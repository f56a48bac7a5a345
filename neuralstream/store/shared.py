"""What every engine shares: what a `Where` means, which points are refused, how ties at a limit are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from neuralstream.embed.base import Vectors
from neuralstream.errors import StoreError
from neuralstream.store.base import Fingerprint, Point, Ranked, Record, Where
from neuralstream.store.schema import GEMS, TEXT_FIELDS, TURNS, VECTORS
from neuralstream.types import parse_time

__all__ = [
    "PAGE",
    "AnyOf",
    "Between",
    "Conditions",
    "Ids",
    "best",
    "check_collection",
    "check_points",
    "check_query",
    "conditions",
    "corpus",
    "latest",
    "mismatch",
    "point_id",
    "query_text",
    "tenant",
]

PAGE = 256
"""Points per page of a scroll or a copy."""

_SPARE = 16
"""Points fetched beyond a limit to see whether a tie crosses it."""

T = TypeVar("T")


class AnyOf(NamedTuple):
    """The payload field holds one of these strings."""

    field: str
    values: tuple[str, ...]


class Ids(NamedTuple):
    """The point is one of these."""

    ids: tuple[str, ...]


class Between(NamedTuple):
    """The payload field lies in a closed range; None is an open end. Times are ISO 8601 strings, UTC."""

    field: str
    low: str | int | None
    high: str | int | None


class Conditions(NamedTuple):
    """All of `must` and none of `must_not`."""

    must: tuple[AnyOf | Ids | Between, ...]
    must_not: tuple[AnyOf | Ids | Between, ...]


def conditions(where: Where) -> Conditions:
    """A `Where` in terms that every engine has."""
    must: list[AnyOf | Ids | Between] = []
    must_not: list[AnyOf | Ids | Between] = []
    for field, value in (("user_id", where.user_id), ("kind", where.kind), ("status", where.status)):
        if value is not None:
            must.append(AnyOf(field, (value,)))
    for field, values in (("session_id", where.session_ids), ("tags", where.tags)):
        if values:
            must.append(AnyOf(field, tuple(values)))
    if where.since is not None or where.until is not None:
        must.append(Between("created_at", _iso(where.since), _iso(where.until)))
    if where.session_index_from is not None or where.session_index_to is not None:
        must.append(Between("index", where.session_index_from, where.session_index_to))
    if where.ids is not None:
        must.append(Ids(_known_ids(where.ids)))
    if where.not_session_ids:
        must_not.append(AnyOf("session_id", tuple(where.not_session_ids)))
    if where.not_ids:
        must_not.append(Ids(_known_ids(where.not_ids)))
    return Conditions(tuple(must), tuple(must_not))


def corpus(where: Where) -> Where:
    """The points whose statistics BM25 counts: all of the user's of one kind, whatever narrower filter applies."""
    return Where(user_id=where.user_id, kind=where.kind)


def tenant(where: Where, doing: str) -> str:
    """The user a ranking is for.

    Raises:
        StoreError: `where` names no user.
    """
    if where.user_id is None:
        raise StoreError(f"{doing} needs a user: got Where(user_id=None); name whose memory is searched")
    return where.user_id


def point_id(value: str) -> str | None:
    """The id as the engines write it, or None where it is no UUID and so names no point."""
    try:
        return str(UUID(value))
    except ValueError:
        return None


def check_collection(collection: str) -> None:
    """Refuse a collection that the schema does not have."""
    if collection not in (GEMS, TURNS):
        raise StoreError(f"unknown collection {collection!r}; use {GEMS!r} or {TURNS!r}")


def check_points(points: Sequence[Point], dim: int) -> None:
    """Refuse what an engine would store although nothing can find it again.

    Args:
        points: what is about to be stored.
        dim: length of a vector.

    Raises:
        StoreError: an id is no UUID, a point names no user or kind, a vector is unknown, has another length, or holds NaN
            or infinity. The message names the point.
    """
    for point in points:
        if point_id(point.id) is None:
            raise StoreError(f"a point's id must be a UUID, got {point.id!r}")
        for field in ("user_id", "kind"):
            if not isinstance(point.payload.get(field), str):
                raise StoreError(f"point {point.id} has no {field}: every payload names its user and its kind")
        for name, vector in point.vectors.items():
            _check_vector(vector, name, dim, f"point {point.id}")


def check_query(vector: Vectors, using: str, dim: int) -> None:
    """Refuse a query vector that cannot be compared with the stored ones."""
    _check_vector(vector, using, dim, "the query")


def query_text(terms: Sequence[str], field: str, where: Where) -> str:
    """Distinct terms, space-joined, for a BM25 query.

    Raises:
        StoreError: the field is no token field, or `where` does not say which user's points of which kind are the corpus.
    """
    if field not in TEXT_FIELDS:
        raise StoreError(f"unknown token field {field!r}; use one of {', '.join(TEXT_FIELDS)}")
    tenant(where, "a text query")
    if where.kind is None:
        raise StoreError("a text query ranks points of one kind: got Where(kind=None); name turn, session or gem")
    return " ".join(dict.fromkeys(terms))


def mismatch(stored: Fingerprint, wanted: Fingerprint, place: str) -> str:
    """The message for a store that something else filled."""
    return (
        f"the store in {place} was filled by {_name(stored)}, and now {_name(wanted)} is set up; "
        "set the old ones again, or run `neuralstream reindex` to fill it anew"
    )


def best(fetch: Callable[[int], list[Ranked]], limit: int) -> list[Ranked]:
    """The first `limit` by (-score, id), right also where equal scores cross the limit.

    Args:
        fetch: the engine's best n points, best first, ties in any order.
        limit: how many are wanted.
    """
    return _cut(fetch, limit, lambda hit: hit.score, lambda hit: hit.id)


def latest(fetch: Callable[[int], list[Record]], limit: int) -> list[Record]:
    """The first `limit` by time, newest first; ties by descending `index`, then id.

    Args:
        fetch: the engine's newest n points with `created_at` and `index`, newest first, ties in any order.
        limit: how many are wanted.
    """
    return _cut(
        fetch,
        limit,
        lambda record: parse_time(record.payload["created_at"]).timestamp(),
        lambda record: (-record.payload.get("index", 0), record.id),
    )


def _cut(
    fetch: Callable[[int], list[T]], limit: int, grade: Callable[[T], float], tie_break: Callable[[T], Any]
) -> list[T]:
    if limit <= 0:
        return []
    size = limit + _SPARE
    while True:
        found = fetch(size)
        if len(found) < size or grade(found[-1]) < grade(found[limit - 1]):
            return sorted(found, key=lambda item: (-grade(item), tie_break(item)))[:limit]
        size *= 4


def _check_vector(vector: Vectors, name: str, dim: int, owner: str) -> None:
    if name not in VECTORS:
        raise StoreError(f"{owner}: unknown vector {name!r}; use one of {', '.join(VECTORS)}")
    if np.shape(vector) != (dim,):
        raise StoreError(f"{owner}: vector {name!r} has shape {np.shape(vector)}, but this store holds ({dim},)")
    if not np.isfinite(vector).all():
        raise StoreError(f"{owner}: vector {name!r} holds NaN or infinity; embed the text again")


def _known_ids(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(known for known in map(point_id, ids) if known is not None)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _name(fingerprint: Fingerprint) -> str:
    return (
        f"{fingerprint.embedder} ({fingerprint.embedder_digest[:12]}, {fingerprint.dim} dimensions) "
        f"with analyser {fingerprint.analyser}"
    )
