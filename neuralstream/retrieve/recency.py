"""Time: how recent something is as a signal, and listings ordered by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from neuralstream.clock import parse_time
from neuralstream.errors import NotFoundError
from neuralstream.retrieve.documents import turn_point_id
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Gem, Hit, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.store.base import MemoryStore, Record
    from neuralstream.types import GemTag

__all__ = [
    "HALF_LIFE",
    "SHORT_ID",
    "find_gem",
    "holds",
    "list_gems",
    "newest",
    "present",
    "recency",
    "session_turns",
    "within",
]

HALF_LIFE = timedelta(days=30)
"""Age at which something is half as recent as what was just said."""

SHORT_ID = 8
"""Digits of a gem's id that tell it from others, as a context block shows it."""

_START = datetime.min.replace(tzinfo=UTC)


def recency(created_at: datetime, as_of: datetime) -> float:
    """1 for what was just said, halving every HALF_LIFE."""
    return float(0.5 ** (max(as_of - created_at, timedelta()) / HALF_LIFE))


def holds(payload: Mapping[str, Any], as_of: datetime) -> bool:
    """Whether a stored gem held at a moment; a turn always does.

    Args:
        payload: with `kind` and `status` and, under `data`, `valid_from` and `valid_until`.
        as_of: the moment.
    """
    if payload["kind"] != "gem":
        return True
    data = payload.get("data", {})
    begins, ends = data.get("valid_from"), data.get("valid_until")
    if begins is not None and parse_time(begins) > as_of:
        return False
    return payload["status"] == "active" or (ends is not None and parse_time(ends) > as_of)


def newest(
    store: MemoryStore,
    user_id: str,
    limit: int,
    *,
    kind: Literal["turn", "gem"] = "turn",
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: datetime | None = None,
    session_id: str | None = None,
    pending: Sequence[Turn] = (),
) -> list[Hit]:
    """The newest turns, or gems that hold, newest first, ordered before the limit.

    Args:
        store: holds what is indexed.
        user_id: whose memory.
        limit: most hits.
        kind: turns or gems.
        since, until: only what was created within this closed range.
        as_of: nothing created later, and gems that held at this moment; None is the present.
        session_id: only this session.
        pending: turns that are captured and not stored yet.

    Returns:
        Hits whose score is their time in seconds since 1970; ties by descending index, then id.
    """
    where = Where(
        user_id,
        kind=kind,
        session_ids=() if session_id is None else (session_id,),
        since=since,
        until=min((moment for moment in (until, as_of) if moment), default=None),
        status="active" if kind == "gem" and as_of is None else None,
    )
    records = _newest_that_hold(store, GEMS if kind == "gem" else TURNS, where, limit, as_of)
    read = Gem.from_dict if kind == "gem" else Turn.from_dict
    items: dict[str, Turn | Gem] = {}
    if kind == "turn":
        items.update((turn.turn_id, turn) for turn in pending if within(turn, where))
    for record in records:
        item = read(record.payload["data"])
        items[Hit(item, 0.0).id] = item
    hits = [Hit(item, item.created_at.timestamp()) for item in items.values() if item.created_at is not None]
    return sorted(hits, key=lambda hit: (-hit.score, -_index(hit.item), hit.id))[: max(limit, 0)]


def _newest_that_hold(
    store: MemoryStore, collection: str, where: Where, limit: int, as_of: datetime | None
) -> list[Record]:
    """However many versions were superseded since."""
    asked = max(limit, 0)
    while asked:
        records = store.newest(collection, where, asked)
        kept = [record for record in records if as_of is None or holds(record.payload, as_of)]
        if len(kept) >= limit or len(records) < asked:
            return kept[:limit]
        asked *= 4
    return []


def present(store: MemoryStore, user_id: str, now: datetime, *, pending: Sequence[Turn] = ()) -> datetime:
    """Now, or the time of a user's newest turn where a host's clock runs ahead of ours."""
    ahead = newest(store, user_id, 1, pending=pending)
    return max([now, *(hit.item.created_at for hit in ahead if hit.item.created_at)])


def session_turns(store: MemoryStore, user_id: str, session_id: str, *, pending: Sequence[Turn] = ()) -> list[Turn]:
    """A whole session, oldest turn first."""
    where = Where(user_id, kind="turn", session_ids=(session_id,))
    turns = {turn.turn_id: turn for turn in pending if within(turn, where)}
    stored = (Turn.from_dict(record.payload["data"]) for record in store.scroll(TURNS, where))
    turns.update((turn.turn_id, turn) for turn in stored)
    return sorted(turns.values(), key=lambda turn: (_index(turn), turn.created_at or _START, turn.turn_id))


def list_gems(
    store: MemoryStore,
    user_id: str,
    *,
    session_id: str | None = None,
    tags: Sequence[GemTag] = (),
    status: Literal["active", "superseded"] | None = "active",
    limit: int | None = None,
) -> list[Gem]:
    """Gems, newest first; all of them where `limit` is None."""
    where = Where(
        user_id,
        kind="gem",
        session_ids=() if session_id is None else (session_id,),
        tags=tuple(tags),
        status=status,
    )
    size = store.count(GEMS, where) if limit is None else limit
    records = store.newest(GEMS, where, size) if size > 0 else []
    return [Gem.from_dict(record.payload["data"]) for record in records]


def find_gem(store: MemoryStore, user_id: str, gem_id: str) -> Gem:
    """A user's gem by its id, or by at least `SHORT_ID` first digits of it.

    Raises:
        NotFoundError: there is none, or more than one.
    """
    found = [record for record in store.retrieve(GEMS, [gem_id]) if record.payload["user_id"] == user_id]
    if not found and SHORT_ID <= len(gem_id) < len(str(UUID(int=0))):
        known = store.scroll(GEMS, Where(user_id, kind="gem"), keys=("kind",))
        ids = [record.id for record in known if record.id.startswith(gem_id.lower())]
        found = store.retrieve(GEMS, ids)
    if len(found) != 1:
        many = f"{len(found)} gems that begin with" if found else "no gem"
        raise NotFoundError(f"user {user_id!r} has {many} {gem_id!r}; `neuralstream gems list` shows them")
    return Gem.from_dict(found[0].payload["data"])


def within(turn: Turn, where: Where) -> bool:
    """Whether a turn that is not stored yet meets the conditions on user, session, time and id."""
    return (
        turn.user_id == where.user_id
        and (not where.session_ids or turn.session_id in where.session_ids)
        and (where.since is None or turn.at() >= where.since)
        and (where.until is None or turn.at() <= where.until)
        and turn_point_id(turn.user_id, turn.turn_id) not in where.not_ids
    )


def _index(item: Turn | Gem) -> int:
    return (item.index or 0) if isinstance(item, Turn) else 0
