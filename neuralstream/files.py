"""The one way a file is written whole."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

__all__ = ["sync", "write_whole"]


def write_whole(path: Path, chunks: Iterable[bytes]) -> None:
    """Write a file beside its place, to the disk, and rename it: readers and crashes find the old one or the new one.

    Raises:
        OSError: it cannot be written; the old one stays, and nothing is left beside it.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with fresh.open("wb") as file:
            if path.exists():
                fresh.chmod(path.stat().st_mode)  # first of all: it may hold what only its owner reads
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)  # where it could not be put there
    sync(path.parent)


def sync(path: Path) -> None:
    """See to it that what was written to a file, or which files a folder holds, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
