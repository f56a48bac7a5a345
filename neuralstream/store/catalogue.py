"""The collections on a Qdrant server: made, recognised, and replaced by freshly filled ones.

Gems lie in the collection that `settings.collection` names, turns in the same name with `_turns`. Each records in its
metadata what it was filled by. A rebuild fills `NAME__2` (`__3`, …), marks it ready, deletes what bears the name and
makes the name an alias of the new one; from then on a rebuild moves the alias, in one atomic request. A ready
collection with a higher number than the one in use is a replacement that a crash interrupted: the next open completes
it.
"""

from __future__ import annotations

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
    SCHEMA_VERSION,
    TEXT_FIELDS,
    TURNS,
    VECTORS,
)
from neuralstream.store.shared import PAGE, check_fingerprint

__all__ = [
    "abandon_rebuild",
    "begin_rebuild",
    "finish_rebuild",
    "is_earlier",
    "names",
    "open_collections",
    "scroll_earlier",
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
    found = [_open(client, name, fingerprint, check=check) for name in names(base).values()]
    check_fingerprint(found[1], found[0], f"collection {names(base)[TURNS]}")
    return found[0]


def names(base: str) -> dict[str, str]:
    """Name on the server of each collection of the schema."""
    return {GEMS: base, TURNS: f"{base}_turns"}


def begin_rebuild(client: QdrantClient, base: str, fingerprint: Fingerprint) -> dict[str, str]:
    """Empty collections that are going to replace those in use, by collection of the schema."""
    fresh: dict[str, str] = {}
    for collection, name in names(base).items():
        in_use = _number_in_use(client, name)
        numbers = _numbered(client, name)
        abandon_rebuild(client, [f"{name}__{number}" for number in numbers if number != in_use])
        fresh[collection] = f"{name}__{max([1, *numbers]) + 1}"
        _make_collection(client, fresh[collection], fingerprint)
    return fresh


def finish_rebuild(client: QdrantClient, base: str, fresh: Mapping[str, str], fingerprint: Fingerprint) -> None:
    """Put the new collections in the place of those in use, which are deleted."""
    for name in fresh.values():
        client.update_collection(name, metadata=_metadata(fingerprint, ready=True))
    for name in names(base).values():
        _complete_rebuild(client, name)


def abandon_rebuild(client: QdrantClient, fresh: Iterable[str]) -> None:
    """Delete new collections that are not going to replace those in use."""
    for name in fresh:
        client.delete_collection(name)


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
    _complete_rebuild(client, name)
    if not client.collection_exists(name):
        _make_collection(client, name, fingerprint)
    known = _known(client, name)
    if known is None:
        raise StoreMismatchError(_not_ours(client, name))
    if known.schema_version != SCHEMA_VERSION:
        raise StoreMismatchError(
            f"collection {name} has schema version {known.schema_version}, and this NeuralStream reads "
            f"{SCHEMA_VERSION}; use the version that wrote it, or export there and restore here"
        )
    if check:
        check_fingerprint(known.fingerprint, fingerprint, f"collection {name}")
    _make_indexes(client, name)
    return known.fingerprint


def _make_collection(client: QdrantClient, name: str, fingerprint: Fingerprint) -> None:
    """An empty collection with vectors, indexes and metadata. Two processes that make it at once make it once."""
    vector = models.VectorParams(size=fingerprint.dim, distance=models.Distance.COSINE)
    try:
        client.create_collection(
            name,
            vectors_config=dict.fromkeys(VECTORS, vector),
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


def _complete_rebuild(client: QdrantClient, name: str) -> None:
    """Let the name mean the newest ready collection, if that is not the one in use."""
    in_use = _number_in_use(client, name)
    for number in reversed(_numbered(client, name)):
        if number <= in_use:
            return
        known = _known(client, f"{name}__{number}")
        if known is not None and known.ready:
            break
    else:
        return
    alias = models.CreateAlias(collection_name=f"{name}__{number}", alias_name=name)
    if in_use:
        # Deleting and creating an alias in one request is atomic: no reader misses the name.
        removal = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=name))
        client.update_collection_aliases([removal, models.CreateAliasOperation(create_alias=alias)])
        client.delete_collection(f"{name}__{in_use}")
    else:
        if client.collection_exists(name):
            client.delete_collection(name)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])


def _numbered(client: QdrantClient, name: str) -> list[int]:
    prefix = f"{name}__"
    found = [other.name for other in client.get_collections().collections if other.name.startswith(prefix)]
    return sorted(int(other.removeprefix(prefix)) for other in found if other.removeprefix(prefix).isdecimal())


def _number_in_use(client: QdrantClient, name: str) -> int:
    """Number of the collection the name is an alias of, or 0 where it is a collection itself or nothing."""
    for alias in client.get_aliases().aliases:
        if alias.alias_name == name:
            return int(alias.collection_name.removeprefix(f"{name}__"))
    return 0
