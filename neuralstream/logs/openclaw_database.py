"""OpenClaw's database of transcripts, `agent/openclaw-agent.sqlite`: read-only, also while the host writes to it.

An event is JSON text in `event_json`, or packed in `event_zstd`. Sessions that were put away are whole files of JSON
lines in an archive table; those put away as files (`sessions/cold/*.jsonl.zst`) are read as such.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import Log
from neuralstream.logs.files import decode, unpacked

__all__ = ["Stored", "database_entries", "is_database"]

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 5.0
_ARCHIVES = ("session_transcript_cold_archives", "session_transcript_archives")


class Stored(NamedTuple):
    """An entry as it is stored: its session, its line (or place in the session), and its value."""

    session_id: str
    line: int
    value: Any


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def database_entries(log: Log, path: Path) -> Iterator[Stored]:
    """The entries of every session in the order they were written; what is put away comes last.

    Raises:
        LogFormatError: the log's only file is no database of OpenClaw; one of several is a problem of the log.
    """
    try:
        with closing(_connect(path)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "transcript_events" not in tables:
                raise sqlite3.DatabaseError("it has no table transcript_events")
            yield from _live(log, path, database)
            for table in _ARCHIVES:
                if table in tables:
                    yield from _archived(log, path, database, table)
    except sqlite3.Error as error:
        if path == log.path:
            raise LogFormatError(f"cannot read {path}: {error}; name a database of OpenClaw") from error
        log.problem(1, f"not a database of OpenClaw: {error}", path)


def _connect(path: Path) -> sqlite3.Connection:
    # A database in WAL mode wants to write beside itself. Where it cannot and nothing is in the WAL, nobody writes.
    frozen = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"
    return sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)


def _live(log: Log, path: Path, database: sqlite3.Connection) -> Iterator[Stored]:
    columns = {row[1] for row in database.execute("PRAGMA table_info(transcript_events)")}
    packed = "event_zstd" if "event_zstd" in columns else "NULL"
    rows = database.execute(
        f"SELECT session_id, seq, event_json, {packed} FROM transcript_events ORDER BY session_id, seq"  # noqa: S608 - two constants
    )
    for session_id, seq, text, blob in rows:
        if (entry := _entry(log, path, seq, text if text is not None else blob)) is not None:
            yield Stored(session_id, seq, entry)


def _archived(log: Log, path: Path, database: sqlite3.Connection, table: str) -> Iterator[Stored]:
    rows = database.execute(f"SELECT session_id, archive_blob FROM {table} WHERE archive_blob IS NOT NULL")  # noqa: S608 - a constant
    for session_id, blob in rows:
        try:
            lines = unpacked(blob).splitlines()
        except ValueError as error:
            log.problem(1, f"the archive of session {session_id} cannot be read: {error}", path)
            continue
        for line, raw in enumerate(lines, 1):
            if raw.strip() and (entry := _entry(log, path, line, raw)) is not None:
                yield Stored(session_id, line, entry)


def _entry(log: Log, path: Path, line: int, stored: Any) -> Any:
    """The value of a stored event; None is a problem by now."""
    try:
        raw = unpacked(stored) if isinstance(stored, bytes) else stored
        return decode(raw.decode("utf-8", errors="replace").strip() if isinstance(raw, bytes) else str(raw).strip())
    except ValueError as error:
        log.problem(line, f"not JSON: {error}", path)
        return None
