"""Vectors kept on disk, so that a text is embedded once: one SQLite file per model, usable by several processes.

On disk lie vectors and SHA-256 hashes of texts, no text. A cache that cannot be read or written costs time and a
warning, never an answer; only `forget` insists.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import weakref
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from neuralstream.embed.vectors import means_of_chunks
from neuralstream.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from neuralstream.embed.base import Embedder, Vectors

__all__ = ["CachedEmbedder"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors (text BLOB, kind TEXT, vector BLOB, PRIMARY KEY (text, kind)) WITHOUT ROWID"
)
_CHUNKS = "chunks"
"""The kind of a stored text's vectors: all of its chunks', one after the other."""

_WAIT = 30.0
"""Seconds to wait for another process that writes."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class CachedEmbedder:
    """An embedder that looks on disk first. Within one call, equal texts are embedded once.

    Args:
        embedder: makes the vectors that are not on disk yet.
        folder: where the files lie, one per model digest; it is created.
        query_prefix: a query prefix that is not the model's own; vectors of queries are kept apart by it.
    """

    def __init__(self, embedder: Embedder, folder: Path | str, *, query_prefix: str | None = None) -> None:
        self._embedder = embedder
        self._folder = Path(folder).expanduser()
        self._query = "query" if query_prefix is None else f"query {query_prefix}"
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        """The model."""
        return self._embedder.name

    @property
    def digest(self) -> str:
        """Identifies the weights."""
        return self._embedder.digest

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._embedder.dim

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts that are stored: for each text (chunks, dim) float32, rows L2-normalised."""
        return self._embed(texts, _CHUNKS, self._embedder.embed_chunks)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised."""
        return means_of_chunks(self.embed_chunks(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question: (dim,) float32, L2-normalised."""
        found = self._embed([text], self._query, lambda texts: [self._embedder.embed_query(texts[0])[np.newaxis]])
        vector: Vectors = found[0][0]
        return vector

    def known_share(self, text: str) -> float:
        """The share of a question's tokens that the model has a meaning for."""
        return self._embedder.known_share(text)

    def forget(self, texts: Iterable[str]) -> int:
        """Remove texts' vectors, as documents and as queries, from the files of every model, and from the free pages.

        Returns:
            How many vectors were removed.

        Raises:
            StoreError: a file cannot be rewritten; the texts' hashes and vectors may still lie in it.
        """
        hashes = _hashes(texts)
        removed = 0
        with self._lock:
            for file in self._files():
                try:
                    removed += _forget(file, hashes)
                except sqlite3.Error as error:
                    if not _is_corrupt(error):
                        raise StoreError(f"cannot remove vectors from {file}: {error}; delete the file") from error
                    self._disconnect()
                    _set_aside(file)
            # What was set aside as corrupt cannot be searched for the texts.
            for file in self._folder.glob("*.corrupt"):
                file.unlink(missing_ok=True)
        return removed

    def holds(self, texts: Iterable[str]) -> bool:
        """Whether a vector of any of the texts lies in any model's file.

        Raises:
            StoreError: a file cannot be read.
        """
        hashes = _hashes(texts)
        with self._lock:
            for file in self._files():
                try:
                    if _finds(file, hashes):
                        return True
                except sqlite3.Error as error:
                    raise StoreError(f"cannot read {file}: {error}; delete the file") from error
        return False

    def close(self) -> None:
        """Close the file, and the embedder where it can be closed."""
        self._disconnect()
        getattr(self._embedder, "close", lambda: None)()

    def _disconnect(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _embed(self, texts: Sequence[str], kind: str, embed: Callable[[Sequence[str]], list[Vectors]]) -> list[Vectors]:
        unique = dict.fromkeys(texts)
        hashes = {text: _hash(text) for text in unique}
        found = self._read(list(hashes.values()), kind)
        missing = [text for text in unique if hashes[text] not in found]
        if missing:
            made = dict(zip((hashes[text] for text in missing), embed(missing), strict=True))
            self._write(made, kind)
            found |= made
        return [found[hashes[text]] for text in texts]

    def _read(self, hashes: Sequence[bytes], kind: str) -> dict[bytes, Vectors]:
        size = 4 * self.dim
        query = "SELECT vector FROM vectors WHERE text = ? AND kind = ?"

        def read(connection: sqlite3.Connection) -> dict[bytes, Vectors]:
            found = {}
            for text in hashes:
                row = connection.execute(query, (text, kind)).fetchone()
                if row and row[0] and len(row[0]) % size == 0:
                    found[text] = np.frombuffer(row[0], dtype="<f4").astype(np.float32).reshape(-1, self.dim)
            return found

        return self._use(read) or {}

    def _write(self, vectors: dict[bytes, Vectors], kind: str) -> None:
        rows = [(text, kind, chunks.astype("<f4").tobytes()) for text, chunks in vectors.items()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

        self._use(write)

    def _use(self, action: Callable[[sqlite3.Connection], _T]) -> _T | None:
        """Run an action on this model's file; None where the file cannot be used."""
        with self._lock:
            for _ in range(2):
                try:
                    if self._connection is None:
                        self._folder.mkdir(parents=True, exist_ok=True)
                        self._connection = _open(self._file)
                        weakref.finalize(self, self._connection.close)
                    return action(self._connection)
                except (sqlite3.Error, OSError) as error:
                    self._disconnect()
                    if not _is_corrupt(error):
                        _log.warning("the embedding cache %s cannot be used: %s", self._file, error)
                        return None
                    _set_aside(self._file)
        return None

    @property
    def _file(self) -> Path:
        return self._folder / f"{hashlib.sha256(self.digest.encode()).hexdigest()[:16]}.sqlite"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.sqlite"))


def _open(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_WAIT, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(_SCHEMA)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _finds(file: Path, hashes: Sequence[bytes]) -> bool:
    with closing(_open(file)) as connection:
        return any(connection.execute("SELECT 1 FROM vectors WHERE text = ?", (text,)).fetchone() for text in hashes)


def _forget(file: Path, hashes: Sequence[bytes]) -> int:
    with closing(_open(file)) as connection:
        with connection:
            removed = connection.executemany(
                "DELETE FROM vectors WHERE text = ?", [(text,) for text in hashes]
            ).rowcount
        if removed:
            connection.execute("VACUUM")
            # Overwritten pages also lie in the write-ahead log until it is cut.
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return removed


def _set_aside(file: Path) -> None:
    _log.warning("the embedding cache %s is corrupt; it is set aside as %s.corrupt and filled anew", file, file.name)
    with suppress(FileNotFoundError):
        file.replace(file.with_name(file.name + ".corrupt"))
    for log in ("-wal", "-shm"):
        file.with_name(file.name + log).unlink(missing_ok=True)


def _is_corrupt(error: Exception) -> bool:
    """Whether the file itself is broken, not merely locked, read-only or on a full disk."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _hashes(texts: Iterable[str]) -> list[bytes]:
    return list({_hash(text): None for text in texts})
