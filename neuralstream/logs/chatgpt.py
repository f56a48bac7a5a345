"""ChatGPT's export: `conversations.json`, or numbered pieces of it, alone or in the zip file that it comes in.

A conversation is a tree of messages (`mapping`); what the user sees is the path from `current_node` up to the root.
Other branches are answers regenerated and questions edited. A turn's id is the conversation's and its first message's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neuralstream.logs.base import Format, Log, assemble, read_time
from neuralstream.logs.files import log_files, read_records
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.types import Turn

__all__ = ["FORMAT"]

_CITATION = re.compile("\ue200.*?\ue201", re.DOTALL)
"""Markers that the page turns into links."""

_LATEST = 253402300800
"""Seconds from 1970 to the year 10000."""

_SILENT = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context")


def _read(log: Log) -> Iterator[Turn]:
    for file in log_files(log):
        for line, value in read_records(log, file):
            if not _recognises(value):
                log.problem(line, "not a conversation: it has no `mapping`", file)
                continue
            session_id = _text(value, "conversation_id") or _text(value, "id")
            if not session_id:
                log.problem(line, "the conversation has no id", file)
                continue
            yield from _turns(log, file, line, session_id, value)


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


FORMAT = Format("chatgpt", _recognises, _read, folders=True)


def _turns(log: Log, file: Path, line: int, session_id: str, conversation: Mapping[str, Any]) -> Iterator[Turn]:
    nodes = {key: node for key, node in conversation["mapping"].items() if isinstance(node, dict)}
    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    leaves = [key for key in nodes if key not in parents]
    current = _text(conversation, "current_node")
    # Where it is missing, the leaf written last is where the conversation stands.
    leaf = current if current in nodes else max(leaves, key=lambda key: _when(nodes[key]), default="")
    seen: set[str] = set()
    paths = [(session_id, _path(nodes, leaf, seen))]
    if log.branches:
        branches = (_path(nodes, other, seen) for other in leaves)
        paths += [(f"{session_id}~{branch[0]}", branch) for branch in branches if branch]
    for name, path in paths:
        transcript = Transcript(log.max_tool_chars)
        # Old exports date only the conversation.
        begun = None if any(_when(nodes[key]) for key in path) else read_time(conversation.get("create_time"))
        for key in path:
            at = read_time(_when(nodes[key]) or None) or begun
            used = _take(nodes[key], transcript, Place(f"{session_id}:{key}", line, at))
            log.used += used
            log.skipped += not used
            begun = None if used else begun
        for turn, _ in assemble(transcript.messages, log, session_id=name, path=file):
            yield turn
    log.skipped += len(nodes) - len(seen)


def _path(nodes: Mapping[str, Mapping[str, Any]], leaf: str, seen: set[str]) -> list[str]:
    """Keys from the root, or from below the nearest one already seen, down to a leaf. All count as seen now."""
    path = []
    key: Any = leaf
    while isinstance(key, str) and key in nodes and key not in seen:
        seen.add(key)
        path.append(key)
        key = nodes[key].get("parent")
    return path[::-1]


def _take(node: Mapping[str, Any], transcript: Transcript, place: Place) -> bool:
    """Add what a node says; False where it is no conversation."""
    message = node.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("author"), dict):
        return False
    metadata, content = message.get("metadata"), message.get("content")
    hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation") is True
    if hidden or not isinstance(content, dict) or content.get("content_type") in _SILENT:
        return False
    words, recipient, name = _words(content), message.get("recipient") or "all", message["author"].get("name")
    match message["author"].get("role"):
        case "user":
            transcript.say("user", words, place)
        case "assistant" if recipient != "all":
            transcript.call(recipient, recipient, words, place)
        case "assistant" if words:
            transcript.say("assistant", words, place)
        case "tool":
            transcript.result(name, name, words, place, failed=content.get("content_type") == "system_error")
        case _:
            return False
    return True


def _words(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    found = map(_part, parts) if isinstance(parts, list) else [content.get("text") or content.get("result")]
    return _CITATION.sub("", "\n".join(text for text in found if isinstance(text, str) and text.strip())).strip()


def _part(part: Any) -> str | None:
    match part:
        case str():
            return part
        case {"content_type": "image_asset_pointer"}:
            return "[image]"
        case {"text": str() as text}:
            return text
    return None


def _when(node: Mapping[str, Any]) -> float:
    """Seconds since 1970, or 0."""
    message = node.get("message")
    at = message.get("create_time") if isinstance(message, dict) else None
    # A number too large for a time, or for a float, is none; neither is NaN, which has no place in an order.
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) and 0 < at < _LATEST else 0.0


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
