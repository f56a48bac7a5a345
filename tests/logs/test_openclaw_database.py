"""OpenClaw's database: plain, packed and archived transcripts, read while the host writes."""

import json
import sqlite3
from contextlib import closing

import pytest
import zstandard

from neuralstream.errors import LogFormatError
from neuralstream.logs import detect_format, read_log

SCHEMA = """
    CREATE TABLE transcript_events(session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
        created_at INTEGER NOT NULL, event_zstd BLOB, event_utf8_bytes INTEGER, PRIMARY KEY(session_id, seq));
    CREATE TABLE session_transcript_cold_archives(session_id TEXT PRIMARY KEY, archive_name TEXT, archive_blob BLOB);
"""


def _entry(key, parent, role, content):
    message = {"role": role, "content": content}
    return {"type": "message", "id": key, "parentId": parent, "timestamp": "2026-09-01T10:00:00Z", "message": message}


SESSION = [
    {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-09-01T10:00:00Z"},
    _entry("a1", None, "user", "Which port?"),
    _entry("a2", "a1", "assistant", [{"type": "text", "text": "7443."}]),
]


@pytest.fixture
def database(tmp_path):
    """An open database in WAL mode, as the host holds it, with one session."""
    path = tmp_path / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.executescript(SCHEMA)
        _add(opened, "s1", SESSION)
        yield path, opened


def _add(opened, session_id, entries, start=0):
    for seq, entry in enumerate(entries, start):
        text = json.dumps(entry)
        row = (session_id, seq, None, 0, zstandard.compress(text.encode()), len(text)) if seq % 2 else (
            session_id, seq, text, 0, None, None)  # fmt: skip
        opened.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?)", row)
    opened.commit()


def _words(turns):
    return [[part.text for part in turn.parts] for turn in turns]


def test_sessions_are_read_beside_their_writer(database):
    """What the host wrote is there at once, what it has not committed is not, and nothing locks it out."""
    path, opened = database
    assert detect_format(path) == "openclaw"
    log = read_log(path)
    assert _words(log) == [["Which port?", "7443."]]
    opened.execute("INSERT INTO transcript_events VALUES ('s1', 3, ?, 0, NULL, NULL)", ("{}",))
    assert _words(log) == [["Which port?", "7443."]]
    opened.rollback()
    _add(opened, "s1", [_entry("b1", "a2", "user", "Thanks")], 3)
    assert _words(log) == [["Which port?", "7443."], ["Thanks"]]
    assert (log.problems, log.used, log.skipped) == ([], 3, 1)


def test_a_session_has_the_ids_it_had_as_a_file(database, write):
    """Moving from files to the database captures nothing twice."""
    path, _ = database
    assert [turn.turn_id for turn in read_log(path)] == [turn.turn_id for turn in read_log(write("s1.jsonl", SESSION))]


def test_archives_are_read(database, write):
    """Sessions put away in the database, and those put away as packed files beside it."""
    path, opened = database
    text = "\n".join(json.dumps(entry | {"id": "s2"} if entry["type"] == "session" else entry) for entry in SESSION)
    opened.execute(
        "INSERT INTO session_transcript_cold_archives VALUES ('s2', 'x', ?)", (zstandard.compress(text.encode()),)
    )
    opened.execute("INSERT INTO session_transcript_cold_archives VALUES ('s3', 'y', ?)", (b"\x28\xb5\x2f\xfdtorn",))
    opened.commit()
    packed = zstandard.ZstdCompressor().compress(text.replace('"s2"', '"s4"').encode())
    write("sessions/cold/0badcafe.jsonl.zst", packed)
    log = read_log(path.parents[1])
    assert [turn.turn_id for turn in log] == ["s1:a1", "s2:a1", "s4:a1"]
    assert ["the archive of session s3" in problem.reason for problem in log.problems] == [True]


def test_damaged_events_are_problems(database):
    """An event that cannot be read costs itself alone."""
    path, opened = database
    opened.execute("INSERT INTO transcript_events VALUES ('s1', 3, '{torn', 0, NULL, NULL)")
    opened.execute("INSERT INTO transcript_events VALUES ('s1', 4, NULL, 0, ?, NULL)", (b"\x28\xb5\x2f\xfdx",))
    opened.execute("INSERT INTO transcript_events VALUES ('s1', 5, NULL, 0, NULL, NULL)")
    opened.commit()
    log = read_log(path)
    assert _words(log) == [["Which port?", "7443."]]
    assert [problem.line for problem in log.problems] == [3, 4, 5]


def test_a_snapshot_in_a_folder_that_cannot_be_written_is_read(database):
    """A backup on a read-only medium has no journal beside it and needs none."""
    path, opened = database
    copy = path.parents[1] / "backup" / "copy.sqlite"
    copy.parent.mkdir()
    opened.execute("VACUUM INTO ?", (str(copy),))
    copy.parent.chmod(0o500)
    try:
        assert _words(read_log(copy)) == [["Which port?", "7443."]]
    finally:
        copy.parent.chmod(0o700)


def test_another_database_is_refused(tmp_path, write):
    """Alone it is an error, in a folder of sessions a problem."""
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE songs(name)")
    with pytest.raises(LogFormatError, match="no table transcript_events"):
        list(read_log(path))
    write("s1.jsonl", SESSION)
    log = read_log(tmp_path, "openclaw")
    assert _words(log) == [["Which port?", "7443."]]
    assert [problem.file for problem in log.problems] == ["other.sqlite"]
