"""Forgetting that proves itself: what is named is removed everywhere it was kept, then everything is asked again.

By hand, or once a day what is older than `retention`. What is to go is written down first, by its ids, in the data
folder: a process that is killed meanwhile leaves it to the next one, because half a session must not be read, nor its
words lie where nobody would look for them any more. What was captured since stays, even in that session.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, get_args

from neuralstream.capture.records import SessionKey
from neuralstream.clock import iso_time, parse_time
from neuralstream.embed.cache import CachedEmbedder
from neuralstream.errors import InputError, NeuralStreamError, NotFoundError
from neuralstream.extract.chains import stands_for, without
from neuralstream.files import write_whole
from neuralstream.indexing import texts_of, turn_point_id
from neuralstream.llm.cassette import Cassette
from neuralstream.retrieve.recency import find_gem
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Gem, Mode, Turn

if TYPE_CHECKING:
    from neuralstream.parts import Parts

__all__ = ["Forgotten", "Retention", "finish_forgetting", "forget"]

_log = logging.getLogger(__name__)

_UNFINISHED = "forgetting-"
"""How the names of files begin that say what is being forgotten, and nothing of what it said."""

_PROBES = 20
"""Forgotten texts that are searched for again, in every mode."""


@dataclass(frozen=True)
class Forgotten:
    """What was removed, and what was asked to prove it.

    Attributes:
        what: what was named, in words.
        turns, gems, sessions: how many were removed from the stores.
        buffered: turn ids removed from the buffer.
        vectors: texts whose vectors were removed from the embedding cache.
        answers: answers of the language model removed from the cassette that this memory records on.
        rewritten: what was rewritten on disk, a sentence each.
        checks: what was asked again, and whether nothing was found.
    """

    what: str
    turns: int = 0
    gems: int = 0
    sessions: int = 0
    buffered: int = 0
    vectors: int = 0
    answers: int = 0
    rewritten: tuple[str, ...] = ()
    checks: dict[str, bool] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether nothing was found again anywhere."""
        return all(self.checks.values())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "what": self.what, "turns": self.turns, "gems": self.gems, "sessions": self.sessions,
            "buffered": self.buffered, "vectors": self.vectors, "answers": self.answers,
            "rewritten": list(self.rewritten), "checks": self.checks, "proved": self.proved,
        }  # fmt: skip


@dataclass(frozen=True)
class _Doomed:
    """What is to go: turns and gems of one user, and the sessions that go as a whole."""

    user_id: str
    what: str
    turns: tuple[Turn, ...]
    gems: tuple[Gem, ...]
    whole_sessions: tuple[SessionKey, ...] = ()

    @property
    def touched(self) -> list[str]:
        """Sessions that lose something, sorted."""
        some = {turn.session_id for turn in self.turns} | {gem.source.session_id for gem in self.gems}
        return sorted(some | {session.session_id for session in self.whole_sessions})


@dataclass(frozen=True)
class _Unfinished:
    """What is being forgotten, as it is written down; `touched` are the sessions that lose something."""

    what: str
    user_id: str
    turn_ids: list[str]
    gem_ids: list[str]
    whole_sessions: list[str]
    touched: list[str]


def forget(
    parts: Parts,
    *,
    gem_id: str | None,
    session_id: str | None,
    user_id: str | None,
    before: datetime | None,
) -> Forgotten:
    """Remove and prove; see `NeuralStream.forget`."""
    named = [name for name, value in (("gem_id", gem_id), ("session_id", session_id), ("before", before)) if value]
    if len(named) > 1 or not (named or user_id):
        raise InputError(f"name one of gem_id, session_id, before, or user_id alone; got {named or 'nothing'}")
    user = user_id or parts.settings.user_id
    with parts.worker.paused():
        if gem_id:
            doomed = _gem(parts, user, gem_id)
        elif session_id:
            session = SessionKey(user, session_id)
            doomed = _sessions(parts, user, f"session {session_id} of user {user}", [session])
            if not (doomed.turns or doomed.gems or parts.buffer.next_index(session)):
                raise NotFoundError(
                    f"user {user!r} has no session {session_id!r}; `neuralstream recent` shows sessions"
                )
        elif before:
            doomed = _before(parts, user, parse_time(before))
        else:
            sessions = parts.buffer.sessions(user)
            doomed = _sessions(parts, user, f"everything of user {user}", sessions, everything=True)
        if not (doomed.turns or doomed.gems or doomed.whole_sessions):
            return Forgotten(doomed.what)
        with _written_down(parts, doomed):
            return _prove(parts, doomed, _remove(parts, doomed))


def finish_forgetting(parts: Parts) -> None:
    """Finish what a process that was killed had begun to forget; what cannot be finished now, the next start does."""
    for path in sorted(parts.settings.home.glob(f"{_UNFINISHED}*.json")):
        try:
            told = _Unfinished(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            continue  # whoever had begun it has finished it
        except (OSError, ValueError, TypeError) as error:
            _log.warning("%s cannot be read: %s; delete it, and forget again what was being forgotten", path, error)
            continue
        _log.info("finishing to forget %s", told.what)
        try:
            _finish(parts, told)
        except NeuralStreamError as error:
            _log.warning("something is still to be forgotten, at the next start: %s", error)
        else:
            path.unlink(missing_ok=True)


class Retention:
    """Forgets what is older than the setting `retention`; once a day, since it rewrites files."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._done_on: date | None = None

    def enforce(self, now: datetime) -> None:
        """Forget every user's turns from before `now` less the retention, and what was made of them."""
        kept_for = self._parts.settings.retention
        if kept_for is None or self._done_on == now.date():
            return
        for user in sorted({session.user_id for session in self._parts.buffer.sessions()}):
            forget(self._parts, gem_id=None, session_id=None, user_id=user, before=now - kept_for)
        self._done_on = now.date()


def _gem(parts: Parts, user: str, gem_id: str) -> _Doomed:
    """A gem and what merged into it, which says the same. What it replaced says otherwise: it holds again."""
    gem = find_gem(parts.store, user, gem_id)
    same = (Gem.from_dict(record.payload["data"]) for record in parts.store.retrieve(GEMS, gem.merged))
    return _Doomed(user, f"gem {gem.gem_id} of user {user}", (), (gem, *same))


def _sessions(
    parts: Parts, user: str, what: str, sessions: Iterable[SessionKey], *, everything: bool = False
) -> _Doomed:
    chosen = tuple(sessions)
    where = Where(user, session_ids=() if everything else tuple(key.session_id for key in chosen))
    return _Doomed(user, what, _turns(parts, replace(where, kind="turn")), _gems(parts, where), chosen)


def _before(parts: Parts, user: str, moment: datetime) -> _Doomed:
    """Turns before the moment, and gems that cite one of them."""
    turns = tuple(turn for turn in _turns(parts, Where(user, kind="turn", until=moment)) if turn.at() < moment)
    ids = {turn.turn_id for turn in turns}
    gems = tuple(gem for gem in _gems(parts, Where(user)) if ids.intersection(gem.source_turns))
    return _Doomed(user, f"everything of user {user} before {iso_time(moment)}", turns, gems)


@contextmanager
def _written_down(parts: Parts, doomed: _Doomed) -> Iterator[None]:
    """Have it finished by the next start where this process does not, nor is told the same again."""
    told = _Unfinished(
        doomed.what,
        doomed.user_id,
        turn_ids=[turn.turn_id for turn in doomed.turns],
        gem_ids=[gem.gem_id for gem in doomed.gems],
        whole_sessions=[session.session_id for session in doomed.whole_sessions],
        touched=doomed.touched,
    )
    parts.settings.home.mkdir(parents=True, exist_ok=True)
    path = parts.settings.home / f"{_UNFINISHED}{hashlib.sha256(told.what.encode()).hexdigest()[:16]}.json"
    write_whole(path, [json.dumps(asdict(told)).encode()])
    yield
    path.unlink(missing_ok=True)


def _finish(parts: Parts, told: _Unfinished) -> None:
    """Remove what is left of it, and rewrite what held it."""
    user, known = told.user_id, {*told.turn_ids}
    with parts.worker.paused():
        turns = parts.store.retrieve(TURNS, [turn_point_id(user, turn_id) for turn_id in told.turn_ids])
        gems = parts.store.retrieve(GEMS, told.gem_ids)
        sessions = [SessionKey(user, session_id) for session_id in told.whole_sessions]
        doomed = _Doomed(
            user,
            told.what,
            tuple(Turn.from_dict(turn.payload["data"]) for turn in turns),
            tuple(Gem.from_dict(gem.payload["data"]) for gem in gems),
            tuple(session for session in sessions if parts.buffer.turn_ids(session) <= known),
        )
        _remove(parts, doomed)
        for session_id in told.touched:
            parts.indexer.refresh(user, session_id)
        parts.store.purge()
        parts.buffer.purge()


def _remove(parts: Parts, doomed: _Doomed) -> Forgotten:
    """Remove it, last of all from the stores: what follows from it could not be told any more once it is gone."""
    user = doomed.user_id
    vectors = _forget_vectors(parts, doomed)
    cassette = _cassette(parts)
    answers = cassette.forget(_distilled(doomed)) if cassette is not None else 0
    buffered = sum(parts.buffer.forget_session(session) for session in doomed.whole_sessions)
    whole = {session.session_id for session in doomed.whole_sessions}
    for session_id in sorted({*doomed.touched} - whole):
        gone = [turn.turn_id for turn in doomed.turns if turn.session_id == session_id]
        buffered += parts.buffer.forget_turns(SessionKey(user, session_id), gone)

    turn_ids, gem_ids = {turn.turn_id for turn in doomed.turns}, {gem.gem_id for gem in doomed.gems}
    left = {gem.gem_id: gem for gem in _gems(parts, Where(user)) if gem.gem_id not in gem_ids}
    changed = {gem.gem_id: gem for gem in without(list(left.values()), doomed.gems)}
    parts.indexer.index_gems(
        [
            _without_evidence(gem, turn_ids)
            for gem in (left | changed).values()
            if gem.gem_id in changed or _cites(gem, turn_ids)
        ]
    )
    parts.store.delete(GEMS, Where(user, ids=tuple(sorted(gem_ids))))
    parts.store.delete(TURNS, Where(user, ids=_point_ids(doomed.turns)))
    # What stays beside it holds its words too: neighbours, the session's stretches.
    for session_id in doomed.touched:
        parts.indexer.refresh(user, session_id)
    parts.graph.drop(user)
    parts.retriever.drop()
    return Forgotten(
        doomed.what,
        turns=len(doomed.turns),
        gems=len(doomed.gems),
        sessions=len(doomed.whole_sessions),
        buffered=buffered,
        vectors=vectors,
        answers=answers,
    )


def _prove(parts: Parts, doomed: _Doomed, done: Forgotten) -> Forgotten:
    """Ask every place again, then rewrite what is left on disk."""
    from neuralstream.retrieve import Query

    user = doomed.user_id
    turn_ids = {turn.turn_id for turn in doomed.turns}
    gem_ids = {gem.gem_id for gem in doomed.gems}
    known = any(parts.buffer.knows(SessionKey(user, turn.session_id), turn.turn_id) for turn in doomed.turns)
    checks = {
        "turn store": not parts.store.retrieve(TURNS, _point_ids(doomed.turns)),
        "gem store": not parts.store.retrieve(GEMS, sorted(gem_ids)),
        "versions of other gems": not any(gem_ids.intersection(stands_for(gem)) for gem in _gems(parts, Where(user))),
        "evidence of other gems": not any(_cites(gem, turn_ids) for gem in _gems(parts, Where(user))),
        "buffer": not known,
        "recorded answers and dead letters": not parts.buffer.mentions(user, turn_ids | gem_ids),
    }
    gone: list[Turn | Gem] = [*doomed.turns, *doomed.gems]
    probes = [item.text if isinstance(item, Turn) else item.content for item in gone][:_PROBES]
    for mode in get_args(Mode):
        hits = {
            hit.id
            for text in probes
            for hit in parts.retriever.search(Query(text, user, parts.clock(), mode=mode, k=_PROBES))
        }
        checks[f"{mode} search"] = not hits & (turn_ids | gem_ids)
    if isinstance(parts.embedder, CachedEmbedder):
        # The searches above embedded the texts once more, as questions.
        texts = _embedded(doomed)
        parts.embedder.forget(texts + probes)
        checks["embedding cache"] = not parts.embedder.holds(texts + probes)
    cassette = _cassette(parts)
    if cassette is not None:
        checks["cassette"] = not cassette.mentions(_distilled(doomed))
    return replace(done, rewritten=(parts.store.purge(), parts.buffer.purge()), checks=checks)


def _cassette(parts: Parts) -> Cassette | None:
    """The file that this memory's answers are recorded on; one that is only replayed belongs to a data set."""
    llm = parts.settings.llm
    return None if llm.cassette is None or llm.mode == "replay" else Cassette(llm.cassette)


def _distilled(doomed: _Doomed) -> set[str]:
    """Turns whose distilling said what is to go."""
    sources = {turn_id for gem in doomed.gems for turn_id in gem.source_turns}
    return sources | {turn.turn_id for turn in doomed.turns}


def _embedded(doomed: _Doomed) -> list[str]:
    items: list[Turn | Gem] = [*doomed.turns, *doomed.gems]
    return [text for item in items for text in texts_of(item)]


def _forget_vectors(parts: Parts, doomed: _Doomed) -> int:
    return parts.embedder.forget(_embedded(doomed)) if isinstance(parts.embedder, CachedEmbedder) else 0


def _point_ids(turns: Iterable[Turn]) -> tuple[str, ...]:
    return tuple(turn_point_id(turn.user_id, turn.turn_id) for turn in turns)


def _cites(gem: Gem, turn_ids: set[str]) -> bool:
    return not turn_ids.isdisjoint(gem.evidence)


def _without_evidence(gem: Gem, turn_ids: set[str]) -> Gem:
    """The gem without what is forgotten; its own source turns are its evidence where nothing else is."""
    return replace(gem, evidence=tuple(turn_id for turn_id in gem.evidence if turn_id not in turn_ids))


def _turns(parts: Parts, where: Where) -> tuple[Turn, ...]:
    found = (Turn.from_dict(record.payload["data"]) for record in parts.store.scroll(TURNS, where))
    return tuple(sorted(found, key=lambda turn: (turn.session_id, turn.index or 0)))


def _gems(parts: Parts, where: Where) -> tuple[Gem, ...]:
    records = parts.store.scroll(GEMS, replace(where, kind="gem"))
    return tuple(sorted((Gem.from_dict(record.payload["data"]) for record in records), key=lambda gem: gem.gem_id))
