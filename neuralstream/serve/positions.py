"""How far a watcher has read, in an SQLite file of the data folder: no words, only ids.

What was read counts at once, and is written down once memory has it: a log's state and the turns taken from it, in
one transaction. A process killed in between captures them again, which does nothing.
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
CREATE TABLE IF NOT EXISTS memory (id INTEGER PRIMARY KEY, place TEXT NOT NULL);
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
        self._new_logs: dict[str, Seen] = {}
        self._new_parts: dict[tuple[str, str], int] = {}

    def is_due(self, stamp: str, now: float) -> bool:
        """Whether a log in this state must be read: it never was, under this name or another, or turns wait in it."""
        rows = dict(self._database.execute("SELECT name, due FROM logs WHERE stamp = ?", (stamp,)))
        rows = {name: due for name, due in rows.items() if name not in self._new_logs}
        rows |= {name: seen.due for name, seen in self._new_logs.items() if seen.stamp == stamp}
        return not rows or any(due is not None and due <= now for due in rows.values())

    def parts(self, user_id: str, key: str) -> int:
        """How many parts were taken of a message; 0 where none was."""
        row = self._database.execute(
            "SELECT parts FROM messages WHERE user_id = ? AND key = ?", (user_id, key)
        ).fetchone()
        return max(int(row[0]) if row else 0, self._new_parts.get((user_id, key), 0))

    def record(self, name: str, seen: Seen) -> None:
        """Know that a log was read."""
        self._new_logs[name] = seen

    def take(self, taken: Iterable[Taken]) -> None:
        """Know what was taken."""
        for one in taken:
            message = (one.user_id, one.key)
            self._new_parts[message] = max(one.parts, self._new_parts.get(message, 0))

    def save(self) -> None:
        """Write down, all or nothing, what is known: memory has it."""
        with self._database:
            self._database.executemany(_TAKE, ((*message, parts) for message, parts in self._new_parts.items()))
            self._database.executemany(
                "INSERT OR REPLACE INTO logs VALUES (?, ?, ?)", ((name, *seen) for name, seen in self._new_logs.items())
            )
        self._new_logs.clear()
        self._new_parts.clear()

    def for_memory(self, place: str) -> str | None:
        """Note which memory they are of; returns which other one they were of, or None."""
        row = self._database.execute("SELECT place FROM memory").fetchone()
        with self._database:
            self._database.execute("INSERT OR REPLACE INTO memory VALUES (0, ?)", (place,))
        return row[0] if row and row[0] != place else None

    def forget(self) -> None:
        """Know nothing: everything is read again."""
        self._new_logs.clear()
        self._new_parts.clear()
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
