"""How far a watcher has read, in an SQLite file of the data folder: no words, only ids.

A log's state and the turns taken from it are written in one transaction, after the turns were captured. A process
killed in between captures them again, which does nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

__all__ = ["Positions", "Seen", "Taken"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, due REAL);
CREATE INDEX IF NOT EXISTS states ON logs (stamp);
CREATE TABLE IF NOT EXISTS messages (
    user_id TEXT NOT NULL, key TEXT NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (user_id, key)
) WITHOUT ROWID;
"""


_TAKE = """
INSERT INTO messages VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET parts = max(parts, excluded.parts)
"""


class Seen(NamedTuple):
    """The state of a log when it was read, and when it must be read again even if it stays so (seconds since 1970)."""

    stamp: str
    due: float | None


class Taken(NamedTuple):
    """A message of a turn that memory has, and how many parts of the turn it gave."""

    user_id: str
    key: str
    parts: int


class Positions:
    """What was read and taken, kept on disk.

    Args:
        path: the file; it is made where it is missing.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path, timeout=10)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(_SCHEMA)

    def is_due(self, stamp: str, now: float) -> bool:
        """Whether a log in this state must be read: it never was, under this name or another, or turns wait in it."""
        row = self._database.execute("SELECT min(due), count(*) FROM logs WHERE stamp = ?", (stamp,)).fetchone()
        due, known = row
        return not known or (due is not None and due <= now)

    def parts(self, user_id: str, key: str) -> int:
        """How many parts memory has of a message; 0 where it has none."""
        row = self._database.execute(
            "SELECT parts FROM messages WHERE user_id = ? AND key = ?", (user_id, key)
        ).fetchone()
        return int(row[0]) if row else 0

    def record(self, name: str, seen: Seen, taken: Iterable[Taken]) -> None:
        """Write down, all or nothing, that a log was read and what was taken from it."""
        with self._database:
            self._database.executemany(_TAKE, taken)
            self._database.execute("INSERT OR REPLACE INTO logs VALUES (?, ?, ?)", (name, *seen))

    def take(self, taken: Iterable[Taken]) -> None:
        """Write down, all or nothing, what was taken."""
        with self._database:
            self._database.executemany(_TAKE, taken)

    def forget(self) -> None:
        """Know nothing: everything is read again."""
        with self._database:
            self._database.execute("DELETE FROM logs")
            self._database.execute("DELETE FROM messages")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
