"""ShareGPT: one conversation per record, `{"id", "conversations": [{"from", "value"}]}`; it may start with the model.

A turn's id is a hash of session, position, speaker and text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from neuralstream.logs.base import Format, Log, assemble, stable_id
from neuralstream.logs.content import content_text, record_session
from neuralstream.logs.files import decode, read_records
from neuralstream.logs.transcript import Place, Transcript
from neuralstream.types import Turn

__all__ = ["FORMAT"]


def _read(log: Log) -> Iterator[Turn]:
    for line, value in read_records(log, log.path):
        if not _recognises(value):
            log.problem(line, "not a conversation: it has no list of `conversations`")
            continue
        log.used += 1
        session_id = record_session(value, log.path, line, value["conversations"])
        transcript = Transcript(log.max_tool_chars)
        for position, message in enumerate(value["conversations"]):
            if not isinstance(message, dict) or not isinstance(message.get("from"), str):
                log.problem(line, f"message {position + 1} is no object with `from`")
                continue
            text = content_text(message.get("value"))
            key = stable_id(FORMAT.name, session_id, position, message["from"], text)
            _take(message["from"], text, transcript, Place(key, line))
        for turn, _ in assemble(transcript.messages, log, session_id=session_id, path=log.path):
            yield turn


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("conversations"), list)


FORMAT = Format("sharegpt", _recognises, _read)


def _take(speaker: str, text: str, transcript: Transcript, place: Place) -> None:
    match speaker.lower():
        case "human" | "user":
            transcript.say("user", text, place)
        case "gpt" | "assistant" | "model" | "chatgpt":
            transcript.say("assistant", text, place)
        case "function_call":
            transcript.call(None, *_call(text), place)
        case "observation" | "tool":
            transcript.result(None, None, text, place)
        case _:
            pass


def _call(text: str) -> tuple[Any, Any]:
    """Name and arguments of a call, which is JSON, or just text."""
    with suppress(ValueError):
        call = decode(text)
        if isinstance(call, dict) and "name" in call:
            return call["name"], call.get("arguments")
    return None, text
