"""Where memory is kept."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.store.base import Fingerprint, MemoryStore, Record
    from neuralstream.store.shared import Rebuild

__all__ = ["open_store", "rebuilding", "scroll_earlier", "store_address"]

_FOLDER = "store"


def open_store(settings: Settings, fingerprint: Fingerprint, *, check: bool = True) -> MemoryStore:
    """The store that the settings name: a Qdrant server, or the embedded engine in the data folder.

    Args:
        settings: `qdrant_url` decides; unset is the embedded engine in `home / "store"`.
        fingerprint: what the store is filled by.
        check: refuse a store that was filled by something else. Without, it opens under what it was filled by.

    Raises:
        MissingPartError: the engine is not installed, or the server does not answer or is too old.
        StoreLockedError: another process holds the embedded store.
        StoreMismatchError: the store was filled by something else, or is none of ours.
    """
    if settings.qdrant_url is not None:
        from neuralstream.store.qdrant import open_qdrant

        return open_qdrant(settings, fingerprint, check=check)
    from neuralstream.store.edge import EdgeStore

    return EdgeStore(settings.home / _FOLDER, fingerprint, check=check)


def store_address(settings: Settings) -> str:
    """Where the store is, without secrets: the same text for everybody who uses it.

    An embedded store beside an embedded buffer moves with it, to other folders and machines: each new container has
    another name.
    """
    if settings.qdrant_url is None and settings.redis_url is None:
        return "embedded beside it"
    if settings.qdrant_url is None:
        return f"{socket.gethostname()}:{(settings.home / _FOLDER).resolve()}"
    return f"{settings.qdrant_url.get_secret_value().rpartition('@')[2]} {settings.collection}"


def rebuilding(settings: Settings, fingerprint: Fingerprint) -> AbstractContextManager[Rebuild]:
    """Fill the store anew, in a `with` block that is given the old store and an empty new one.

    The new store takes the old one's place, in one step, when the block ends without an error; otherwise, and after a
    crash, the old one stays as it was. What the block does not carry over is gone afterwards. Nobody else may write
    meanwhile: the embedded store is locked, a server's other writers have to be stopped.

    Args:
        settings: where the store is.
        fingerprint: what the new store is filled by.

    Raises:
        StoreError: the store is in memory only.
    """
    if settings.qdrant_url is not None:
        from neuralstream.store.qdrant import rebuild_qdrant

        return rebuild_qdrant(settings, fingerprint)
    from neuralstream.store.edge import rebuild_edge

    return rebuild_edge(settings.home / _FOLDER, fingerprint)


def scroll_earlier(settings: Settings) -> Iterator[Record]:
    """Payloads of an earlier NeuralStream's collection on the server; nothing where there is none."""
    if settings.qdrant_url is not None:
        from neuralstream.store.qdrant import read_earlier

        yield from read_earlier(settings)
