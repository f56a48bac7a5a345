"""What the service tells beyond what `NeuralStream` answers: sessions, one user's status, what surrounds an entity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from neuralstream.clock import parse_time
from neuralstream.indexing import turn_point_id
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Gem, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neuralstream.parts import Parts
    from neuralstream.store.base import Record

__all__ = ["list_sessions", "source_turns", "surroundings", "user_status"]

Item = TypeVar("Item", Turn, Gem)

_BESIDE = 50
"""Neighbours of an entity, those named with it most often."""


@dataclass
class _Session:
    turns: int = 0
    gems: int = 0
    times: list[datetime] = field(default_factory=list)

    @property
    def last(self) -> float:
        """When it was last spoken in, in seconds; 0 where only gems are left of it."""
        return max(self.times).timestamp() if self.times else 0.0


def list_sessions(parts: Parts, user_id: str, limit: int) -> list[dict[str, Any]]:
    """A user's sessions, those spoken in last first; time grows with the number of turns."""
    found: dict[str, _Session] = {}
    pending = {turn_point_id(user_id, turn.turn_id): turn for turn in parts.buffer.pending(user_id)}
    for record in parts.store.scroll(TURNS, Where(user_id, kind="turn"), keys=("session_id", "created_at")):
        pending.pop(record.id, None)
        _count(found, record.payload["session_id"], parse_time(record.payload["created_at"]))
    for turn in pending.values():
        _count(found, turn.session_id, turn.at())
    for record in parts.store.scroll(GEMS, Where(user_id, kind="gem", status="active"), keys=("session_id",)):
        found.setdefault(record.payload["session_id"], _Session()).gems += 1
    waiting = {key.session_id: parts.buffer.undistilled(key) for key in parts.buffer.sessions(user_id)}
    latest = sorted(found.items(), key=lambda item: (item[1].last, item[0]), reverse=True)[:limit]
    return [
        {
            "session_id": session_id,
            "turns": session.turns,
            "gems": session.gems,
            "undistilled": waiting.get(session_id, 0),
            "first_at": min(session.times, default=None),
            "last_at": max(session.times, default=None),
        }
        for session_id, session in latest
    ]


def source_turns(parts: Parts, gem: Gem) -> list[Turn]:
    """The turns a gem was distilled from that are still kept, oldest first."""
    points = [turn_point_id(gem.user_id, turn_id) for turn_id in gem.source_turns]
    turns = [Turn.from_dict(record.payload["data"]) for record in parts.store.retrieve(TURNS, points)]
    return sorted(turns, key=lambda turn: (turn.at(), turn.index or 0))


def surroundings(parts: Parts, user_id: str, name: str, limit: int) -> dict[str, Any]:
    """What names an entity, in any casing, and what else that names: the graph one step around it.

    Returns:
        "gems" and "turns", newest first, at most `limit` of each, and "neighbours", most often named together first.
        Empty where nothing names it.
    """
    wanted = name.casefold()
    gems = _naming(
        parts.store.scroll(GEMS, Where(user_id, kind="gem", status="active")), wanted, ("entities", "topics")
    )
    turns = _naming(parts.store.scroll(TURNS, Where(user_id, kind="turn")), wanted, ("entities", "speakers"))
    beside = Counter(
        other
        for record in (*gems, *turns)
        for other in record.payload.get("entities", ())
        if other.casefold() != wanted
    )
    most = sorted(beside.items(), key=lambda item: (-item[1], item[0]))[:_BESIDE]
    return {
        "name": name,
        "gems": [gem.to_dict() for gem in _newest((Gem.from_dict(r.payload["data"]) for r in gems), limit)],
        "turns": [turn.to_dict() for turn in _newest((Turn.from_dict(r.payload["data"]) for r in turns), limit)],
        "neighbours": [{"name": other, "together": count} for other, count in most],
    }


def user_status(parts: Parts, user_id: str) -> dict[str, Any]:
    """How much of one user is where; `NeuralStream.status` counts everybody's."""
    sessions = parts.buffer.sessions(user_id)
    return {
        "user_id": user_id,
        "turns": parts.store.count(TURNS, Where(user_id, kind="turn")),
        "gems": parts.store.count(GEMS, Where(user_id, kind="gem", status="active")),
        "sessions": len(sessions),
        "undistilled": sum(map(parts.buffer.undistilled, sessions)),
        "unindexed": len(parts.buffer.pending(user_id)),
        "dead_letters": len(parts.buffer.dead_letters(user_id)),
    }


def _count(found: dict[str, _Session], session_id: str, said_at: datetime) -> None:
    session = found.setdefault(session_id, _Session())
    session.turns += 1
    session.times.append(said_at)


def _naming(records: Iterable[Record], wanted: str, fields: tuple[str, ...]) -> list[Record]:
    """Records that name something in one of these payload fields."""
    return [
        record
        for record in records
        if any(wanted == name.casefold() for field_ in fields for name in record.payload.get(field_) or ())
    ]


def _newest(items: Iterable[Item], limit: int) -> list[Item]:
    return sorted(items, key=lambda item: item.created_at.timestamp() if item.created_at else 0, reverse=True)[:limit]
