"""Building a session's messages where tools are called: a call and its result become one line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from neuralstream.logs.base import Message
from neuralstream.logs.content import tool_line
from neuralstream.types import Role

__all__ = ["Place", "Transcript"]


class Place(NamedTuple):
    """Where a message stands: the id of the turn it may open, its line, and its time if the log has one."""

    key: str
    line: int
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    position: int
    name: Any
    arguments: Any


class Transcript:
    """The messages of one session, in order.

    Args:
        max_tool_chars: characters kept of a tool's result.
    """

    def __init__(self, max_tool_chars: int) -> None:
        self.messages: list[Message] = []
        self._max_chars = max_tool_chars
        self._open: dict[str, _Call] = {}

    def say(self, role: Role, text: str, place: Place) -> None:
        """Add what somebody said."""
        self.messages.append(Message(role, text, *place))

    def call(self, call_id: Any, name: Any, arguments: Any, place: Place) -> None:
        """Add a tool call; a result with the same id completes it. Logs may use an id again once it was answered."""
        self._open[str(call_id)] = _Call(len(self.messages), name, arguments)
        self.say("tool", tool_line(name, arguments, None, max_chars=self._max_chars), place)

    def end(self) -> None:
        """Take note that the log says the turn is over."""
        if self.messages:
            self.messages[-1] = replace(self.messages[-1], last=True)

    def result(self, call_id: Any, name: Any, text: str, place: Place, *, failed: bool = False) -> None:
        """Complete the call it answers; a result without a call is a line of its own."""
        call = self._open.pop(str(call_id), None)
        if call is None:
            self.say("tool", tool_line(name, None, text, failed=failed, max_chars=self._max_chars), place)
            return
        line = tool_line(call.name, call.arguments, text, failed=failed, max_chars=self._max_chars)
        self.messages[call.position] = replace(self.messages[call.position], text=line, line=place.line)
