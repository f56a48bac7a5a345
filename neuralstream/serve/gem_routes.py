"""Routes that read, add, correct and remove gems, and what could not be made into one."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from neuralstream.serve import lookup
from neuralstream.serve.asked import Asked
from neuralstream.serve.models import (
    Correction,
    DeadLetters,
    ForgetAsked,
    ForgottenOut,
    GemDetail,
    GemOut,
    Gems,
    Queued,
    RememberAsked,
)
from neuralstream.types import GemTag

__all__ = ["router"]

router = APIRouter(prefix="/v1")

UserQuery = Annotated[str | None, Query(min_length=1)]


@router.get("/gems", response_model=Gems)
async def gems(
    asked: Asked,
    *,
    session_id: str | None = None,
    tag: Annotated[list[GemTag], Query(default_factory=list)],
    status: Literal["active", "superseded", "any"] = "active",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    user_id: UserQuery = None,
) -> Any:
    """Gems, newest first."""
    found = await asked.service.asking.run(
        asked.memory.gems,
        session_id=session_id,
        tags=tag,
        status=None if status == "any" else status,
        limit=limit,
        user_id=asked.owner(user_id),
    )
    return {"gems": [gem.to_dict() for gem in found]}


@router.get("/gems/{gem_id}", response_model=GemDetail)
async def gem(gem_id: str, asked: Asked, *, history: bool = False, user_id: UserQuery = None) -> Any:
    """A gem by its id, or the eight or more first digits of it; its source turns; with `history`, every version."""
    user, memory = asked.owner(user_id), asked.memory

    def read() -> dict[str, Any]:
        found = memory.gem(gem_id, user_id=user)
        versions = memory.history(gem_id, user_id=user) if history else None
        return {
            "gem": found.to_dict(),
            "turns": [turn.to_dict() for turn in lookup.source_turns(memory.parts, found)],
            "versions": None if versions is None else [version.to_dict() for version in versions],
        }

    return await asked.service.asking.run(read)


@router.patch("/gems/{gem_id}", response_model=GemOut)
async def correct(gem_id: str, body: Correction, asked: Asked) -> Any:
    """Replace what a gem says by a new gem of the same source; the old one stays on record."""
    new = await asked.service.asking.run(asked.memory.correct, gem_id, body.content, user_id=asked.owner(body.user_id))
    return new.to_dict()


@router.delete("/gems/{gem_id}", response_model=ForgottenOut)
async def delete(gem_id: str, asked: Asked, *, user_id: UserQuery = None) -> Any:
    """Remove a gem, and prove it."""
    return await _forget(asked, asked.owner(user_id), gem_id=gem_id)


@router.post("/remember", response_model=GemOut)
async def remember(body: RememberAsked, asked: Asked) -> Any:
    """Keep a statement as a gem, at once."""
    new = await asked.service.asking.run(
        asked.memory.remember,
        body.text,
        tags=body.tags,
        topics=body.topics,
        importance=body.importance,
        user_id=asked.owner(body.user_id),
    )
    return new.to_dict()


@router.post("/forget", response_model=ForgottenOut)
async def forget(body: ForgetAsked, asked: Asked) -> Any:
    """Remove a gem, a session, what is older than a date, or everything of a user, and prove it."""
    return await _forget(
        asked, asked.owner(body.user_id), gem_id=body.gem_id, session_id=body.session_id, before=body.before
    )


@router.get("/deadletters", response_model=DeadLetters)
async def dead_letters(asked: Asked, *, user_id: UserQuery = None) -> Any:
    """Batches that could not be distilled, oldest first, each with its reason and its turns."""
    letters = await asked.service.asking.run(asked.memory.dead_letters, user_id=asked.owner(user_id))
    return {"dead_letters": [letter.to_dict() for letter in letters]}


@router.post("/deadletters/retry", response_model=Queued)
async def retry_dead_letters(asked: Asked, *, user_id: UserQuery = None) -> Any:
    """Distil dead letters again."""
    queued = await asked.service.asking.run(asked.memory.retry_dead_letters, user_id=asked.owner(user_id))
    return {"queued": queued}


async def _forget(asked: Asked, user: str, **what: Any) -> Any:
    service = asked.service
    done = await service.asking.run_within(service.patience, asked.memory.forget, user_id=user, **what)
    return done.to_dict()
