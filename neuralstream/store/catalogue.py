"""The collections on a Qdrant server: made, recognised, and replaced by freshly filled ones.

Gems lie in the collection that `settings.collection` names, turns in the same name with `_turns`. Each records in its
metadata what it was filled by. A rebuild fills a pair `NAME__2` and `NAME_turns__2` (then 3, …), marks the gems' one
ready, deletes what bears the names and makes them aliases of the new pair; from then on a rebuild moves an alias in
one atomic request. A ready pair with a higher number than the one in use is a replacement that a crash interrupted: the
next open completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from neuralstream.errors import StoreMismatchError
from neuralstream.store.base import Fingerprint, Record
from neuralstream.store.schema import (
    DATETIME_FIELDS,
    GEMS,
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    MULTIVECTORS,
    SCHEMA_VERSION,
    TEXT_FIELDS,
    TURNS,
    VECTORS,
)
from neuralstream.store.shared import PAGE, check_fingerprint, check_schema

__all__ = [
    "abandon_rebuild",
    "begin_rebuild",
    "finish_rebuild",
    "is_earlier",
    "names",
    "open_collections",
    "scroll_earlier",
    "vector_params",
]

_METADATA = "neuralstream"


class _Known(NamedTuple):
    """What a collection's metadata says."""

    fingerprint: Fingerprint
    schema_version: int
    ready: bool


def open_collections(client: QdrantClient, base: str, fingerprint: Fingerprint, *, check: bool) -> Fingerprint:
    """Make the collections where they are missing, and return what they are filled by.

    Args:
        client: a server's, or one in memory.
        base: name of the gems' collection.
        fingerprint: what missing collections are going to be filled by.
        check: refuse collections that were filled by something else.

    Raises:
        StoreMismatchError: a collection was filled by something else, or is none of ours.
    """
    _complete_rebuild(client, base)
    gems, turns = names(base).values()
    stored = _open(client, gems, fingerprint, check=check)
    if check:
        check_fingerprint(stored, fingerprint, f"collection {gems}")
    check_fingerprint(_open(client, turns, stored, check=check), stored, f"collection {turns}")
    return stored


def names(base: str) -> dict[str, str]:
    """Name on the server of each collection of the schema."""
    return {GEMS: base, TURNS: f"{base}_turns"}


def begin_rebuild(client: QdrantClient, base: str, fingerprint: Fingerprint) -> dict[str, str]:
    """Empty collections that are going to replace those in use, by collection of the schema."""
    left_over = [
        other for name in names(base).values() for other in _numbered(client, name) if other != _target(client, name)
    ]
    abandon_rebuild(client, left_over)
    number = 1 + max(1, *(_number(_target(client, name)) for name in names(base).values()))
    fresh = {collection: f"{name}__{number}" for collection, name in names(base).items()}
    for name in fresh.values():
        _make_collection(client, name, fingerprint)
    return fresh


def finish_rebuild(client: QdrantClient, base: str, fresh: Mapping[str, str], fingerprint: Fingerprint) -> None:
    """Put the new collections in the place of those in use, which are deleted."""
    client.update_collection(fresh[GEMS], metadata=_metadata(fingerprint, ready=True))
    _complete_rebuild(client, base)


def abandon_rebuild(client: QdrantClient, fresh: Iterable[str]) -> None:
    """Delete new collections that are not going to replace those in use."""
    for name in fresh:
        client.delete_collection(name)


def vector_params(dim: int) -> dict[str, models.VectorParams]:
    """What a collection is told of each named vector."""
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    return {
        name: models.VectorParams(
            size=dim,
            distance=models.Distance.COSINE,
            multivector_config=several if name in MULTIVECTORS else None,
        )
        for name in VECTORS
    }


def is_earlier(client: QdrantClient, name: str) -> bool:
    """Whether a collection is of an earlier NeuralStream, which used one unnamed vector."""
    if not client.collection_exists(name):
        return False
    return isinstance(client.get_collection(name).config.params.vectors, models.VectorParams)


def scroll_earlier(client: QdrantClient, name: str) -> Iterator[Record]:
    """Every point of an earlier NeuralStream's collection, without its vector."""
    offset = None
    while True:
        page, offset = client.scroll(name, limit=PAGE, offset=offset, with_payload=True, with_vectors=False)
        yield from (Record(str(point.id), point.payload or {}, {}) for point in page)
        if offset is None:
            return


def _open(client: QdrantClient, name: str, fingerprint: Fingerprint, *, check: bool) -> Fingerprint:
    if not client.collection_exists(name):
        _make_collection(client, name, fingerprint)
    known = _known(client, name)
    if known is None:
        raise StoreMismatchError(_not_ours(client, name))
    check_schema(known.schema_version, f"collection {name}", check=check)
    _make_indexes(client, name)
    return known.fingerprint


def _make_collection(client: QdrantClient, name: str, fingerprint: Fingerprint) -> None:
    """An empty collection with vectors, indexes and metadata. Two processes that make it at once make it once."""
    try:
        client.create_collection(
            name,
            vectors_config=vector_params(fingerprint.dim),
            on_disk_payload=True,
            metadata=_metadata(fingerprint, ready=False),
        )
    except UnexpectedResponse as error:
        if error.status_code != 409:
            raise
    _make_indexes(client, name)


def _make_indexes(client: QdrantClient, name: str) -> None:
    schemas: dict[str, Any] = {
        field: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=field == "user_id")
        for field in KEYWORD_FIELDS
    }
    schemas |= dict.fromkeys(DATETIME_FIELDS, models.PayloadSchemaType.DATETIME)
    schemas |= dict.fromkeys(INTEGER_FIELDS, models.PayloadSchemaType.INTEGER)
    schemas |= dict.fromkeys(TEXT_FIELDS, models.TextIndexParams(type=models.TextIndexType.TEXT, scoring=True))
    for field in schemas.keys() - client.get_collection(name).payload_schema.keys():
        client.create_payload_index(name, field, schemas[field], wait=True)


def _metadata(fingerprint: Fingerprint, *, ready: bool) -> dict[str, Any]:
    return {_METADATA: {"schema_version": SCHEMA_VERSION, "fingerprint": asdict(fingerprint), "ready": ready}}


def _known(client: QdrantClient, name: str) -> _Known | None:
    written = (client.get_collection(name).config.metadata or {}).get(_METADATA)
    if written is None:
        return None
    return _Known(Fingerprint(**written["fingerprint"]), written["schema_version"], written["ready"])


def _not_ours(client: QdrantClient, name: str) -> str:
    if is_earlier(client, name):
        return (
            f"collection {name} is of an earlier NeuralStream (one unnamed vector) and was left as it is; "
            "run `neuralstream reindex` to bring its gems over, or name another `collection`"
        )
    return f"collection {name} was not made by NeuralStream and was left as it is; name another `collection`"


def _complete_rebuild(client: QdrantClient, base: str) -> None:
    """Let the names mean the newest ready pair of collections, if they do not yet, and delete older pairs."""
    ready = [name for name in _numbered(client, base) if (known := _known(client, name)) is not None and known.ready]
    if not ready:
        return
    newest = max(map(_number, ready))
    # Gems are last: once their name has moved, the turns' has.
    for name in (names(base)[TURNS], names(base)[GEMS]):
        if _number(_target(client, name)) < newest:
            _move(client, name, f"{name}__{newest}")
        abandon_rebuild(client, [other for other in _numbered(client, name) if _number(other) < newest])


def _move(client: QdrantClient, name: str, target: str) -> None:
    operations: list[models.AliasOperations] = []
    if _target(client, name):
        operations.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name)))
    elif client.collection_exists(name):
        client.delete_collection(name)
    alias = models.CreateAlias(collection_name=target, alias_name=name)
    client.update_collection_aliases([*operations, models.CreateAliasOperation(create_alias=alias)])


def _target(client: QdrantClient, name: str) -> str:
    """The collection that the name is an alias of, or nothing where it is none."""
    found = (alias.collection_name for alias in client.get_aliases().aliases if alias.alias_name == name)
    return next(found, "")


def _numbered(client: QdrantClient, name: str) -> list[str]:
    """The collections of this name that have a number."""
    return [other.name for other in client.get_collections().collections if re.fullmatch(rf"{name}__\d+", other.name)]


def _number(name: str) -> int:
    return int(name.rpartition("__")[2]) if name else 0
