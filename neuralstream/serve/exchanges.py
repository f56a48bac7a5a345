"""What was said lately, as questions and answers.

A turn that holds both sides is an exchange of its own. Where a log has one utterance per turn, what one speaker says in
a row is one side, and two sides in a row make an exchange: counted from the session's first turn, so that the pairs
are the same however much of the session is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Protocol

from neuralstream.types import Hit, Part, Turn

__all__ = ["Exchange", "exchanges", "recent_exchanges"]

_USER, _ASSISTANT = "user", "assistant"

_MOST_TURNS = 1000
"""Turns looked back through; the HTTP service lists no more at a time."""


class Remembers(Protocol):
    """The two listings that exchanges are made of, as `NeuralStream` has them."""

    def recent(
        self,
        limit: int = 20,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user_id: str | None = None,
    ) -> list[Hit]:
        """The newest turns, newest first."""
        ...

    def thread(self, session_id: str, *, user_id: str | None = None) -> list[Turn]:
        """A whole session, oldest turn first."""
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer.

    Attributes:
        q: what was said first; empty where the assistant began.
        a: the answer, without tool calls; empty where there is none yet.
        turns: what it was made of, oldest first.
    """

    q: str
    a: str
    turns: tuple[Turn, ...]

    @property
    def ended_at(self) -> datetime:
        """The time of its last turn."""
        return self.turns[-1].at()


def recent_exchanges(
    memory: Remembers, limit: int, *, since: datetime | None, until: datetime | None, user_id: str | None
) -> list[Exchange]:
    """The newest exchanges that ended within the closed range, newest first; none beyond the newest 1,000 turns."""
    asked = limit
    while True:
        hits = memory.recent(asked, since=since, until=until, user_id=user_id)
        turns = [hit.item for hit in hits if isinstance(hit.item, Turn)]
        found = _ended_with(turns, memory, user_id)
        if len(found) >= limit or len(turns) < asked or asked >= _MOST_TURNS:
            return found[:limit]
        # Several turns made one exchange: look further back.
        asked = min(2 * asked, _MOST_TURNS)


def exchanges(session: Iterable[Turn]) -> Iterator[Exchange]:
    """A session's exchanges, oldest first.

    Args:
        session: its turns from the first on, in order.
    """
    asked: list[Turn] = []
    for side, run in groupby(session, key=_one_side):
        turns = list(run)
        if side is None:
            if asked:
                yield _unanswered(asked)
            asked = []
            yield from map(_whole, turns)
        elif asked or side == _ASSISTANT:
            yield Exchange(_text(_parts(asked)), _text(_parts(turns)), (*asked, *turns))
            asked = []
        else:
            # Before a user sends the next message, the last one was answered or never will be.
            started = len(turns) - 1 if side == _USER else 0
            yield from (_unanswered([turn]) for turn in turns[:started])
            asked = turns[started:]
    if asked:
        yield _unanswered(asked)


def _ended_with(newest: Sequence[Turn], memory: Remembers, user_id: str | None) -> list[Exchange]:
    """The exchanges whose last turn is one of these, newest first."""
    found = [_whole(turn) for turn in newest if _one_side(turn) is None]
    ids = {turn.turn_id for turn in newest}
    for session_id in dict.fromkeys(turn.session_id for turn in newest if _one_side(turn) is not None):
        found += [
            exchange
            for exchange in exchanges(memory.thread(session_id, user_id=user_id))
            if exchange.turns[-1].turn_id in ids and _one_side(exchange.turns[-1]) is not None
        ]
    place = {turn.turn_id: number for number, turn in enumerate(newest)}
    return sorted(found, key=lambda exchange: place[exchange.turns[-1].turn_id])


def _unanswered(asked: Sequence[Turn]) -> Exchange:
    return Exchange(_text(_parts(asked)), "", tuple(asked))


def _whole(turn: Turn) -> Exchange:
    """A turn with both sides: who speaks first asks."""
    first = _side(turn.parts[0])
    return Exchange(
        _text(part for part in turn.parts if _side(part) == first),
        _text(part for part in turn.parts if _side(part) != first),
        (turn,),
    )


def _one_side(turn: Turn) -> str | None:
    """Who alone speaks in a turn; None where several do."""
    sides = {_side(part) for part in turn.parts}
    return sides.pop() if len(sides) == 1 else None


def _side(part: Part) -> str:
    """Whose side a part is on; tools are on the assistant's."""
    if part.role == "person":
        return f"person {part.speaker or ''}"
    return _USER if part.role == "user" else _ASSISTANT


def _parts(turns: Iterable[Turn]) -> Iterator[Part]:
    return (part for turn in turns for part in turn.parts)


def _text(parts: Iterable[Part]) -> str:
    """What was said, with a name where there is one; tool calls are left out."""
    return "\n".join(
        f"{part.speaker}: {part.text}" if part.speaker else part.text for part in parts if part.role != "tool"
    )
