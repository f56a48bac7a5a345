"""Reading files of JSON that may be damaged: torn, truncated, badly encoded, or still being written."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import Log

__all__ = ["Record", "decode", "log_files", "read_lines", "read_records"]

_GZIP_MAGIC = b"\x1f\x8b"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s*")
_JSON = json.JSONDecoder(strict=False)


class Record(NamedTuple):
    """A JSON value and the line it starts on."""

    line: int
    value: Any


def log_files(log: Log, folder: Path | None = None) -> list[Path]:
    """The files of a log: itself, or every `.jsonl` and `.jsonl.gz` below a folder, sorted.

    Raises:
        LogFormatError: the folder holds none.
    """
    root = folder or log.path
    if not root.is_dir():
        return [root]
    found = sorted(path for pattern in ("*.jsonl", "*.jsonl.gz") for path in root.rglob(pattern))
    if not found:
        raise LogFormatError(f"{root} holds no .jsonl file; name a file, or the folder that holds the sessions")
    return found


def read_lines(log: Log, path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers; gzip is unpacked, damaged bytes are replaced.

    Raises:
        LogFormatError: the log's only file cannot be read; one of several is a problem of the log.
    """
    number = 0
    try:
        with path.open("rb") as plain:
            packed = plain.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
            for number, raw in enumerate(gzip.GzipFile(fileobj=plain) if packed else plain, 1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").replace("\0", "").strip()
                if text:
                    yield number, text
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno and path == log.path:
            raise LogFormatError(f"cannot read {path}: {error.strerror}; name an existing log") from error
        log.problem(number + 1, f"the file breaks off: {error}", path)


def read_records(log: Log, path: Path, *, lines_only: bool = False) -> Iterator[Record]:
    """The JSON values of a file: one a line, the entries of one array, or a single object over several lines.

    Args:
        log: takes what cannot be read.
        path: the file.
        lines_only: the format is one value a line, whatever the first line looks like.

    Raises:
        LogFormatError: the log's only file cannot be read; one of several is a problem of the log.
    """
    lines = read_lines(log, path)
    for number, text in lines:
        if not lines_only and (text[0] == "[" or text == "{"):
            numbers, texts = zip((number, text), *lines, strict=True)
            yield from _read_document(log, path, numbers, "\n".join(texts))
            return
        try:
            yield Record(number, decode(text))
        except ValueError as error:
            log.problem(number, f"not JSON: {error}", path)


def decode(text: str) -> Any:
    """A JSON value, without the NULs and lone surrogates that no store can hold.

    Raises:
        ValueError: it is not JSON, or is nested beyond reason.
    """
    value, end = _value_at(text, 0)
    if end != len(text):
        raise ValueError(f"extra text after column {end}")
    return value


def _read_document(log: Log, path: Path, numbers: Sequence[int], text: str) -> Iterator[Record]:
    """The entries of an array, or one object, that a file's lines form together."""
    offset = line = 0
    try:
        for start, value in _entries(text):
            line += text.count("\n", offset, start)
            offset = start
            yield Record(numbers[line], value)
    except ValueError as error:
        log.problem(numbers[line], f"not JSON after the entry that starts here: {error}", path)


def _entries(text: str) -> Iterator[tuple[int, Any]]:
    """Offset and value of an array's entries, or of one object.

    Raises:
        ValueError: the text goes on otherwise; what came before was yielded.
    """
    if text[0] == "{":
        yield 0, decode(text)
        return
    start = _after_space(text, 1)
    closed = text.startswith("]", start)
    end = start
    while not closed:
        value, end = _value_at(text, start)
        yield start, value
        end = _after_space(text, end)
        closed = text.startswith("]", end)
        if not closed and not text.startswith(",", end):
            raise ValueError("an entry is not followed by a comma or the array's end")
        start = _after_space(text, end + 1)
    if _after_space(text, end + 1) < len(text):
        raise ValueError("something follows the array's end")


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _value_at(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _JSON.raw_decode(text, start)
        return (_storable(value) if text.find("\\u", start, end) >= 0 else value), end
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value).replace("\0", "")
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value
