"""What the buffer hands out."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from neuralstream.types import Turn

__all__ = ["BufferStatus", "DeadLetter", "LeasedBatch", "SessionKey", "Unindexed"]


class SessionKey(NamedTuple):
    """A user's session."""

    user_id: str
    session_id: str

    def __str__(self) -> str:
        return f"{quote(self.user_id, safe='')}/{quote(self.session_id, safe='')}"

    @classmethod
    def parse(cls, key: str) -> SessionKey:
        """Inverse of `str`."""
        user, _, session = key.partition("/")
        return cls(unquote(user), unquote(session))


class LeasedBatch(NamedTuple):
    """A batch to distil, owned by this process until the lease ends. `answer` is what an earlier try recorded."""

    batch_id: str
    session: SessionKey
    trigger: str
    turns: tuple[Turn, ...]
    attempts: int
    answer: str | None


class Unindexed(NamedTuple):
    """The oldest turns of a session that are not searchable yet, locked by this process."""

    session: SessionKey
    entries: tuple[str, ...]
    turns: tuple[Turn, ...]


class DeadLetter(NamedTuple):
    """A batch that could not be distilled: why, its turns, and the answer that could not be used or stored, if any."""

    batch_id: str
    session: SessionKey
    reason: str
    turns: tuple[Turn, ...]
    answer: str | None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "batch_id": self.batch_id,
            "user_id": self.session.user_id,
            "session_id": self.session.session_id,
            "reason": self.reason,
            "turns": [turn.to_dict() for turn in self.turns],
            "answer": self.answer,
        }


class BufferStatus(NamedTuple):
    """How much is where. Counts of turns, but for `sessions`, `batches_waiting`, `batches_done` and `dead_letters`."""

    sessions: int
    captured: int
    undistilled: int
    unindexed: int
    batches_waiting: int
    batches_done: int
    dead_letters: int
