"""Routes that keep conversations, and that ask memory. `docs/http.md` describes them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from neuralstream.capture.records import SessionKey
from neuralstream.errors import NotFoundError
from neuralstream.serve import lookup
from neuralstream.serve.asked import Asked
from neuralstream.serve.models import (
    Captured,
    ContextAsked,
    ContextBlockOut,
    EntityOut,
    Fired,
    Hits,
    Queued,
    SearchAsked,
    SessionEnded,
    Sessions,
    StatusOut,
    Themes,
    Thread,
    TurnEnded,
    TurnsIn,
)
from neuralstream.stream import NeuralStream
from neuralstream.types import Turn

__all__ = ["router"]

router = APIRouter(prefix="/v1")

Limit = Annotated[int, Query(ge=1, le=1000)]
UserQuery = Annotated[str | None, Query(min_length=1)]


# What a host reports.


@router.post("/turns", response_model=Captured)
async def capture(body: TurnsIn, asked: Asked) -> Any:
    """Keep turns. When this answers, they survive kill -9 and are found by every search; a known id changes nothing."""
    turns = [turn.turn(asked.owner(turn.user_id)) for turn in body.turns]
    metrics = asked.service.metrics
    with metrics.timed(metrics.capture_seconds):
        kept = await asked.service.capturing.run(_capture, asked.memory, turns)
    metrics.turns.labels("new").inc(sum(kept))
    metrics.turns.labels("known").inc(len(kept) - sum(kept))
    told = [{"turn_id": turn.turn_id, "new": new} for turn, new in zip(turns, kept, strict=True)]
    return {"new": sum(kept), "turns": told}


@router.post("/turn_end", response_model=Fired)
async def turn_end(body: TurnEnded, asked: Asked) -> Any:
    """Report how full the context is after a turn; crossing `context_threshold` distils everything undistilled."""
    fired = await asked.service.capturing.run(
        asked.memory.turn_end,
        body.session_id,
        None if body.usage is None else body.usage.usage(),
        user_id=asked.owner(body.user_id),
        turn_id=body.turn_id,
    )
    return {"fired": fired}


@router.post("/sessions/{session_id:path}/end", response_model=Queued)
async def end_session(session_id: str, asked: Asked, body: SessionEnded | None = None) -> Any:
    """Distil what a session has left: it ended, was reset, or the host is about to compact it."""
    body = body or SessionEnded(user_id=None)
    user = asked.owner(body.user_id)

    def end() -> int:
        left = asked.memory.parts.buffer.undistilled(SessionKey(user, session_id))
        asked.memory.end_session(session_id, reason=body.reason, user_id=user)
        return left

    return {"queued": await asked.service.capturing.run(end)}


# What an agent asks.


@router.post("/context", response_model=ContextBlockOut)
async def context(body: ContextAsked, asked: Asked) -> Any:
    """What to put back before the next prompt: gems and uncovered turns, fenced as untrusted history."""
    metrics = asked.service.metrics
    with metrics.timed(metrics.query_seconds.labels("context")):
        block = await asked.service.asking.run(
            asked.memory.context,
            body.query,
            session_id=body.session_id,
            window=body.window,
            budget_tokens=body.budget_tokens,
            max_gems=body.max_gems,
            user_id=asked.owner(body.user_id),
            as_of=body.as_of,
        )
    return {"text": block.text, "tokens": block.tokens, "hits": [hit.to_dict() for hit in block.hits]}


@router.post("/search", response_model=Hits)
async def search(body: SearchAsked, asked: Asked) -> Any:
    """The most relevant turns and gems, best first."""
    metrics = asked.service.metrics
    with metrics.timed(metrics.query_seconds.labels(body.mode or asked.memory.settings.retrieval.mode)):
        hits = await asked.service.asking.run(
            asked.memory.search,
            body.query,
            mode=body.mode,
            k=body.k,
            lane=body.lane,
            user_id=asked.owner(body.user_id),
            as_of=body.as_of,
            since=body.since,
            until=body.until,
            session_id=body.session_id,
            tags=body.tags,
            exclude_turns=body.exclude_turns,
            explain=body.explain,
        )
    return {"hits": [hit.to_dict() for hit in hits]}


@router.get("/recent", response_model=Hits)
async def recent(
    asked: Asked,
    *,
    limit: Limit = 20,
    since: datetime | None = None,
    until: datetime | None = None,
    session_id: str | None = None,
    kind: Literal["turn", "gem"] = "turn",
    as_of: datetime | None = None,
    user_id: UserQuery = None,
) -> Any:
    """The newest turns or gems, newest first; a hit's score is its time in seconds since 1970."""
    hits = await asked.service.asking.run(
        asked.memory.recent,
        limit,
        since=since,
        until=until,
        session_id=session_id,
        kind=kind,
        user_id=asked.owner(user_id),
        as_of=as_of,
    )
    return {"hits": [hit.to_dict() for hit in hits]}


@router.get("/sessions", response_model=Sessions)
async def sessions(asked: Asked, *, limit: Limit = 100, user_id: UserQuery = None) -> Any:
    """Sessions, the latest first."""
    parts, user = asked.memory.parts, asked.owner(user_id)
    return {"sessions": await asked.service.asking.run(lookup.list_sessions, parts, user, limit)}


@router.get("/sessions/{session_id:path}", response_model=Thread)
async def thread(session_id: str, asked: Asked, *, user_id: UserQuery = None) -> Any:
    """A whole session, oldest turn first, and the gems distilled from it that hold."""
    user = asked.owner(user_id)
    turns = await asked.service.asking.run(asked.memory.thread, session_id, user_id=user)
    if not turns:
        raise NotFoundError(f"user {user!r} has no session {session_id!r}; GET /v1/sessions lists them")
    gems = await asked.service.asking.run(asked.memory.gems, session_id=session_id, user_id=user)
    return {
        "session_id": session_id,
        "turns": [turn.to_dict() for turn in turns],
        "gems": [gem.to_dict() for gem in gems],
    }


@router.get("/themes", response_model=Themes)
async def themes(
    asked: Asked,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    summary: bool = False,
    user_id: UserQuery = None,
) -> Any:
    """What the conversations keep returning to; with `summary`, told by the language model."""
    service, user = asked.service, asked.owner(user_id)
    if summary:
        told = await service.asking.run_within(
            service.patience, asked.memory.summary, since=since, until=until, limit=limit, user_id=user
        )
        return told.to_dict()
    found = await service.asking.run(asked.memory.themes, since=since, until=until, limit=limit, user_id=user)
    return {"themes": [theme.to_dict() for theme in found]}


@router.get("/entities/{name:path}", response_model=EntityOut)
async def entity(
    name: str, asked: Asked, *, limit: Annotated[int, Query(ge=1, le=200)] = 20, user_id: UserQuery = None
) -> Any:
    """What names an entity, in any casing, and what is named beside it."""
    user = asked.owner(user_id)
    found = await asked.service.asking.run(lookup.surroundings, asked.memory.parts, user, name, limit)
    if not found["gems"] and not found["turns"]:
        raise NotFoundError(f"nothing of user {user!r} names {name!r}; gems and turns list the entities they name")
    return found


@router.get("/status", response_model=StatusOut)
async def status(asked: Asked, *, user_id: UserQuery = None) -> Any:
    """How much of a user is where."""
    return await asked.service.asking.run(lookup.user_status, asked.memory.parts, asked.owner(user_id))


def _capture(memory: NeuralStream, turns: list[Turn]) -> list[bool]:
    return [memory.capture(turn) for turn in turns]
