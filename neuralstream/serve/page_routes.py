"""What the page asks beyond the other routes: a session as the batches it was distilled in."""

from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from neuralstream.capture.records import SessionKey
from neuralstream.errors import NotFoundError
from neuralstream.serve.asked import Asked
from neuralstream.serve.models import GemOut, TurnOut
from neuralstream.stream import NeuralStream
from neuralstream.types import Turn

__all__ = ["router"]

router = APIRouter(prefix="/v1")


class BatchOut(BaseModel):
    """Turns that were distilled together, and the gems that cite them, those that hold no more included."""

    trigger: str | None = Field(
        description="batch, context, idle, end, reset, compaction or shutdown; null: none has taken these turns"
    )
    turns: list[TurnOut]
    gems: list[GemOut]


class Timeline(BaseModel):
    """A session's batches, oldest first, and the gems whose turns are not kept."""

    session_id: str
    batches: list[BatchOut]
    other_gems: list[GemOut]


@router.get("/timeline/{session_id:path}", response_model=Timeline)
async def timeline(session_id: str, asked: Asked, *, user_id: Annotated[str | None, Query(min_length=1)] = None) -> Any:
    """A whole session, oldest turn first, cut where a trigger had it distilled, with what was made of each piece."""
    return await asked.service.asking.run(_timeline, asked.memory, asked.owner(user_id), session_id)


def _timeline(memory: NeuralStream, user: str, session_id: str) -> dict[str, Any]:
    turns = memory.thread(session_id, user_id=user)
    if not turns:
        raise NotFoundError(f"user {user!r} has no session {session_id!r}; GET /v1/sessions lists them")
    gems = memory.gems(session_id=session_id, status=None, user_id=user)
    planned = memory.parts.buffer.planned(SessionKey(user, session_id))

    def batch_of(turn: Turn) -> tuple[int, str | None]:
        """The first planned batch that does not end before the turn."""
        index = turn.index or 0
        return next(((last, trigger) for last, trigger in planned if index <= last), (-1, None))

    batches = []
    unplaced = {gem.gem_id: gem for gem in reversed(gems)}
    for (_, trigger), together in groupby(turns, key=batch_of):
        batch = list(together)
        ids = {turn.turn_id for turn in batch}
        made = [gem for gem in unplaced.values() if ids.intersection(gem.source_turns)]
        for gem in made:
            del unplaced[gem.gem_id]
        batches.append(
            {
                "trigger": trigger,
                "turns": [turn.to_dict() for turn in batch],
                "gems": [gem.to_dict() for gem in made],
            }
        )
    return {
        "session_id": session_id,
        "batches": batches,
        "other_gems": [gem.to_dict() for gem in unplaced.values()],
    }
