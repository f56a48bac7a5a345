"""Sessions of OpenClaw and pi: JSON lines or OpenClaw's database, each session a header and a tree of entries.

Version 1 is linear and has no ids.

A conversation is the path from the last entry, where the session stands, up to the root; other branches are what the
user went back from. An entry whose parent was lost is taken to follow the entry before it. A turn's id is the session's
id and the id of the entry that opens the turn; in version 1, a hash of line and text in place of the latter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralstream.hosttext import is_noise, strip_host_text
from neuralstream.logs.base import Format, Log, assemble, read_time, stable_id
from neuralstream.logs.content import content_text
from neuralstream.logs.files import log_files, read_records
from neuralstream.logs.openclaw_database import Stored, database_entries, is_database
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.tokens import count_tokens
from neuralstream.types import Turn, Usage

__all__ = ["FORMAT"]

_PI_FILE = re.compile(r"\d{4}-\d\d-\d\dT[^_]*_(.+)")
"""pi puts a timestamp before the session's id."""

_TOPIC = re.compile(r"-topic-.+$")
_FINAL = ("stop", "length", "aborted")
"""Reasons to stop that end a turn; after an error the host tries again."""

_MIRROR = ("openclaw", "delivery-mirror")
"""Provider and model of a row that repeats what was delivered to a channel."""


def _read(log: Log) -> Iterator[Turn]:
    for file in log_files(log):
        trees: defaultdict[str, _Tree] = defaultdict(_Tree)
        for session_id, line, value in database_entries(log, file) if is_database(file) else _file_entries(log, file):
            if not isinstance(value, dict) or not isinstance(value.get("type"), str):
                log.problem(line, "not an entry: it is no object with a type", file)
            elif value["type"] == "session":
                log.skipped += 1
            elif not trees[session_id].add(line, value):
                log.problem(line, f"entry id {_key(value)!r} was used before", file)
        for session_id, tree in trees.items():
            yield from _turns(log, file, session_id, tree.entries)


def _file_entries(log: Log, file: Path) -> Iterator[Stored]:
    session_id = _file_session(file)
    for line, value in read_records(log, file, lines_only=True):
        if isinstance(value, dict) and value.get("type") == "session":
            session_id = _header_session(value, file)
        yield Stored(session_id, line, value)


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    message = value.get("message")
    return (value.get("type") == "session" and "id" in value) or (
        value.get("type") == "message" and isinstance(message, dict) and "role" in message
    )


FORMAT = Format("openclaw", _recognises, _read, folders=True)


@dataclass(frozen=True, slots=True)
class _Entry:
    line: int
    key: str
    value: Mapping[str, Any]
    parent: int | None


class _Tree:
    """The entries of one session in the order they were written, each knowing its parent's place."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._places: dict[str, int] = {}

    def add(self, line: int, value: Mapping[str, Any]) -> bool:
        """False when another entry has the same id."""
        key, place = _key(value), len(self.entries)
        if key and self._places.setdefault(key, place) != place:
            return False
        # An entry without the field (version 1), or whose parent was lost, follows the one before it.
        parent = self._places.get(_key(value, "parentId"), place)
        is_root = place == 0 or value.get("parentId", "") is None
        self.entries.append(_Entry(line, key, value, None if is_root else min(parent, place - 1)))
        return True


def _turns(log: Log, file: Path, session_id: str, entries: Sequence[_Entry]) -> Iterator[Turn]:
    """The turns of one session: the active path, then, where asked for, each other branch as a session of its own."""
    seen: set[int] = set()
    yield from _stretch_turns(log, file, session_id, session_id, _path(entries, len(entries) - 1, seen))
    if log.branches:
        parents = {entry.parent for entry in entries}
        for leaf in sorted(set(range(len(entries))) - parents - seen):
            branch = _path(entries, leaf, seen)
            yield from _stretch_turns(log, file, session_id, f"{session_id}~{branch[0].key or branch[0].line}", branch)
    log.skipped += len(entries) - len(seen)


def _path(entries: Sequence[_Entry], leaf: int, seen: set[int]) -> list[_Entry]:
    """The entries from the root, or from below the nearest one already seen, down to a leaf. All count as seen now."""
    path = []
    place: int | None = leaf
    while place is not None and place not in seen:
        seen.add(place)
        path.append(entries[place])
        place = entries[place].parent
    return path[::-1]


def _stretch_turns(log: Log, file: Path, origin: str, session_id: str, stretch: Sequence[_Entry]) -> Iterator[Turn]:
    """The turns of a stretch. Their ids carry the session of origin, so that they last when the user changes branch."""
    read = _Stretch(log, file, origin)
    for entry in stretch:
        read.add(entry)
    for turn, last_line in assemble(read.transcript.messages, log, session_id=session_id, path=file):
        if tokens := read.context[last_line]:
            log.usage[turn.turn_id] = Usage(tokens=tokens)
        yield turn


class _Stretch:
    """What a stretch of entries says, and how many tokens the model's context holds after each line."""

    def __init__(self, log: Log, file: Path, origin: str) -> None:
        self.transcript = Transcript(log.max_tool_chars)
        self.context: dict[int, int] = {}
        self._log, self._file, self._origin = log, file, origin
        self._tokens = 0
        self._last_reply = ""

    def add(self, entry: _Entry) -> None:
        """Take in one entry, and count it as used or skipped, or as a problem."""
        if entry.value["type"] == "compaction":
            self._tokens = 0
        message = entry.value.get("message")
        if entry.value["type"] != "message":
            self._log.skipped += 1
        elif not isinstance(message, dict) or not isinstance(message.get("role"), str):
            self._log.problem(entry.line, "the entry's message is no object with a role", self._file)
        else:
            used = self._take(message, self._place(entry, message))
            self._log.used += used
            self._log.skipped += not used
            self._count(entry.line, message)

    def _take(self, message: Mapping[str, Any], place: Place) -> bool:
        """Whether the message is conversation."""
        text = content_text(message.get("content"))
        match message["role"]:
            case "user":
                # A pseudo-prompt opens a turn without words, so that the reply to it joins no other.
                words = "" if is_noise(text, "user") else strip_host_text(text)
                self.transcript.say("user", words, place)
                return bool(words)
            case "assistant":
                return self._reply(message, strip_host_text(text), place)
            case "toolResult":
                failed = message.get("isError") is True
                self.transcript.result(message.get("toolCallId"), message.get("toolName"), text, place, failed=failed)
                return True
            case "bashExecution" if not message.get("excludeFromContext"):
                self.transcript.call(place.key, "bash", message.get("command"), place)
                failed = message.get("exitCode") not in (0, None)
                self.transcript.result(place.key, "bash", content_text(message.get("output")), place, failed=failed)
                return True
            case _:
                return False

    def _reply(self, message: Mapping[str, Any], words: str, place: Place) -> bool:
        if (message.get("provider"), message.get("model")) == _MIRROR and words == self._last_reply:
            return False
        if words:
            self._last_reply = words
            self.transcript.say("assistant", words, place)
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        calls = [block for block in blocks if isinstance(block, dict) and block.get("type") == "toolCall"]
        for call in calls:
            self.transcript.call(call.get("id"), call.get("name"), call.get("arguments"), place)
        if message.get("stopReason") in _FINAL and not calls:
            self.transcript.end()
        return bool(words or calls)

    def _place(self, entry: _Entry, message: Mapping[str, Any]) -> Place:
        own = entry.key or stable_id(entry.line, message["role"], content_text(message.get("content")))
        at = read_time(entry.value.get("timestamp")) or read_time(message.get("timestamp"))
        return Place(f"{self._origin}:{own}", entry.line, at)

    def _count(self, line: int, message: Mapping[str, Any]) -> None:
        """The last reply's own figure, and an estimate of what follows it; nothing is known after a compaction."""
        if reported := _reported_tokens(message):
            self._tokens = reported
        elif self._tokens:
            self._tokens += count_tokens(content_text(message.get("content") or message.get("output")))
        self.context[line] = self._tokens


def _reported_tokens(message: Mapping[str, Any]) -> int:
    usage = message.get("usage")
    if (
        message["role"] != "assistant"
        or message.get("stopReason") in ("error", "aborted")
        or not isinstance(usage, dict)
    ):
        return 0
    total = usage.get("totalTokens") or sum(
        count for name in ("input", "output", "cacheRead", "cacheWrite") if isinstance(count := usage.get(name), int)
    )
    return total if isinstance(total, int) and total > 0 else 0


def _key(value: Mapping[str, Any], name: str = "id") -> str:
    key = value.get(name)
    return key if isinstance(key, str) else ""


def _header_session(header: Mapping[str, Any], file: Path) -> str:
    """The header's id. Threads of one OpenClaw session share it, and only the files' names tell them apart."""
    session_id = _key(header).strip() or _file_session(file)
    topic = _TOPIC.search(_stem(file))
    return session_id + topic[0] if topic and not session_id.endswith(topic[0]) else session_id


def _file_session(file: Path) -> str:
    stem = _stem(file)
    match = _PI_FILE.fullmatch(stem)
    return match[1] if match else stem


def _stem(file: Path) -> str:
    """The file's name without what packing, rotating and archiving put behind it."""
    return file.name.partition(".jsonl")[0] or "session"
