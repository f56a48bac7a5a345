"""Reading files of JSON that may be damaged: torn, truncated, badly encoded, or still being written.

gzip, zstd and the zip files of chat exports are read as they are; a file in a zip has the path `export.zip/name.json`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import zstandard

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import Log

__all__ = ["EXPORT_FILES", "SESSION_FILES", "Record", "decode", "log_files", "read_lines", "read_records", "unpacked"]

SESSION_FILES = ("*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.sqlite")
"""Names of session files in a folder."""

EXPORT_FILES = "conversations*.json"
"""Names of what holds the conversations in a chat export: one file, or numbered ones."""

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, zstandard.ZstdError)
_MOST_UNPACKED = (256 * 2**20, 100)
"""What a packed file may unpack to: so many bytes, and so many more for each of its own. Logs shrink 5 to 50 times."""

_BITE = 1024
"""Packed bytes that are unpacked before the limit is looked at; of zstd, they hold 32 MB at most."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s*")
_JSON = json.JSONDecoder(strict=False)


class Record(NamedTuple):
    """A JSON value and the line it starts on."""

    line: int
    value: Any


def log_files(log: Log, folder: Path | None = None) -> list[Path]:
    """The files of a log, sorted: itself, the session files below a folder, or the conversations of an export.

    Raises:
        LogFormatError: the folder, or the zip file, holds none.
    """
    root = folder or log.path
    if zipfile.is_zipfile(root):
        with zipfile.ZipFile(root) as archive:
            found = sorted(root / name for name in archive.namelist() if Path(name).match(EXPORT_FILES))
        if not found:
            raise LogFormatError(f"{root} holds no {EXPORT_FILES}; name the zip file of a chat export, or unpack it")
        return found
    if not root.is_dir():
        return [root]
    found = sorted(path for pattern in (*SESSION_FILES, EXPORT_FILES) for path in root.rglob(pattern) if path.is_file())
    if not found:
        raise LogFormatError(f"{root} holds no .jsonl file; name a file, or the folder that holds the sessions")
    return found


def read_lines(log: Log, path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers; what is packed is unpacked, bad bytes are replaced.

    Lines of the log's `rotated` files come first, and count.

    Raises:
        LogFormatError: the log's only file cannot be read; one of several is a problem of the log.
    """
    number = 0
    for piece in (*log.rotated, path):
        encoding = "utf-8-sig"
        try:
            with ExitStack() as opened:
                for number, raw in enumerate(_open(piece, opened), number + 1):  # noqa: B020 - counting goes on
                    text = raw.decode(encoding, errors="replace").replace("\0", "").strip()
                    encoding = "utf-8"
                    if text:
                        yield number, text
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno and piece == log.path:
                raise LogFormatError(f"cannot read {path}: {error.strerror}; name an existing log") from error
            log.problem(number + 1, f"the file breaks off: {error}", piece)


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


def unpacked(packed: bytes) -> bytes:
    """Bytes that may be packed with zstd, unpacked.

    Raises:
        ValueError: they are damaged, or unpack to more than a log of their size does.
    """
    if not packed.startswith(_ZSTD_MAGIC):
        return packed
    most = _most_unpacked(len(packed))
    unpacking = zstandard.ZstdDecompressor().decompressobj()
    plain = bytearray()
    try:
        for start in range(0, len(packed), _BITE):
            plain += unpacking.decompress(packed[start : start + _BITE])
            if len(plain) > most:
                raise ValueError(_too_large(most))
            if unpacking.eof:
                return bytes(plain)
    except zstandard.ZstdError as error:
        raise ValueError(f"damaged zstd data: {error}") from error
    raise ValueError("zstd data breaks off")


def decode(text: str) -> Any:
    """A JSON value, without the NULs and lone surrogates that no store can hold.

    Raises:
        ValueError: it is not JSON, or is nested beyond reason.
    """
    value, end = _value_at(text, 0)
    if end != len(text):
        raise ValueError(f"extra text after column {end}")
    return value


def _open(path: Path, opened: ExitStack) -> Iterable[bytes]:
    """A file's unpacked lines; `opened` closes it."""
    archive = next((parent for parent in path.parents if parent.is_file()), None)
    if archive is not None:
        pack = opened.enter_context(zipfile.ZipFile(archive))
        try:
            packed = opened.enter_context(pack.open(path.relative_to(archive).as_posix()))
        except RuntimeError as error:
            # A password, or a compression that Python does not have.
            raise zipfile.BadZipFile(str(error)) from error
        return _limited(packed, archive)
    plain = opened.enter_context(path.open("rb"))
    start = plain.peek(len(_ZSTD_MAGIC))
    if start.startswith(_GZIP_MAGIC):
        return _limited(opened.enter_context(gzip.GzipFile(fileobj=plain)), path)
    if start.startswith(_ZSTD_MAGIC):
        return _limited(zstandard.ZstdDecompressor().stream_reader(plain, read_across_frames=True), path)
    return plain


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Limited(io.RawIOBase):
    """Unpacked bytes up to a limit, because a few packed kilobytes can hold more than a machine's memory."""

    def __init__(self, unpacking: _Readable, most: int) -> None:
        self._unpacking = unpacking
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._unpacking.read(len(buffer))
        self._left -= len(some)
        if self._left < 0:
            raise OSError(_too_large(self._most))
        buffer[: len(some)] = some
        return len(some)


def _limited(unpacking: _Readable, packed: Path) -> io.BufferedReader:
    return io.BufferedReader(_Limited(unpacking, _most_unpacked(packed.stat().st_size)), 2**16)


def _most_unpacked(size: int) -> int:
    """Bytes that so many packed ones may unpack to."""
    always, times = _MOST_UNPACKED
    return always + times * size


def _too_large(most: int) -> str:
    return f"it unpacks to more than {most >> 20} MB, which no log of its size does"


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
