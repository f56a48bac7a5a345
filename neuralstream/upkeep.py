"""What people do to a memory by hand: remember a statement, carry a memory elsewhere, fill its store anew."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from neuralstream.capture.records import SessionKey
from neuralstream.entities import find_entities
from neuralstream.errors import InputError, StoreError
from neuralstream.files import write_whole
from neuralstream.retrieve.documents import REMEMBERED
from neuralstream.store.base import MemoryStore, Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import DEFAULT_USER, Gem, GemTag, Part, Source, Turn

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.indexing import Indexer
    from neuralstream.parts import Parts

__all__ = ["DiskLimit", "export", "reindex", "remember", "restore"]

_EXPORT_FORMAT = "neuralstream-export"
_EXPORT_VERSION = 1
_AT_ONCE = 256


class DiskLimit:
    """Refuses to keep more once the data folder is larger than `max_disk_mb`; looks at it every 100 captures."""

    _EVERY = 100

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.home
        self._most = settings.max_disk_mb
        self._calls = 0

    def check(self) -> None:
        """Raise where the folder was too large at the last look.

        Raises:
            StoreError: says how large it is and what makes room.
        """
        if self._most is None:
            return
        if self._calls % self._EVERY == 0:
            held = sum(map(_disk_bytes, _files(self._folder))) / 1e6
            if held > self._most:
                raise StoreError(
                    f"{self._folder} holds {held:.0f} MB, more than max_disk_mb = {self._most}: raise it, "
                    "set retention, or make room with `neuralstream forget --before DATE`"
                )
        self._calls += 1


def _files(folder: Path) -> Iterator[Path]:
    """Every file below; what vanishes meanwhile, as when the store is rewritten, is passed over."""
    for inside, _, names in os.walk(folder):
        yield from (Path(inside) / name for name in names)


def _disk_bytes(path: Path) -> int:
    """What a file takes on disk: blocks, since the engine keeps sparse files; nothing where it vanished meanwhile."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def remember(
    parts: Parts, text: str, *, tags: tuple[GemTag, ...], topics: tuple[str, ...], importance: float, user_id: str
) -> Gem:
    """Store a statement as a gem with a turn of its own in the session `REMEMBERED`; see `NeuralStream.remember`."""
    from neuralstream.capture.intake import prepare

    now = parts.clock()
    turn = prepare(Turn((Part("user", text),), REMEMBERED, user_id=user_id), parts.settings, now)
    if turn is None:
        raise InputError(f"there is nothing to remember in {text[:60]!r}; write a statement")
    content = turn.text
    # The same statement is the same turn, so that remembering it again adds nothing.
    turn_id = Gem.make_id(user_id, REMEMBERED, (), content)
    session = SessionKey(user_id, REMEMBERED)
    with parts.worker.paused():
        index = parts.buffer.index_of(session, turn_id)
        if index < 0:
            index = parts.buffer.next_index(session)
            turn = replace(turn, turn_id=turn_id, index=index)
            parts.indexer.index_turns([turn])
            parts.buffer.mark_known(turn)
    gem = Gem(
        gem_id=Gem.make_id(user_id, REMEMBERED, (turn_id,), content),
        content=content,
        source=Source(REMEMBERED, now.date().isoformat(), f"{index}-{index}"),
        source_turns=(turn_id,),
        created_at=now,
        user_id=user_id,
        topics=topics,
        tags=tags,
        importance=importance,
        entities=find_entities(content),
        snippet=content,
        valid_from=now,
        model="remember",
        embedder=parts.embedder.name,
    )
    (kept,) = parts.distiller.store([gem])
    return kept


def export(parts: Parts, path: Path, user_id: str) -> int:
    """Write a user's memory as JSON lines: a header, turns by session and index, gems by time.

    Turns that are not distilled yet are marked, so that they still are after `restore`.

    Returns:
        How many turns and gems were written.
    """
    parts.worker.index_all()
    waiting = {turn.turn_id for turn in parts.buffer.waiting(user_id)}
    turns = [Turn.from_dict(data) for data in _stored(parts.store, TURNS, Where(user_id, kind="turn"))]
    gems = [Gem.from_dict(data) for data in _stored(parts.store, GEMS, Where(user_id, kind="gem"))]
    lines: list[dict[str, Any]] = [{"format": _EXPORT_FORMAT, "version": _EXPORT_VERSION, "user_id": user_id}]
    lines += [
        {"turn": turn.to_dict(), "undistilled": turn.turn_id in waiting} for turn in sorted(turns, key=_by_session)
    ]
    lines += [{"gem": gem.to_dict()} for gem in sorted(gems, key=_by_time)]
    try:
        write_whole(path, (json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; name a file in a folder that exists") from error
    return len(lines) - 1


def restore(parts: Parts, path: Path, user_id: str | None) -> int:
    """Read what `export` wrote; turns and gems that are known already stay as they are.

    Args:
        parts: the memory to restore into.
        path: an export.
        user_id: whose memory it becomes; None keeps the exported user.

    Returns:
        How many turns and gems were new.

    Raises:
        InputError: the file is not an export, or a line of it cannot be read; nothing was stored then.
    """
    turns: list[Turn] = []
    gems: list[Gem] = []
    waiting: set[str] = set()
    for line in _read_export(path):
        if "turn" in line:
            turns.append(_as_user(Turn.from_dict(line["turn"]), user_id))
            if line.get("undistilled"):
                waiting.add(turns[-1].turn_id)
        else:
            gems.append(_checked(Gem.from_dict(line["gem"]), path))
    if user_id:
        gems = _as_users(gems, user_id)
    new = 0
    for (user, session_id), group in groupby(sorted(turns, key=_by_session), key=lambda t: (t.user_id, t.session_id)):
        session = SessionKey(user, session_id)
        unknown = [turn for turn in group if not parts.buffer.knows(session, turn.turn_id)]
        _index(parts.indexer, [turn for turn in unknown if turn.turn_id not in waiting], ())
        for turn in unknown:
            if turn.turn_id in waiting:
                parts.buffer.append(turn, turn.at())
            else:
                parts.buffer.mark_known(turn)
        new += len(unknown)
    parts.worker.index_all()
    known = {record.id for record in parts.store.retrieve(GEMS, [gem.gem_id for gem in gems])}
    unknown_gems = [gem for gem in gems if gem.gem_id not in known]
    _index(parts.indexer, (), unknown_gems)
    return new + len(unknown_gems)


def reindex(settings: Settings, embedder: Embedder | None) -> int:
    """Fill the store anew with the embedder and analyser of today; see `NeuralStream.reindex`."""
    from neuralstream.embed import make_embedder
    from neuralstream.indexing import Indexer, fingerprint
    from neuralstream.store import rebuilding, scroll_earlier

    with ExitStack() as opened:
        if embedder is None:
            embedder = make_embedder(settings)
            opened.callback(getattr(embedder, "close", lambda: None))
        old, new = opened.enter_context(rebuilding(settings, fingerprint(embedder)))
        turns = [Turn.from_dict(data) for data in _stored(old, TURNS, Where(None, kind="turn"))]
        gems = [Gem.from_dict(data) for data in _stored(old, GEMS, Where(None, kind="gem"))]
        gems += [_earlier_gem(record.payload) for record in scroll_earlier(settings)]
        gems = [replace(gem, embedder=embedder.name) for gem in gems]
        _index(Indexer(new, embedder, settings.retrieval), turns, gems)
    return len(turns) + len(gems)


def _read_export(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; name a file that `neuralstream export` wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is damaged: it is not UTF-8; nothing was restored") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError as error:
            raise InputError(f"{path}, line {number} is damaged: {error}; nothing was restored") from error
    head = rows[0] if rows and isinstance(rows[0], dict) else {}
    if head.get("format") != _EXPORT_FORMAT:
        raise InputError(
            f"{path} is not an export of `neuralstream export`; other logs are read by `neuralstream replay`"
        )
    if head.get("version") != _EXPORT_VERSION:
        raise InputError(f"{path} is an export of version {head.get('version')}; this release reads {_EXPORT_VERSION}")
    for number, row in enumerate(rows[1:], start=2):
        if not isinstance(row, dict) or not ("turn" in row or "gem" in row):
            raise InputError(f"{path}, line {number}: neither a turn nor a gem; nothing was restored")
        yield row


def _stored(store: MemoryStore | None, collection: str, where: Where) -> Iterator[Any]:
    """The turns or gems of a store, as they were written."""
    return (record.payload["data"] for record in store.scroll(collection, where)) if store else iter(())


def _index(indexer: Indexer, turns: Sequence[Turn], gems: Sequence[Gem]) -> None:
    """Index in the order of time, some at a time: gems read the neighbourhood of the turns they cite."""
    turns, gems = sorted(turns, key=_by_session), sorted(gems, key=_by_time)
    for start in range(0, len(turns), _AT_ONCE):
        indexer.index_turns(turns[start : start + _AT_ONCE])
    for start in range(0, len(gems), _AT_ONCE):
        indexer.index_gems(gems[start : start + _AT_ONCE])


def _earlier_gem(payload: Mapping[str, Any]) -> Gem:
    """A gem of an earlier NeuralStream, which had the seed's fields and no turn ids."""
    told = payload.get("source")
    source = {name: str(told.get(name, "")) if isinstance(told, Mapping) else "" for name in Source.__slots__}
    importance = payload.get("importance")
    user_id = payload.get("user_id") or DEFAULT_USER
    content = payload.get("content") or payload.get("summary") or "(no content)"
    return Gem.from_dict(
        {
            # Their ids were numbers or UUIDs of another making.
            "gem_id": Gem.make_id(user_id, source["session_id"], (), content),
            "content": content,
            "source": source,
            "source_turns": [],
            "created_at": payload.get("created_at") or source["date"] or 0,
            "user_id": user_id,
            "summary": payload.get("summary") or "",
            "topics": payload.get("topics") or [],
            "tags": [tag for tag in payload.get("tags") or [] if tag in get_args(GemTag)] or ["fact"],
            "importance": min(max(importance, 0.0), 1.0) if isinstance(importance, int | float) else 0.5,
            "model": "earlier NeuralStream",
        }
    )


def _checked(gem: Gem, path: Path) -> Gem:
    """The gem, if a store can keep it."""
    try:
        UUID(gem.gem_id)
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path}: gem id {gem.gem_id!r} is no UUID; nothing was restored") from error
    return gem


def _as_users(gems: Sequence[Gem], user_id: str) -> list[Gem]:
    """The gems under another user, and so under other ids."""
    new_id = {gem.gem_id: Gem.make_id(user_id, gem.source.session_id, gem.source_turns, gem.content) for gem in gems}
    return [
        replace(
            gem,
            gem_id=new_id[gem.gem_id],
            user_id=user_id,
            supersedes=tuple(new_id.get(old, old) for old in gem.supersedes),
        )
        for gem in gems
    ]


def _as_user(turn: Turn, user_id: str | None) -> Turn:
    return replace(turn, user_id=user_id) if user_id else turn


def _by_session(turn: Turn) -> tuple[str, str, int]:
    return (turn.user_id, turn.session_id, turn.index or 0)


def _by_time(gem: Gem) -> tuple[datetime, str]:
    return (gem.created_at, gem.gem_id)
