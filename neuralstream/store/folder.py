"""The embedded store's folder: who holds it, which generation of its files counts, and by what it was filled.

    store/
      lock                 held with flock by the one process that owns the store
      store.json           the generation that counts, and its fingerprint
      generation-…/turns   the engine's files
      generation-…/gems
      next/                a store that is being filled to replace this one

A rewrite (purge, reindex) fills a new generation beside the old one and then replaces `store.json`, in one rename. A
crash at any moment leaves a `store.json` that names a complete generation; the rest is removed at the next open.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

from neuralstream.clock import iso_time, parse_time, short_time, utc_now
from neuralstream.errors import MissingPartError, StoreError, StoreLockedError
from neuralstream.files import sync, write_whole
from neuralstream.store.base import Fingerprint
from neuralstream.store.schema import SCHEMA_VERSION

__all__ = ["Generation", "StoreFolder"]

_LOCK = "lock"
_MANIFEST = "store.json"
_PREFIX = "generation-"
_NEXT = "next"


class Generation(NamedTuple):
    """A complete set of the engine's files, what it was filled by, and under which version of the schema."""

    path: Path
    fingerprint: Fingerprint
    schema_version: int = SCHEMA_VERSION


class StoreFolder:
    """The folder, locked for this process until `release`.

    Args:
        path: the folder; made if missing.

    Raises:
        StoreLockedError: another process, or another store of this one, holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._lock: IO[str] | None = _take_lock(path / _LOCK)
        with ExitStack() as on_error:
            on_error.callback(self.release)
            self.current = _read_manifest(path / _MANIFEST)
            self.sweep()
            on_error.pop_all()

    @property
    def next(self) -> Path:
        """Where a whole store can be filled that `adopt_next` then puts in this one's place."""
        return self.path / _NEXT

    def fresh(self) -> Path:
        """A path for a generation that does not count yet."""
        path = self.path / f"{_PREFIX}{uuid4().hex[:12]}"
        path.mkdir()
        return path

    def publish(self, generation: Generation, *, empty: bool = False) -> None:
        """Make a generation the one that counts, and remove every other.

        One that holds nothing yet can be made again, so it need not reach the disk first.
        """
        for folder, _, files in os.walk(generation.path) if not empty else ():
            for name in files:
                sync(Path(folder) / name)
            sync(Path(folder))
        written = {
            "schema_version": generation.schema_version,
            "generation": generation.path.name,
            "fingerprint": asdict(generation.fingerprint),
        }
        write_whole(self.path / _MANIFEST, [json.dumps(written, indent=2).encode() + b"\n"])
        self.current = generation
        self.sweep()

    def adopt_next(self) -> None:
        """Make what the store in `next` holds the generation that counts."""
        filled = _read_manifest(self.next / _MANIFEST)
        assert filled is not None
        self.publish(filled._replace(path=filled.path.rename(self.path / filled.path.name)))

    def sweep(self) -> None:
        """Remove what does not count: other generations, and a store in `next`."""
        kept = self.current.path.name if self.current else None
        for path in (*self.path.glob(f"{_PREFIX}*"), *self.path.glob(_NEXT)):
            if path.name != kept:
                shutil.rmtree(path)

    def release(self) -> None:
        """Let others open the folder. Releasing twice is fine."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _take_lock(path: Path) -> IO[str]:
    try:
        import fcntl
    except ImportError:
        raise MissingPartError(
            "the embedded store needs the file locks of Linux or macOS; here, set qdrant_url to a Qdrant server"
        ) from None
    lock = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = _describe(lock.read())
        lock.close()
        raise StoreLockedError(
            f"the store in {path.parent} is held by {holder}; one process owns the embedded store: stop it, or let "
            "`neuralstream serve` be that process and ask it with NeuralStreamClient, or set qdrant_url to a Qdrant "
            "server, which any number of processes may use"
        ) from None
    lock.truncate(0)
    json.dump({"pid": os.getpid(), "command": _command(), "since": iso_time(utc_now())}, lock)
    lock.flush()
    return lock


def _command() -> str:
    """The program and its subcommand. Arguments stay out: they may hold text that is to be forgotten later."""
    program, *arguments = [Path(sys.argv[0]).name or "python", *sys.argv[1:]]
    if not arguments:
        return program
    return f"{program} {arguments[0]} …" if arguments[0].isalpha() else f"{program} …"


def _describe(text: str) -> str:
    try:
        holder = json.loads(text)
        since = short_time(parse_time(holder["since"]))
        return f"process {holder['pid']} (`{holder['command']}`) since {since} UTC"
    except (ValueError, KeyError, TypeError):
        return "another process"


def _read_manifest(path: Path) -> Generation | None:
    try:
        written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        fingerprint = Fingerprint(**written["fingerprint"])
        return Generation(path.parent / written["generation"], fingerprint, int(written["schema_version"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} cannot be read ({error}); restore it from a backup of the folder") from error
