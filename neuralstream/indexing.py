"""From turns and gems to stored points: the fields that every signal reads, kept right as a conversation grows.

A turn is searched by its own words, by its date, speakers and words, and together with its neighbours. Because the next
turn is a neighbour too, indexing a turn renews the neighbourhood of the turns before it; so a session indexed in one
go, turn by turn, or with a restart in between ends as the same points.

The vector of a neighbourhood is the mean of its turns' vectors: a turn is embedded once, and nothing but its own text
reaches the embedding cache. `docs/design/retrieval.md` says why.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, get_args

import numpy as np

from neuralstream.analysis import ANALYSER
from neuralstream.embed.vectors import mean_of_chunks
from neuralstream.entities import find_entities
from neuralstream.errors import InputError
from neuralstream.ranking import Kind
from neuralstream.retrieve.documents import (
    EXCHANGE,
    REMEMBERED,
    STRETCH,
    embedded_text,
    gem_heading_terms,
    gem_index,
    gem_terms,
    gem_texts,
    part_terms,
    role_of,
    stretch_point_id,
    traits,
    turn_heading_terms,
    turn_point_id,
    user_text,
)
from neuralstream.retrieve.kinds import kind_of_role
from neuralstream.store.base import Fingerprint, Point, Where
from neuralstream.store.schema import (
    GEMS,
    TERMS,
    TERMS_DATED,
    TERMS_NEAR,
    TERMS_REPLY,
    TERMS_SESSION,
    TERMS_USER,
    TURNS,
    VECTOR_CHUNKS,
    VECTOR_NEAR,
    VECTOR_TEXT,
    VECTOR_USER,
)
from neuralstream.types import Gem, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neuralstream.config import RetrievalSettings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.store.base import MemoryStore

__all__ = ["Indexer", "fingerprint", "texts_of", "turn_point_id"]

_GEM_SPAN = 100
"""Most turns between a gem's first and last source turn: a batch is never longer (`Settings.batch_size`)."""


class Indexer:
    """Writes turns and gems to the store. Safe to use from several threads.

    Args:
        store: keeps the points.
        embedder: makes the vectors.
        settings: each kind's `neighbours` says how many turns on each side make a neighbourhood.
    """

    def __init__(self, store: MemoryStore, embedder: Embedder, settings: RetrievalSettings) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        # The turn before counts too, even where there are no neighbours.
        self._farthest = max(1, *(settings.ranking(kind).neighbours for kind in get_args(Kind)))
        self._lock = threading.Lock()

    def index_turns(self, turns: Sequence[Turn], *, embed: bool = True) -> None:
        """Make captured turns searchable. Indexing a turn again replaces it.

        Args:
            turns: any number, of any users and sessions.
            embed: without, they get no vectors and are found by their words only.

        Raises:
            InputError: a turn has no index or time yet, because it was not captured.
        """
        vectors = self._embed(turns) if embed else [{} for _ in turns]
        points = [_turn_point(turn, named) for turn, named in zip(turns, vectors, strict=True)]
        points.sort(key=_place)
        with self._lock:
            for (user_id, session_id), group in groupby(points, key=_session):
                self._write_turns(Where(user_id, session_ids=(session_id,)), list(group))

    def index_missing(self, turns: Sequence[Turn]) -> None:
        """Index those of these captured turns that the store does not have yet."""
        ids = [turn_point_id(turn.user_id, turn.turn_id) for turn in turns]
        stored = {record.id for record in self._store.retrieve(TURNS, ids, keys=("kind",))}
        self.index_turns([turn for turn, known in zip(turns, ids, strict=True) if known not in stored])

    def index_gems(self, gems: Sequence[Gem]) -> None:
        """Store gems, and mark the turns that they cite as covered. Indexing a gem again replaces it.

        A gem's neighbourhood is its source turns and those around them, up to the gem's own time: index them first.
        """
        vectors = self._embed(gems)
        with self._lock:
            points = [self._gem_point(gem, named) for gem, named in zip(gems, vectors, strict=True)]
            points.sort(key=_place)
            if points:
                self._store.upsert(GEMS, points)
            for (user_id, session_id), group in groupby(points, key=_session):
                indexes = [point.payload["index"] for point in group]
                self._mark_covered(Where(user_id, session_ids=(session_id,)), min(indexes), max(indexes) + _GEM_SPAN)

    def refresh(self, user_id: str, session_id: str) -> None:
        """Derive a session's fields anew from the turns and gems it still has, after some were deleted or replaced."""
        session = Where(user_id, session_ids=(session_id,))
        with self._lock:
            self._store.delete(TURNS, replace(session, kind="session"))
            turns = self._read_turns(session)
            if turns:
                self._write_turns(session, turns)
            gems = self._store.scroll(GEMS, replace(session, kind="gem"), with_vectors=True)
            points = [self._gem_point(Gem.from_dict(gem.payload["data"]), gem.vectors) for gem in gems]
            if points:
                self._store.upsert(GEMS, points)

    def _embed(self, items: Sequence[Turn | Gem]) -> list[dict[str, Vectors]]:
        """The vectors of each item by name, those of a neighbourhood apart; none where its text says nothing."""
        texts = {text for item in items for text in texts_of(item)}
        ordered = sorted(texts)
        rows = dict(zip(ordered, self._embedder.embed_chunks(ordered) if ordered else (), strict=True))
        return [_item_vectors(item, rows) for item in items]

    def _write_turns(self, session: Where, new: Sequence[Point]) -> None:
        """Store turns of one session, in order, and renew what depends on them."""
        first, last, reach = _index(new[0]), _index(new[-1]), self._farthest
        known = {point.id: point for point in self._read_turns(session, first - 2 * reach, last + 2 * reach)}
        known.update((point.id, point) for point in new)
        in_order = sorted(known.values(), key=_place)
        at = {_index(point): point.id for point in in_order}
        talk = REMEMBERED not in session.session_ids
        changed = {_index(point) + step for point in new for step in range(-reach, reach + 1)}
        renewed = [
            _with_near(point, near, before=at.get(_index(point) - 1) if talk else None)
            for point, near in self._neighbourhoods(in_order)
            if _index(point) in changed
        ]
        self._store.upsert(TURNS, renewed)
        if talk:
            self._write_stretches(session, first, last)
        # The neighbours too: they were written again with the cover they had when they were read.
        self._mark_covered(session, first - reach, last + reach)

    def _neighbourhoods(self, turns: Sequence[Point]) -> Iterator[tuple[Point, Sequence[Point]]]:
        """Each turn of a session, in order, with its neighbours and itself."""
        places = [_index(turn) for turn in turns]
        for turn, place in zip(turns, places, strict=True):
            reach = self._reach(turn)
            yield turn, turns[bisect_left(places, place - reach) : bisect_right(places, place + reach)]

    def _write_stretches(self, session: Where, first: int, last: int) -> None:
        turns = self._read_turns(
            session, first // STRETCH * STRETCH, last // STRETCH * STRETCH + STRETCH - 1, with_vectors=False
        )
        stretches = [list(group) for _, group in groupby(turns, key=lambda turn: _index(turn) // STRETCH)]
        self._store.upsert(TURNS, [_stretch_point(stretch) for stretch in stretches])

    def _mark_covered(self, session: Where, first: int, last: int) -> None:
        """Let the turns from one index to another say whether a gem cites them, and since when.

        A gem that was replaced covers its turns too: they say what holds no more, as it does.
        """
        gems = replace(session, kind="gem", session_index_to=last)
        gems = replace(gems, session_index_from=first - _GEM_SPAN)
        since: dict[str, str] = {}
        for gem in self._store.scroll(GEMS, gems):
            for turn_id in gem.payload["data"]["source_turns"]:
                since[turn_id] = min(since.get(turn_id, gem.payload["created_at"]), gem.payload["created_at"])
        changed: dict[str | None, list[str]] = {}
        for turn in self._read_turns(session, first, last, with_vectors=False):
            covered_at = since.get(turn.payload["data"]["turn_id"])
            if covered_at != turn.payload.get("covered_at"):
                changed.setdefault(covered_at, []).append(turn.id)
        for covered_at, ids in changed.items():
            self._store.set_payload(TURNS, ids, {"covered_at": covered_at})

    def _read_turns(
        self, session: Where, first: int | None = None, last: int | None = None, *, with_vectors: bool = True
    ) -> list[Point]:
        """The stored turns of a session from one index to another, in order."""
        where = replace(session, kind="turn", session_index_from=first, session_index_to=last)
        found = self._store.scroll(TURNS, where, with_vectors=with_vectors)
        return sorted((Point(*record) for record in found), key=_place)

    def _gem_point(self, gem: Gem, vectors: Mapping[str, Vectors]) -> Point:
        around = self._neighbourhood(gem)
        speakers = dict.fromkeys(name for turn in around if _cites(gem, turn) for name in turn.payload["speakers"])
        # What a prior means depends on who said it; a gem that comes from no turn was told by the user.
        role = next((str(turn.payload["role"]) for turn in around if _cites(gem, turn)), "user")
        plain, terms = gem.to_dict(), gem_terms(gem)
        point = Point(
            gem.gem_id,
            {
                "user_id": gem.user_id,
                "kind": "gem",
                "session_id": gem.source.session_id,
                "index": gem_index(gem),
                "created_at": plain["created_at"],
                "tags": plain["tags"],
                "topics": plain["topics"],
                "entities": plain["entities"] or list(find_entities(gem.content)),
                "status": gem.status,
                TERMS: " ".join(terms),
                TERMS_DATED: " ".join((*gem_heading_terms(gem, speakers), *terms)),
                "data": plain,
            }
            | traits(gem, role, gem_terms(replace(gem, questions=()))),
            vectors,
        )
        return _with_near(point, [point, *around])

    def _neighbourhood(self, gem: Gem) -> list[Point]:
        """The gem's source turns and those around them, in order; none that came after the gem was made."""
        if not gem.source_turns:
            return []
        session = Where(gem.user_id, session_ids=(gem.source.session_id,), until=gem.created_at)
        first = gem_index(gem)
        turns = self._read_turns(session, first - self._farthest, first + _GEM_SPAN + self._farthest)
        cited = [(_index(turn), self._reach(turn)) for turn in turns if _cites(gem, turn)]
        return [turn for turn in turns if any(abs(_index(turn) - index) <= reach for index, reach in cited)]

    def _reach(self, turn: Point) -> int:
        if turn.payload["session_id"] == REMEMBERED:
            return 0
        return self._settings.ranking(kind_of_role(turn.payload["role"])).neighbours


def fingerprint(embedder: Embedder) -> Fingerprint:
    """What a store filled by this embedder and the analyser records."""
    return Fingerprint(embedder.name, embedder.digest, embedder.dim, ANALYSER)


def texts_of(item: Turn | Gem) -> tuple[str, ...]:
    """The exact texts that are embedded for a turn or gem, so that they can be deleted from an embedding cache."""
    texts = (embedded_text(item), user_text(item)) if isinstance(item, Turn) else gem_texts(item)
    return tuple(text for text in texts if text.strip())


def _item_vectors(item: Turn | Gem, rows: Mapping[str, Vectors]) -> dict[str, Vectors]:
    """Vectors by name, from the chunks of its texts; chunks of its own only where there are several.

    A question that a gem answers is a chunk more: whoever asks something like it finds the gem.
    """
    named: dict[str, Vectors] = {}
    if (whole := embedded_text(item)) in rows:
        named[VECTOR_TEXT] = mean_of_chunks(rows[whole])
        chunks = rows[whole] if isinstance(item, Turn) else np.vstack([rows[text] for text in texts_of(item)])
        if len(chunks) > 1:
            named[VECTOR_CHUNKS] = chunks
    if (asked := user_text(item)) in rows:
        named[VECTOR_USER] = mean_of_chunks(rows[asked])
    return named


def _turn_point(turn: Turn, vectors: Mapping[str, Vectors]) -> Point:
    """A turn by itself: its neighbourhood and whether a gem covers it are still to be found out."""
    if turn.index is None:
        raise InputError(f"turn {turn.turn_id} has no index yet; capture() assigns it")
    said, heading, plain = part_terms(turn), turn_heading_terms(turn), turn.to_dict()
    terms = [term for part in said.values() for term in part]
    role = role_of(turn)
    payload = {
        "user_id": turn.user_id,
        "kind": "turn",
        "session_id": turn.session_id,
        "index": turn.index,
        "created_at": plain["created_at"],
        "speakers": list(turn.speakers),
        "entities": list(find_entities(turn.text)),
        TERMS: " ".join(terms),
        TERMS_DATED: " ".join(heading + terms),
        "data": plain,
    }
    payload |= traits(turn, role, terms)
    if role == EXCHANGE:
        payload |= {TERMS_USER: " ".join(said["user"]), TERMS_REPLY: " ".join(said["assistant"])}
    return Point(turn_point_id(turn.user_id, turn.turn_id), payload, vectors)


def _stretch_point(turns: Sequence[Point]) -> Point:
    (user_id, session_id), index = _session(turns[0]), _index(turns[0])
    payload = {
        "user_id": user_id,
        "kind": "session",
        "session_id": session_id,
        "index": index,
        "created_at": max(turn.payload["created_at"] for turn in turns),
        TERMS_SESSION: " ".join(turn.payload[TERMS] for turn in turns),
    }
    return Point(stretch_point_id(user_id, session_id, index // STRETCH), payload)


def _with_near(point: Point, near: Sequence[Point], before: str | None = None) -> Point:
    """The point with the tokens of its neighbourhood, the direction of the mean of its vectors, and the turn before."""
    terms = " ".join(one.payload[TERMS] for one in near)
    vectors = [one.vectors[VECTOR_TEXT] for one in near if VECTOR_TEXT in one.vectors]
    direction = _direction(vectors) if vectors else None
    named = {name: vector for name, vector in point.vectors.items() if name != VECTOR_NEAR}
    named |= {} if direction is None else {VECTOR_NEAR: direction}
    # Written anew without the old one, which may be gone.
    payload = {name: value for name, value in point.payload.items() if name != "before"} | {TERMS_NEAR: terms}
    payload |= {} if before is None else {"before": before}
    return Point(point.id, payload, named)


def _direction(vectors: Sequence[Vectors]) -> Vectors | None:
    """The normalised sum; None where the vectors cancel out."""
    total = np.sum(vectors, axis=0, dtype=np.float64)
    length = float(np.linalg.norm(total))
    return np.asarray(total / length, np.float32) if length > 0 else None


def _cites(gem: Gem, turn: Point) -> bool:
    return turn.payload["data"]["turn_id"] in gem.source_turns


def _session(point: Point) -> tuple[str, str]:
    return point.payload["user_id"], point.payload["session_id"]


def _index(point: Point) -> int:
    index: int = point.payload["index"]
    return index


def _place(point: Point) -> tuple[str, str, int, str]:
    return (*_session(point), _index(point), point.id)
