"""Finding logs: files of several formats in one folder, rotated pieces, and what is no log."""

import json
import os

import pytest

from neuralstream.errors import LogFormatError
from neuralstream.logs.sources import find_logs, growing_files

OPENAI = {"id": "c", "messages": [{"role": "user", "content": "x"}]}
CODEX = {"timestamp": "2026-03-01T09:00:00Z", "type": "session_meta", "payload": {"id": "s"}}


def _pieces(path):
    return list(growing_files(path, user_id="u", max_tool_chars=9))


def test_a_folder_may_hold_several_formats(write, tmp_path):
    """Each file is read in its own; what is in none is named with what was seen."""
    write("a/x.jsonl", [CODEX])
    write("b/y.json", json.dumps(OPENAI))
    write("b/sessions.json", '{"index": 1}')
    write("notes.md", "text")
    found = find_logs(str(tmp_path))
    assert [(log.path.name, log.format) for log in found.logs] == [("x.jsonl", "codex"), ("y.json", "openai")]
    assert [(file.name, "'index'" in reason) for file, reason in found.unknown.items()] == [("sessions.json", True)]


def test_a_file_by_itself_must_be_a_log(write, tmp_path):
    """What is named must be readable."""
    for path in (write("poem.txt", "roses"), tmp_path / "gone"):
        with pytest.raises(LogFormatError):
            find_logs(str(path))


def test_a_data_set_is_one_log(write, tmp_path):
    """Its folder names the users."""
    turn = {"turn_id": "t", "session_id": "s", "parts": [{"role": "user", "text": "x"}]}
    write("set/conversations/ana.jsonl", [turn])
    (log,) = find_logs(str(tmp_path / "set")).logs
    assert [turn.user_id for turn in log] == ["ana"]


def test_rotated_pieces_come_before_their_file(write, tmp_path):
    """Older pieces first, each read with the one before it; another file's pieces do not mix in."""
    for age, name in enumerate(["x.jsonl.old", "x.jsonl.1", "x.jsonl", "y.jsonl"]):
        os.utime(write(f"logs/{name}", [OPENAI | {"id": name}]), (age, age))
    pieces = _pieces(tmp_path / "logs")
    assert [piece.name.rpartition("/")[2] for piece in pieces] == ["x.jsonl.old", "x.jsonl.1", "x.jsonl", "y.jsonl"]
    logs = [piece.read() for piece in pieces]
    assert [[older.name for older in log.rotated] for log in logs] == [[], ["x.jsonl.old"], ["x.jsonl.1"], []]
    assert [turn.session_id for turn in logs[2]] == ["x.jsonl.1", "x.jsonl"]
    assert [piece.name for piece in _pieces(tmp_path / "logs" / "x.jsonl")] == [piece.name for piece in pieces[:3]]


def test_a_copy_is_no_earlier_piece(write, tmp_path):
    """A file that begins like another was copied before it is cut: its lines must not count twice."""
    write("x.jsonl.1", [OPENAI])
    write("x.jsonl", [OPENAI])
    assert [piece.read().rotated for piece in _pieces(tmp_path)] == [(), ()]


def test_a_change_of_any_kind_changes_the_stamp(write, tmp_path):
    """Growing, rewriting with equal length, and a database's journal."""
    path = write("x.sqlite", "1")
    stamps = [_pieces(tmp_path)[0].stamp]
    os.utime(path, (1, 1))
    stamps.append(_pieces(tmp_path)[0].stamp)
    write("x.sqlite-wal", "2")
    stamps.append(_pieces(tmp_path)[0].stamp)
    assert len(set(stamps)) == 3


def test_what_is_not_there_yet_is_nothing(tmp_path):
    """A path may come later."""
    assert _pieces(tmp_path / "later") == []
