"""What every engine shares: what a `Where` means, which points are refused, how ties at a limit are cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np

from neuralstream.clock import iso_time, parse_time
from neuralstream.embed.base import Vectors
from neuralstream.errors import StoreError, StoreMismatchError
from neuralstream.store.base import Fingerprint, MemoryStore, Nearest, Point, Ranked, Ranking, Record, Where
from neuralstream.store.schema import GEMS, MULTIVECTORS, SCHEMA_VERSION, TERMS, TEXT_FIELDS, TURNS, VECTORS

__all__ = [
    "PAGE",
    "SPARE",
    "AnyOf",
    "Between",
    "Condition",
    "Conditions",
    "Ids",
    "Rebuild",
    "Token",
    "best",
    "check_collection",
    "check_deletion",
    "check_fingerprint",
    "check_points",
    "check_ranking",
    "check_schema",
    "check_user",
    "check_vector",
    "conditions",
    "corpus",
    "known_ids",
    "latest",
    "query_text",
]

PAGE = 256
"""Points per page of a scroll or a copy."""

SPARE = 16
"""Points fetched beyond a limit to see whether a tie crosses it."""

_WRITTEN_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_EVER = "0001-01-01T00:00:00Z"

T = TypeVar("T")


class AnyOf(NamedTuple):
    """The payload field holds one of these strings."""

    field: str
    values: tuple[str, ...]


class Token(NamedTuple):
    """The payload's token field holds this token."""

    field: str
    token: str


class Ids(NamedTuple):
    """The point is one of these."""

    ids: tuple[str, ...]


class Between(NamedTuple):
    """The payload field lies in a closed range; None is an open end. Times are ISO 8601 strings, UTC."""

    field: str
    low: str | int | None
    high: str | int | None


class Rebuild(NamedTuple):
    """A store that is being replaced, and the empty one to fill.

    Attributes:
        old: None where what is stored is an earlier NeuralStream's collection; `scroll_earlier` reads it.
        new: takes the old one's place when the rebuild ends without an error.
    """

    old: MemoryStore | None
    new: MemoryStore


Condition = AnyOf | Token | Ids | Between


class Conditions(NamedTuple):
    """All of `must` and none of `must_not`."""

    must: tuple[Condition, ...]
    must_not: tuple[Condition, ...]


def conditions(where: Where) -> Conditions:
    """A `Where` in terms that every engine has."""
    must: list[Condition] = []
    must_not: list[Condition] = []
    for field, value in (("user_id", where.user_id), ("kind", where.kind), ("status", where.status)):
        if value is not None:
            must.append(AnyOf(field, (value,)))
    for field, values in (("session_id", where.session_ids), ("tags", where.tags)):
        if values:
            must.append(AnyOf(field, tuple(values)))
    must += [Token(TERMS, term) for term in where.terms]
    time = Between("created_at", _iso(where.since), _iso(where.until))
    place = Between("index", where.session_index_from, where.session_index_to)
    must += [limits for limits in (time, place) if limits.low is not None or limits.high is not None]
    if where.covered is not None:
        (must if where.covered else must_not).append(Between("covered_at", _EVER, _iso(where.until)))
    if where.ids is not None:
        must.append(Ids(known_ids(where.ids)))
    if where.not_session_ids:
        must_not.append(AnyOf("session_id", tuple(where.not_session_ids)))
    if where.not_ids:
        must_not.append(Ids(known_ids(where.not_ids)))
    return Conditions(tuple(must), tuple(must_not))


def corpus(where: Where) -> Where:
    """The points whose statistics BM25 counts: all of the user's of one kind, whatever narrower filter applies."""
    return Where(user_id=where.user_id, kind=where.kind)


def known_ids(ids: Sequence[str]) -> tuple[str, ...]:
    """The ids as the engines write them; what is no UUID names no point and is left out."""
    return tuple(known for known in map(_uuid, ids) if known is not None)


def check_fingerprint(stored: Fingerprint, wanted: Fingerprint, place: str) -> None:
    """Refuse a store that something else filled.

    Raises:
        StoreMismatchError: the message names both and how to go on.
    """
    if stored != wanted:
        raise StoreMismatchError(
            f"the store in {place} was filled by {_name(stored)}, and now {_name(wanted)} is set up; "
            "set up the former again, or run `neuralstream reindex` to fill the store anew"
        )


def check_user(where: Where) -> None:
    """Refuse a ranking over everybody's memory."""
    if where.user_id is None:
        raise StoreError("a search needs a user: got Where(user_id=None); name whose memory is searched")


def check_collection(collection: str) -> None:
    """Refuse a collection that the schema does not have."""
    if collection not in (GEMS, TURNS):
        raise StoreError(f"unknown collection {collection!r}; use {GEMS!r} or {TURNS!r}")


def check_deletion(where: Where) -> None:
    """Refuse a deletion that names nothing in particular."""
    if conditions(where) == ((), ()):
        raise StoreError("delete without any condition would empty the store; name a user, session, ids or time")


def check_points(points: Sequence[Point], dim: int) -> None:
    """Refuse what an engine would store although nothing can find it again.

    Args:
        points: what is about to be stored.
        dim: length of a vector.

    Raises:
        StoreError: an id is no UUID, a point names no user or kind, a vector is unknown, has another length, or holds
            NaN or infinity. The message names the point.
    """
    for point in points:
        if _uuid(point.id) != point.id:
            raise StoreError(f"a point's id must be a UUID in lower case with hyphens, got {point.id!r}")
        for field in ("user_id", "kind"):
            if not isinstance(point.payload.get(field), str):
                raise StoreError(f"point {point.id} has no {field}: every payload names its user and its kind")
        for name, vector in point.vectors.items():
            check_vector(vector, name, dim, f"point {point.id}", rows=name in MULTIVECTORS)


def check_schema(version: int, place: str, *, check: bool) -> None:
    """Refuse a store that another version of the schema laid out.

    Args:
        version: what the store records.
        place: where it is, for the message.
        check: refuse earlier versions too; without, they may be read, to fill a store anew.

    Raises:
        StoreMismatchError: the message says how to go on.
    """
    if version > SCHEMA_VERSION:
        raise StoreMismatchError(
            f"{place} has schema version {version}, and this NeuralStream reads {SCHEMA_VERSION}; "
            "use the version that wrote it, or export there and restore here"
        )
    if check and version < SCHEMA_VERSION:
        raise StoreMismatchError(
            f"{place} has schema version {version}, and this NeuralStream writes {SCHEMA_VERSION}; "
            "run `neuralstream reindex` to fill the store anew from the turns and gems it holds"
        )


def check_vector(vector: Vectors, name: str, dim: int, owner: str = "the query", *, rows: bool = False) -> None:
    """Refuse a vector that cannot be compared with the stored ones.

    Args:
        vector: what is stored or asked.
        name: the vector's name.
        dim: length of a vector.
        owner: whose it is, for the message.
        rows: it has to be (n, dim), n > 0; otherwise (dim,), as a query is under any name.
    """
    if name not in VECTORS:
        raise StoreError(f"{owner}: unknown vector {name!r}; use one of {', '.join(VECTORS)}")
    shape = np.shape(vector)
    if (shape[1:] if rows and shape[:1] != (0,) else shape) != (dim,):
        wanted = f"(n, {dim})" if rows else f"({dim},)"
        raise StoreError(f"{owner}: vector {name!r} has shape {shape}, but this store holds {wanted}")
    if not np.isfinite(vector).all():
        raise StoreError(f"{owner}: vector {name!r} holds NaN or infinity; embed the text again")


def check_ranking(ranking: Ranking, dim: int) -> None:
    """Refuse a ranking over everybody's memory, or one that cannot be made."""
    check_user(ranking.where)
    if isinstance(ranking, Nearest):
        check_vector(ranking.vector, ranking.using, dim)
    else:
        if ranking.field not in TEXT_FIELDS:
            raise StoreError(f"unknown token field {ranking.field!r}; use one of {', '.join(TEXT_FIELDS)}")
        if ranking.where.kind is None:
            raise StoreError("BM25 ranks points of one kind: got Where(kind=None); name turn, session or gem")


def query_text(terms: Sequence[str]) -> str:
    """Distinct terms, space-joined, for a BM25 query."""
    return " ".join(dict.fromkeys(terms))


def best(fetch: Callable[[Sequence[Ranking]], list[list[Ranked]]], rankings: Sequence[Ranking]) -> list[list[Ranked]]:
    """The first points of each ranking by (-score, id), right also where equal scores cross the limit.

    Args:
        fetch: the engine's best points for each of some rankings, of each place it keeps them in, in any order.
        rankings: what is wanted.
    """
    answers = fetch([replace(ranking, limit=ranking.limit + SPARE) for ranking in rankings])

    def more(ranking: Ranking, first: list[Ranked]) -> Callable[[int], list[Ranked]]:
        enough = ranking.limit + SPARE
        return lambda size: first if size <= enough or ranking.loose else fetch([replace(ranking, limit=size)])[0]

    return [
        _cut(more(ranking, first), ranking.limit, lambda hit: hit.score, lambda hit: hit.id)
        for ranking, first in zip(rankings, answers, strict=True)
    ]


def latest(fetch: Callable[[int], list[Record]], limit: int) -> list[Record]:
    """The first `limit` by time, newest first; ties by descending `index`, then id.

    Args:
        fetch: the engine's newest n points with `created_at` and `index`, of each place it keeps them in, any order.
        limit: how many are wanted.
    """
    return _cut(
        fetch,
        limit,
        lambda record: parse_time(record.payload["created_at"]).timestamp(),
        lambda record: (-(record.payload.get("index") or 0), record.id),
    )


def _cut(
    fetch: Callable[[int], list[T]], limit: int, grade: Callable[[T], float], tie_break: Callable[[T], Any]
) -> list[T]:
    if limit <= 0:
        return []
    size = limit + SPARE
    while True:
        found = sorted(fetch(size), key=lambda item: (-grade(item), tie_break(item)))
        # What was not fetched grades no higher than the item at `size`: below the limit's, it cannot belong.
        if len(found) < size or grade(found[size - 1]) < grade(found[limit - 1]):
            return found[:limit]
        size *= 4


@lru_cache(maxsize=65_536)
def _uuid(value: str) -> str | None:
    if _WRITTEN_UUID.fullmatch(value):  # a seventh of the time of parsing it
        return value
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_time(moment)


def _name(fingerprint: Fingerprint) -> str:
    return (
        f"{fingerprint.embedder} ({fingerprint.embedder_digest[:12]}, {fingerprint.dim} dimensions) "
        f"with analyser {fingerprint.analyser}"
    )
