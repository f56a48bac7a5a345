"""Damaged files are read as far as they can be, and what cannot be read is reported with its line."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.errors import LogFormatError
from neuralstream.logs import files, read_log
from neuralstream.logs.base import Log
from neuralstream.logs.files import decode, log_files, read_lines, read_records, unpacked

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def _log(path):
    return Log(Path(path), "test", lambda _: iter(()))


def _records(path, **options):
    log = _log(path)
    found = list(read_records(log, log.path, **options))
    return [(record.line, record.value) for record in found], [problem.line for problem in log.problems]


def test_one_value_a_line(write):
    """Byte order mark, CRLF, blank lines and a torn last line are taken in stride."""
    path = write("a.jsonl", b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{"a": 2}\r\n{"a": ')
    assert _records(path) == ([(1, {"a": 1}), (4, {"a": 2})], [5])


def test_bytes_that_are_no_text(write):
    """Invalid UTF-8 is replaced, NULs disappear, and a line of NULs is blank."""
    path = write("a.jsonl", b'{"a": "caf\xe9"}\n\0\0\0\n{"b": "x\0y"}\n')
    assert _records(path) == ([(1, {"a": "caf\ufffd"}), (3, {"b": "xy"})], [])


def test_text_that_no_store_can_hold():
    """Escaped lone surrogates and NULs go, in keys too; pairs stay."""
    assert decode(r'{"k\u0000": ["\ud83d", "\ud83d\ude00", "a\u0000b"]}') == {"k": ["\ufffd", "\U0001f600", "ab"]}


@pytest.mark.parametrize("text", ["{", "[1,]", "nope", "1 2", "[" * 100_000, "1" * 5000, ""])
def test_what_is_not_json_is_a_value_error(text):
    """Whatever is wrong with it, one kind of error says so."""
    with pytest.raises(ValueError, match=r"."):
        decode(text)


def test_gzip_is_unpacked_by_content(write):
    """A packed file is read whatever its name; where it breaks off, that is a problem after what could be read."""
    lines = [{"n": number, "pad": str(number) * 50} for number in range(2000)]
    packed = gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert len(_records(write("whole.jsonl", packed))[0]) == 2000
    read, problems = _records(write("torn.jsonl.gz", packed[: len(packed) // 2]))
    assert 0 < len(read) < 2000
    assert len(problems) == 1


@given(st.lists(st.dictionaries(TEXT, st.integers() | TEXT), max_size=6), st.sampled_from([None, 0, 2]))
def test_arrays_however_written(tmp_path_factory, values, indent):
    """The entries of an array are its records, on one line or on many, each with the line it starts on."""
    path = tmp_path_factory.mktemp("array") / "a.json"
    text = json.dumps(values, indent=indent)
    path.write_text(text, encoding="utf-8")
    found, problems = _records(path)
    assert [value for _, value in found] == values
    assert problems == []
    if indent is not None:
        assert all(text.splitlines()[line - 1].strip().startswith("{") for line, _ in found)


def test_an_array_that_breaks_off(write):
    """The entries before the damage are read, and the last good one is named."""
    path = write("a.json", '[\n {"n": 1},\n\n {"n": 2},\n {"n": ')
    assert _records(path) == ([(2, {"n": 1}), (4, {"n": 2})], [4])
    assert _records(write("b.json", "[1, 2] [3]")) == ([(1, 1), (1, 2)], [1])
    assert _records(write("c.json", "[1 2]")) == ([(1, 1)], [1])


def test_one_object_over_several_lines(write):
    """A pretty-printed object is one record."""
    assert _records(write("a.json", '{\n "a": 1\n}\n')) == ([(1, {"a": 1})], [])


def test_lines_only_survive_a_first_line_that_looks_like_an_array(write):
    """Where the format is one value a line, a damaged first line costs itself alone."""
    assert _records(write("a.jsonl", '[garb\n{"a": 1}\n'), lines_only=True) == ([(2, {"a": 1})], [1])


def test_a_line_separator_inside_a_string_ends_no_line(write):
    """Only a newline ends a line, not U+2028."""
    assert _records(write("a.jsonl", '{"a": "x\u2028y"}\n')) == ([(1, {"a": "x\u2028y"})], [])


def test_missing_files(tmp_path):
    """A log that is missing is an error; one file of a folder that went missing is a problem."""
    gone = tmp_path / "gone.jsonl"
    with pytest.raises(LogFormatError, match=r"gone\.jsonl"):
        list(read_lines(Log(gone, "test", lambda _: iter(())), gone))
    folder = Log(tmp_path, "test", lambda _: iter(()))
    assert list(read_lines(folder, gone)) == []
    assert [problem.file for problem in folder.problems] == ["gone.jsonl"]
    with pytest.raises(LogFormatError, match=r"holds no \.jsonl"):
        log_files(folder)


def test_zstd_is_unpacked(write):
    """Packed as a whole or in pieces put behind each other."""
    lines = b'{"messages": [{"role": "user", "content": "x"}]}\n'
    path = write("a.jsonl.zst", zstandard.compress(lines) + zstandard.compress(lines))
    assert [turn.text for turn in read_log(path)] == ["x", "x"]


def test_damaged_zstd_is_a_problem(write):
    """It says where it breaks off, and ends no reading of a folder."""
    assert _records(write("a.jsonl.zst", zstandard.compress(b"[1]")[:6] + b"nonsense")) == ([], [1])


def test_rotated_pieces_are_read_first(write):
    """A file and its earlier pieces are one sequence of lines; a piece that is gone is a problem."""
    old, new = write("a.jsonl.1", "1\n2\n"), write("a.jsonl", "3\n")
    log = Log(new, "x", lambda _: iter(()), rotated=(old.with_name("gone"), old))
    assert [tuple(record) for record in read_records(log, new)] == [(1, 1), (2, 2), (3, 3)]
    assert len(log.problems) == 1


def _zipped(path, text):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", text)
    return path


@pytest.mark.parametrize("kind", ["gz", "zst", "zip"])
def test_a_bomb_is_not_unpacked_to_its_end(tmp_path, monkeypatch, kind):
    """What was before the limit is read, whether the rest is one line or many, and the limit is told."""
    monkeypatch.setattr(files, "_MOST_UNPACKED", (2**20, 0))
    path = tmp_path / f"log.{kind}"
    for filling in (" " * 2**21, "\n" * 2**21):
        text = json.dumps({"a": 1}) + "\n" + filling
        if kind == "zip":
            path = _zipped(path, text) / "conversations.json"
        else:
            path.write_bytes((gzip.compress if kind == "gz" else zstandard.compress)(text.encode()))
        log = _log(path)
        assert [record.value for record in read_records(log, path, lines_only=True)] == [{"a": 1}]
        (problem,) = log.problems
        assert "unpacks to more than 1 MB" in problem.reason
        path = tmp_path / f"log.{kind}"


def test_a_bomb_in_a_database_is_refused_with_the_limit(monkeypatch):
    """A packed event of a database is unpacked as far as the limit; what is within it is whole, torn data is told."""
    monkeypatch.setattr(files, "_MOST_UNPACKED", (2**20, 0))
    within = b"word " * 100_000
    assert unpacked(zstandard.compress(within)) == within
    with pytest.raises(ValueError, match="unpacks to more than 1 MB"):
        unpacked(zstandard.compress(b" " * 2**22))
    with pytest.raises(ValueError, match="breaks off"):
        unpacked(zstandard.compress(within)[:-4])


def test_a_log_that_shrinks_well_is_read_whole(tmp_path):
    """The limit is far above what logs do: this one shrinks a hundred times."""
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress((json.dumps({"a": "word " * 200}) + "\n").encode() * 5000))
    log = _log(path)
    assert len(list(read_records(log, path))) == 5000
    assert not log.problems


def test_a_zip_file_with_a_password_is_a_problem(tmp_path):
    """Python says so with a RuntimeError."""
    path = _zipped(tmp_path / "export.zip", "[]")
    packed = bytearray(path.read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        packed[packed.find(header) + flags] |= 1
    path.write_bytes(packed)
    log = _log(path)
    assert list(read_records(log, path / "conversations.json")) == []
    assert "password" in log.problems[0].reason
    with pytest.raises(LogFormatError, match="password"):
        read_log(path)
