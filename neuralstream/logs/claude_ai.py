"""Claude.ai's export: `conversations.json`, alone or in the zip file that it comes in.

Messages may form a tree by `parent_message_uuid`; the path to the last one is what the user sees. A turn's id is the
conversation's uuid and its first message's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neuralstream.logs.base import Format, Log, assemble, read_time
from neuralstream.logs.content import content_text
from neuralstream.logs.files import log_files, read_records
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.text import excerpt
from neuralstream.types import Turn

__all__ = ["FORMAT"]


def _read(log: Log) -> Iterator[Turn]:
    for file in log_files(log):
        for line, value in read_records(log, file):
            if not _recognises(value) or not _uuid(value, "uuid"):
                log.problem(line, "not a conversation: it has no `uuid` with `chat_messages`", file)
                continue
            session_id = value["uuid"]
            messages = [message for message in value["chat_messages"] if isinstance(message, dict)]
            for name, path in _paths(log, session_id, messages):
                transcript = Transcript(log.max_tool_chars)
                for place in path:
                    message = messages[place]
                    key = f"{session_id}:{_uuid(message, 'uuid') or place}"
                    at = read_time(message.get("created_at")) or (None if place else read_time(value.get("created_at")))
                    used = _take(message, transcript, Place(key, line, at), log.max_tool_chars)
                    log.used += used
                    log.skipped += not used
                for turn, _ in assemble(transcript.messages, log, session_id=name, path=file):
                    yield turn


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


FORMAT = Format("claude-ai", _recognises, _read, folders=True)


def _paths(log: Log, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[int]]]:
    """The path to the last message; where asked for, then the other branches as sessions of their own."""
    if not any("parent_message_uuid" in message for message in messages):
        return [(session_id, list(range(len(messages))))]
    places = {_uuid(message, "uuid"): place for place, message in enumerate(messages)}
    places.pop(None, None)
    # The root's parent is a constant that names no message.
    parents = [places.get(_uuid(message, "parent_message_uuid")) for message in messages]
    seen: set[int] = set()
    paths: list[tuple[str, list[int]]] = []
    for leaf in reversed(range(len(messages))):
        path: list[int] = []
        place: int | None = leaf
        while place is not None and place not in seen:
            seen.add(place)
            path.insert(0, place)
            place = parents[place]
        if path:
            paths.append((f"{session_id}~{_uuid(messages[path[0]], 'uuid') or path[0]}" if paths else session_id, path))
    if not log.branches:
        log.skipped += sum(len(path) for _, path in paths[1:])
        del paths[1:]
    return paths


def _uuid(message: Mapping[str, Any], name: str) -> str | None:
    uuid = message.get(name)
    return uuid if isinstance(uuid, str) and uuid else None


def _take(message: Mapping[str, Any], transcript: Transcript, place: Place, max_chars: int) -> bool:
    """Add what a message says; False where it says nothing."""
    content = message.get("content")
    words = content_text(content) or content_text(message.get("text"))
    if message.get("sender") == "human":
        lines = (words, *_attached(message, max_chars))
        said = "\n".join(line for line in lines if line)
        transcript.say("user", said, place)
        return bool(said)
    if message.get("sender") != "assistant":
        return False
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    for call in calls:
        transcript.call(call.get("id") or call.get("name"), call.get("name"), call.get("input"), place)
    for block in blocks:
        if block.get("type") == "tool_result":
            result, name = content_text(block.get("content")), block.get("name")
            call_id = block.get("tool_use_id") or name
            transcript.result(call_id, name, result, place, failed=block.get("is_error") is True)
    if words:
        transcript.say("assistant", words, place)
    return bool(words or calls)


def _attached(message: Mapping[str, Any], max_chars: int) -> Iterator[str]:
    """A line for each file that came with a message, with the start of what was read from it."""
    for name in ("attachments", "files"):
        files = message.get(name)
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict):
                text = file.get("extracted_content")
                start = excerpt(text, max_chars) if isinstance(text, str) and max_chars else ""
                yield f"[file {file.get('file_name') or 'without a name'}]{' ' if start else ''}{start}"
