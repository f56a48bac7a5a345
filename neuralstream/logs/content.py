"""The words of a message, a tool call as one line, and a name for a conversation that has none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralstream.logs.base import stable_id
from neuralstream.logs.files import decode
from neuralstream.text import excerpt

__all__ = ["content_text", "record_session", "tool_line"]

_ARGUMENT_CHARS = 120


def content_text(content: Any) -> str:
    """The words of a message's content, which is null, a string, or blocks; thinking and tool blocks have none."""
    if isinstance(content, str):
        return content.strip()
    blocks = [content] if isinstance(content, dict) else content if isinstance(content, list) else []
    texts = []
    for block in blocks:
        match block:
            case str() as text:
                texts.append(text)
            case {"type": "image" | "image_url" | "input_image"}:
                texts.append("[image]")
            case {"type": "text" | "input_text" | "output_text", "text": str() as text}:
                texts.append(text)
    return "\n".join(text for text in texts if text.strip()).strip()


def record_session(record: Mapping[str, Any], path: Path, line: int, messages: Sequence[Any]) -> str:
    """The session id of a record that holds a conversation: its own, else made of file, line and first message.

    The first message takes part because files called alike are common, and must not be taken for one another.
    """
    for name in ("id", "conversation_id", "session_id"):
        if isinstance(own := record.get(name), str | int) and str(own).strip():
            return str(own)
    first = json.dumps(messages[:1], sort_keys=True)
    return f"{path.name.partition('.')[0] or 'log'}-{line}-{stable_id(first)[:8]}"


def tool_line(name: Any, arguments: Any, result: str | None, *, failed: bool = False, max_chars: int) -> str:
    """A tool call as one line: `name(key=value) -> result`.

    Args:
        name: the tool's name.
        arguments: a mapping, JSON text, plain text, or None.
        result: what came back; None where nothing did.
        failed: the result is an error.
        max_chars: characters kept of the result; 0 keeps the call alone.
    """
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):
            arguments = decode(arguments)
    if isinstance(arguments, dict):
        shown = ", ".join(
            f"{key}={value if isinstance(value, str) else _compact(value)}" for key, value in arguments.items()
        )
    else:
        shown = "" if arguments is None else str(arguments)
    call = f"{name if isinstance(name, str) and name else 'tool'}({excerpt(shown, _ARGUMENT_CHARS)})"
    if result is None or max_chars == 0:
        return call
    return f"{call} -> {'error: ' if failed else ''}{excerpt(result, max_chars)}".rstrip()


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
