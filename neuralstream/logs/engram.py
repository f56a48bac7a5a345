"""A snapshot of engram: nodes of a graph, some of which hold conversation.

A node of type Conversation or Episodic holds one turn, `{q, a, created_at, source, label}`. Nodes called `conv:history`
hold rolling copies of the whole history; what stands there and in no turn's node is taken once, whichever copy has it.
No node names a session: a pause of more than `SESSION_GAP` begins a new one, and its made-up name starts with
`engram~`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from neuralstream.logs.base import Format, Log, Message, assemble, fill_times, read_time, stable_id
from neuralstream.logs.content import content_text
from neuralstream.logs.files import decode, log_files, read_records
from neuralstream.types import Turn

__all__ = ["FORMAT", "SESSION_GAP"]

SESSION_GAP = timedelta(minutes=30)
_TURN_TYPES = ("conversation", "episodic")
_HISTORY = "conv:history"


@dataclass(frozen=True, slots=True)
class _Said:
    """One turn's words; `number` tells equal ones apart, in the order they were said."""

    question: str
    answer: str
    number: int
    line: int
    at: datetime | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.question, self.answer, self.number


def _read(log: Log) -> Iterator[Turn]:
    for file in log_files(log):
        told: list[_Said] = []
        copies: list[list[_Said]] = []
        for line, value in read_records(log, file):
            for node in _nodes(value):
                if (content := _content(node)) is None:
                    log.skipped += 1
                elif isinstance(content, list):
                    copies.append(_history(content, line))
                    log.used += 1
                else:
                    told.append(_turn(content, line))
                    log.used += 1
        said = _merged(_numbered(sorted(told, key=lambda one: (one.at is None, one.at))), copies)
        times = fill_times([one.at for one in said], file)
        for session_id, members in _sessions(said, times):
            messages = [message for one in members for message in _messages(one)]
            for turn, _ in assemble(messages, log, session_id=session_id, path=file):
                yield turn


def _recognises(value: Any) -> bool:
    return any(_content(node) is not None for node in _nodes(value))


FORMAT = Format("engram", _recognises, _read)


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """The nodes of a snapshot, or a node by itself."""
    if isinstance(value, dict):
        nodes = value.get("nodes", [value])
        for node in nodes.values() if isinstance(nodes, dict) else nodes if isinstance(nodes, list) else ():
            if isinstance(node, dict):
                yield node


def _content(node: Mapping[str, Any]) -> Any:
    """A turn's object or a history's list; None where the node holds neither."""
    kinds = {str(node.get(name)).lower() for name in ("type", "node_type", "label")}
    names = [str(node.get(name)) for name in ("label", "name", "id", "key")]
    content = node.get("content")
    if kinds.isdisjoint(_TURN_TYPES) and not any(name.startswith(_HISTORY) for name in names):
        return None
    try:
        content = decode(content) if isinstance(content, str) else content
    except ValueError:
        return None
    if isinstance(content, dict) and "q" in content:
        return content
    is_history = isinstance(content, list) and all(isinstance(one, dict) and "role" in one for one in content)
    return content if is_history else None


def _turn(content: Mapping[str, Any], line: int) -> _Said:
    label = str(content.get("label") or "")
    at = read_time(content.get("created_at")) or read_time(label.removeprefix("chat:"))
    return _Said(content_text(content.get("q")), content_text(content.get("a")), 0, line, at)


def _history(messages: Sequence[Mapping[str, Any]], line: int) -> list[_Said]:
    """A copy's messages as turns."""
    turns: list[_Said] = []
    question, answers = "", list[str]()
    for message in [*messages, {"role": "user"}]:
        text = content_text(message.get("content"))
        if message["role"] == "user":
            if question or answers:
                turns.append(_Said(question, "\n".join(answers), 0, line))
            question, answers = text, []
        elif message["role"] == "assistant" and text:
            answers.append(text)
    return _numbered(turns)


def _numbered(turns: Sequence[_Said]) -> list[_Said]:
    counts: Counter[tuple[str, str]] = Counter()
    numbered = []
    for one in turns:
        words = (one.question, one.answer)
        numbered.append(_Said(*words, counts[words], one.line, one.at))
        counts[words] += 1
    return numbered


def _merged(told: list[_Said], copies: Sequence[Sequence[_Said]]) -> list[_Said]:
    """All turns in order: what only a copy has stands behind the turn that it follows there."""
    said = list(told)
    for copy in sorted(copies, key=len, reverse=True):
        place = 0
        known = {one.key: number for number, one in enumerate(said)}
        missing: list[_Said] = []
        for one in copy:
            if one.key in known:
                place = known[one.key] + len(missing) + 1
            else:
                said.insert(place, one)
                missing.append(one)
                place += 1
    return said


def _sessions(said: Sequence[_Said], times: Sequence[datetime]) -> Iterator[tuple[str, list[_Said]]]:
    members: list[_Said] = []
    name, before = "", None
    for one, at in zip(said, times, strict=True):
        if before is None or at - before > SESSION_GAP:
            if members:
                yield name, members
            name, members = f"engram~{at:%Y-%m-%dT%H:%M:%S}", []
        members.append(one)
        before = at
    if members:
        yield name, members


def _messages(one: _Said) -> Iterator[Message]:
    key = stable_id(FORMAT.name, *one.key)
    yield Message("user", one.question, key, one.line, one.at)
    if one.answer:
        yield Message("assistant", one.answer, key, one.line, one.at)
