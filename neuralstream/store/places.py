"""Which of the client's collections a point lies in.

On a server, one collection holds every user and kind, and a query names the corpus its BM25 statistics range over. The
client's `:memory:` mode counts statistics over whole collections only, so there each user and kind has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any, Protocol

from qdrant_client import QdrantClient, models

from neuralstream.store.base import Where
from neuralstream.store.catalogue import vector_params
from neuralstream.store.schema import TEXT_FIELDS

__all__ = ["MemoryPlaces", "Places", "ServerPlaces"]


class Places(Protocol):
    """Maps the schema's collections to the client's."""

    tunable: bool
    """Whether queries take search parameters: exactness, and the corpus BM25 counts."""

    guard: AbstractContextManager[Any]
    """Held around every call of the client."""

    purged: str
    """What purging comes to, for people."""

    def of(self, collection: str, where: Where) -> list[str]:
        """The client's collections that may hold points `where` lets through."""
        ...

    def of_point(self, collection: str, payload: Mapping[str, Any]) -> str:
        """The client's collection a point goes to, made if missing."""
        ...


class ServerPlaces:
    """One collection for all.

    Args:
        names: the client's collection for each of the schema's.
    """

    tunable = True
    purged = (
        "the Qdrant server takes deleted points off its disk itself, when its optimiser next rewrites their segment; "
        "its snapshots and backups are its operator's to delete"
    )

    def __init__(self, names: Mapping[str, str]) -> None:
        self.guard: AbstractContextManager[Any] = nullcontext()
        self._names = names

    def of(self, collection: str, where: Where) -> list[str]:  # noqa: ARG002 - one collection holds whatever is asked for
        """See Places."""
        return [self._names[collection]]

    def of_point(self, collection: str, payload: Mapping[str, Any]) -> str:  # noqa: ARG002 - the same
        """See Places."""
        return self._names[collection]


class MemoryPlaces:
    """A collection for each user and kind, in the memory of this process."""

    tunable = False
    purged = "the store lies in memory and has no disk to purge"

    def __init__(self, client: QdrantClient, dim: int) -> None:
        # Concurrent writes corrupt the client's local mode (qdrant-client 1.20).
        self.guard: AbstractContextManager[Any] = RLock()
        self._client = client
        self._dim = dim
        self._names: dict[tuple[str, str, str], str] = {}

    def of(self, collection: str, where: Where) -> list[str]:
        """See Places."""
        return [
            name
            for (held, user_id, kind), name in self._names.items()
            if held == collection and where.user_id in (None, user_id) and where.kind in (None, kind)
        ]

    def of_point(self, collection: str, payload: Mapping[str, Any]) -> str:
        """See Places."""
        key = (collection, payload["user_id"], payload["kind"])
        if key not in self._names:
            self._names[key] = f"{collection}-{len(self._names)}"
            self._make(self._names[key])
        return self._names[key]

    def _make(self, name: str) -> None:
        self._client.create_collection(name, vectors_config=vector_params(self._dim))
        for field in TEXT_FIELDS:
            index = models.TextIndexParams(type=models.TextIndexType.TEXT, scoring=True)
            self._client.create_payload_index(name, field, index)
