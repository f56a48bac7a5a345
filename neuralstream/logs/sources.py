"""Where logs lie: files, folders with files of several formats, and the lists of a Redis server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from neuralstream.errors import LogFormatError, MissingPartError
from neuralstream.logs import AUTO, detect_format, read_log
from neuralstream.logs.base import Log
from neuralstream.logs.files import SESSION_FILES, read_lines
from neuralstream.logs.memredis import list_log
from neuralstream.logs.native import CONVERSATIONS

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["Found", "Piece", "find_logs", "growing_files", "is_server", "memory_lists"]

_SERVERS = ("redis://", "rediss://", "unix://")
_LISTS = "mem:*"
_TIMEOUT_SECONDS = 10.0


class Found(NamedTuple):
    """The logs of a source, and the files there that are in no known format, with what was seen in them."""

    logs: list[Log]
    unknown: dict[Path, str]


class Piece(NamedTuple):
    """A log that may grow.

    Attributes:
        name: what it is called from now on.
        stamp: changes when it changes.
        changed_at: seconds since 1970; 0 where nothing tells.
        read: gives the log to iterate over; raises LogFormatError where it is in no known format.
    """

    name: str
    stamp: str
    changed_at: float
    read: Callable[[], Log]


def is_server(source: str) -> bool:
    """Whether a source is the address of a Redis server rather than a path."""
    return source.startswith(_SERVERS)


def find_logs(source: str, log_format: str = AUTO, *, user_id: str = "default", max_tool_chars: int = 400) -> Found:
    """The logs of a source, each file of a folder by its own format.

    Args:
        source: a file, a folder, or the address of a Redis server with mem-redis lists.
        log_format: of all of them; "auto" tells it from their content.
        user_id: whose turns they are, where a log names nobody.
        max_tool_chars: characters kept of a tool's result.

    Raises:
        LogFormatError: there is no such file, or it is in no known format.
        MissingPartError: the server cannot be reached.
    """
    if is_server(source):
        return Found([piece.read() for piece in memory_lists(source, user_id)], {})
    path = Path(source).expanduser()
    if not path.is_dir() or (path / CONVERSATIONS).is_dir():
        return Found([read_log(path, log_format, user_id=user_id, max_tool_chars=max_tool_chars)], {})
    logs: list[Log] = []
    unknown: dict[Path, str] = {}
    for file in sorted({file for pattern in (*SESSION_FILES, "*.json", "*.zip") for file in path.rglob(pattern)}):
        try:
            if file.is_file():
                logs.append(read_log(file, log_format, user_id=user_id, max_tool_chars=max_tool_chars))
        except LogFormatError as error:
            unknown[file] = str(error)
    return Found(logs, unknown)


def growing_files(path: Path, *, user_id: str, max_tool_chars: int) -> Iterator[Piece]:
    """The session logs at a path, each file's rotated pieces before it.

    A piece is read with the one before it in front, because an exchange may begin in one and end in the next.

    Args:
        path: a file, or a folder of any depth; it need not exist yet.
        user_id: whose turns they are, where a log names nobody.
        max_tool_chars: characters kept of a tool's result.
    """
    patterns = ("*.jsonl", "*.jsonl.*", "*.sqlite")
    found = [file for pattern in patterns for file in path.rglob(pattern)] if path.is_dir() else [
        path, *path.parent.glob(f"{escape(path.name)}.*")]  # fmt: skip
    stamped = [(file, state) for file in found if (state := _state(file))]
    # Of one family, what was written last is read last; the file that still has its name is the newest.
    stamped.sort(key=lambda one: (_family(one[0]), one[0].name == _family(one[0]).name, one[1][1], one[0].name))
    before = None
    for file, state in stamped:
        older = before if before and _family(before) == _family(file) and file.suffix != ".sqlite" else None
        if older or file.stat().st_size:
            yield Piece(str(file), *state, partial(_read_file, file, older, user_id, max_tool_chars))
        before = file


def memory_lists(address: str, user_id: str) -> Iterator[Piece]:
    """The mem-redis lists of a server; they are read, and nothing is removed.

    Args:
        address: `redis://…`.
        user_id: whose turns they are, where neither an entry nor the list's name tells.

    Raises:
        MissingPartError: the server cannot be reached.
    """
    import redis

    # The address may hold a password, so that no message names it.
    client = redis.Redis.from_url(address, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS)
    with client, _reaching():
        lists = {
            key: (client.llen(key), client.lindex(key, 0), client.lindex(key, -1))
            for key in sorted(client.scan_iter(_LISTS, _type="list"))
        }
    for key, ends in lists.items():
        name = key.decode("utf-8", errors="replace")
        stamp = hashlib.sha256(repr(ends).encode()).hexdigest()
        yield Piece(name, stamp, 0.0, partial(_read_list, client, key, name.partition(":")[2].strip() or user_id))


def _read_list(client: Redis, key: bytes, user_id: str) -> Log:
    with client, _reaching():
        entries = cast("list[bytes]", client.lrange(key, 0, -1))
    return list_log(key.decode("utf-8", errors="replace"), entries, user_id=user_id)


@contextmanager
def _reaching() -> Iterator[None]:
    import redis

    try:
        yield
    except redis.RedisError as error:
        raise MissingPartError(
            f"the Redis server with mem-redis lists does not answer: {error}; start it, or correct its address"
        ) from error


def _state(file: Path) -> tuple[str, float] | None:
    """What tells one state of a file from another, and when it was written; None where there is no file."""
    states: list[Any] = []
    changed_at = 0.0
    for part in (file, file.with_name(file.name + "-wal")):
        try:
            state = part.stat()
        except OSError:
            continue
        states.append((state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns))
        changed_at = max(changed_at, state.st_mtime)
    return (repr(states), changed_at) if file.is_file() and states else None


def _family(file: Path) -> Path:
    stem, jsonl, _ = file.name.partition(".jsonl")
    return file.with_name(stem + jsonl)


def _read_file(file: Path, older: Path | None, user_id: str, max_tool_chars: int) -> Log:
    try:
        log_format = detect_format(file)
    except LogFormatError:
        # A file that was just begun may hold nothing, or half a line.
        if older is None:
            raise
        log_format = detect_format(older)
    log = read_log(file, log_format, user_id=user_id, max_tool_chars=max_tool_chars)
    if older is not None and _first_line(older) != _first_line(file):
        log.rotated = (older,)
    return log


def _first_line(file: Path) -> str | None:
    """How a file begins; two that begin alike are a file and its copy, not pieces of one."""
    probe = Log(file.parent, "unknown", lambda _: iter(()))
    return next((text for _, text in read_lines(probe, file)), None)
