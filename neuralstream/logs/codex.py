"""Session files of Codex CLI: JSON lines `{timestamp, type, payload}` of one session each.

What is said comes twice, as an event for the screen and as an item of the model's conversation; the items are read,
and of the events only how full the context is and when a turn is over. Records have no ids: a turn's id is a hash of
session, time and words, which lasts when a file is cut or rotated, as an offset would not.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from neuralstream.logs.base import Format, Log, assemble, read_time, stable_id
from neuralstream.logs.content import content_text
from neuralstream.logs.files import decode, log_files, read_records
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.types import Turn, Usage

__all__ = ["FORMAT"]

_TYPES = ("session_meta", "turn_context", "compacted", "response_item", "event_msg")
_FILE = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-(.+)")
_PSEUDO = re.compile(
    r"<(?:environment_context|user_instructions|permissions instructions|turn_aborted|skill|user_shell_command)>"
    r"|# AGENTS\.md instructions for "
)
"""How what the host puts into the user's mouth begins."""

_TURN_OVER = ("task_complete", "turn_complete", "turn_aborted")


def _read(log: Log) -> Iterator[Turn]:
    for file in log_files(log):
        session = _Session(log, file)
        for line, value in read_records(log, file, lines_only=True):
            if not _is_record(value):
                log.problem(line, "not a record: it is no object with a type and a payload", file)
            else:
                used = session.add(line, value)
                log.used += used
                log.skipped += not used
        yield from session.turns()


def _recognises(value: Any) -> bool:
    return _is_record(value) and value["type"] in _TYPES


FORMAT = Format("codex", _recognises, _read, folders=True)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("payload"), dict)


class _Session:
    """What one file says, and how full the model's context is after each turn's lines."""

    def __init__(self, log: Log, file: Path) -> None:
        self._log, self._file = log, file
        name = file.name.partition(".jsonl")[0]
        match = _FILE.fullmatch(name)
        self._id = match[1] if match else name
        self._has_header = False
        self._transcript = Transcript(log.max_tool_chars)
        self._usage: dict[int, Usage | None] = {}
        self._line = 0
        self._context: Usage | None = None
        self._times: Counter[str] = Counter()

    def add(self, line: int, record: Mapping[str, Any]) -> bool:
        """Take in one record; False where it is no conversation."""
        payload = record["payload"]
        match record["type"]:
            case "session_meta" if not self._has_header and isinstance(payload.get("id"), str):
                # A session that continues another begins with its records, header included.
                self._id, self._has_header = payload["id"], True
            case "response_item":
                if used := self._take(payload, self._place(record, line)):
                    self._line, self._usage[line] = line, self._context
                return used
            case "compacted":
                self._context = None
            case "event_msg" if payload.get("type") == "token_count":
                self._context = self._usage[self._line] = _usage(payload.get("info")) or self._context
            case "event_msg" if payload.get("type") in _TURN_OVER:
                self._transcript.end()
        return False

    def turns(self) -> Iterator[Turn]:
        """The session's turns; the context's use after a turn is what was told last before the next one."""
        for turn, last_line in assemble(self._transcript.messages, self._log, session_id=self._id, path=self._file):
            if usage := self._usage[last_line]:
                self._log.usage[turn.turn_id] = usage
            yield turn

    def _place(self, record: Mapping[str, Any], line: int) -> Place:
        at, item = read_time(record.get("timestamp")), record["payload"]
        key = stable_id(FORMAT.name, self._id, at, item.get("role"), content_text(item.get("content")))
        self._times[key] += 1
        return Place(key if self._times[key] == 1 else f"{key}-{self._times[key]}", line, at)

    def _take(self, item: Mapping[str, Any], place: Place) -> bool:
        match item.get("type"):
            case "message":
                return self._say(item, place)
            case "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call" as kind:
                action = item.get("action") if isinstance(item.get("action"), dict) else {}
                shown = action.get("command") or action.get("query") if action else None
                arguments = item.get("arguments") or item.get("input") or shown
                name = item.get("name") or kind.removesuffix("_call")
                self._transcript.call(item.get("call_id") or item.get("id"), name, _line(arguments), place)
                return True
            case "function_call_output" | "custom_tool_call_output":
                text, failed = _output(item.get("output"))
                self._transcript.result(item.get("call_id"), None, text, place, failed=failed)
                return True
        return False

    def _say(self, item: Mapping[str, Any], place: Place) -> bool:
        role, content = item.get("role"), item.get("content")
        if role == "user":
            blocks = content if isinstance(content, list) else [content]
            content = [block for block in blocks if not _PSEUDO.match(content_text(block))]
        text = content_text(content)
        if text and role in ("user", "assistant"):
            self._transcript.say(role, text, place)
            return True
        return False


def _usage(info: Any) -> Usage | None:
    last = info.get("last_token_usage") if isinstance(info, dict) else None
    tokens = last.get("total_tokens") if isinstance(last, dict) else None
    window = info.get("model_context_window") if isinstance(info, dict) else None
    if not isinstance(tokens, int) or tokens <= 0:
        return None
    return Usage(tokens=tokens, context_window=window if isinstance(window, int) and window >= tokens else None)


def _line(arguments: Any) -> Any:
    return " ".join(map(str, arguments)) if isinstance(arguments, list) else arguments


def _output(output: Any) -> tuple[str, bool]:
    """A result's words, and whether it failed; they may be JSON text with the exit code beside them."""
    with contextlib.suppress(ValueError):
        if isinstance(output, str) and output.startswith("{"):
            output = decode(output)
    if not isinstance(output, dict):
        return content_text(output), False
    metadata = output.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, dict) else None
    words = content_text(output.get("output", output.get("content")))
    return words or json.dumps(output, ensure_ascii=False), code not in (None, 0) or output.get("success") is False
