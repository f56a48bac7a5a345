"""OpenAI messages: one conversation per record, `{"messages": [{role, content, tool_calls?, tool_call_id?}]}`.

A turn's id is a hash of session, position, role and text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neuralstream.logs.base import Format, Log, assemble, read_time, stable_id
from neuralstream.logs.content import content_text, record_session
from neuralstream.logs.files import read_records
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.types import Turn

__all__ = ["FORMAT"]


def _read(log: Log) -> Iterator[Turn]:
    for line, value in read_records(log, log.path):
        if not _recognises(value):
            log.problem(line, "not a conversation: it has no list of `messages`")
            continue
        log.used += 1
        session_id = record_session(value, log.path, line, value["messages"])
        transcript = Transcript(log.max_tool_chars)
        for position, message in enumerate(value["messages"]):
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                log.problem(line, f"message {position + 1} is no object with a role")
                continue
            _take(message, transcript, _place(message, session_id, position, line))
        for turn, _ in assemble(transcript.messages, log, session_id=session_id, path=log.path):
            yield turn


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("messages"), list)


FORMAT = Format("openai", _recognises, _read)


def _place(message: Mapping[str, Any], session_id: str, position: int, line: int) -> Place:
    at = next((at for name in ("timestamp", "created_at", "created") if (at := read_time(message.get(name)))), None)
    key = stable_id(FORMAT.name, session_id, position, message["role"], content_text(message.get("content")))
    return Place(key, line, at)


def _take(message: Mapping[str, Any], transcript: Transcript, place: Place) -> None:
    text = content_text(message.get("content"))
    match message["role"]:
        case "user":
            transcript.say("user", text, place)
        case "assistant":
            if text:
                transcript.say("assistant", text, place)
            for call_id, function in _calls(message):
                transcript.call(call_id, function.get("name"), function.get("arguments"), place)
        case "tool" | "function":
            # `function` is the older form, which has no ids: the name takes their place.
            call_id = message.get("tool_call_id") or message.get("name")
            transcript.result(call_id, message.get("name"), text, place)
        case _:
            pass


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    older = message.get("function_call")
    if isinstance(older, dict):
        yield older.get("name"), older
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, Sequence) else ():
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            yield call.get("id"), call["function"]
