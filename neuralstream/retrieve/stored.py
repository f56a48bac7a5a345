"""One collection of the store as a source of candidates."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.retrieve import semantic, substring
from neuralstream.retrieve.bm25 import FIELDS, session_scores
from neuralstream.retrieve.features import Candidate
from neuralstream.retrieve.recency import recency
from neuralstream.store.base import Ranked, Where
from neuralstream.store.schema import GEMS
from neuralstream.types import Gem, Turn, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.config import RetrievalSettings
    from neuralstream.retrieve.features import Question
    from neuralstream.store.base import MemoryStore

__all__ = ["Known", "StoredPoints"]

_READ = ("kind", "session_id", "index", "created_at", "status", "data.valid_from", "data.valid_until")
"""What scoring reads of a candidate; the texts of hundreds that are not returned stay where they are."""

_WHOLE = (*_READ[:-2], "data")

_SMALL = 1000
"""Points up to which hybrid ranks all of them by every signal."""

_SAID = ("data.parts", "data.content")


class Known(NamedTuple):
    """What was read of points, by id: payloads without texts, and turns and gems."""

    places: dict[str, Mapping[str, Any]]
    items: dict[str, Turn | Gem]


class StoredPoints:
    """The points of a collection that a question may find.

    Args:
        store: holds them.
        collection: which.
        where: what the question is limited to.
        question: what is asked.
        settings: below how many points dense search is exact.
        known: what earlier questions read, which this adds to. A turn never changes, so turns may be remembered; gems
            may not.
    """

    def __init__(
        self,
        store: MemoryStore,
        collection: str,
        where: Where,
        *,
        question: Question,
        settings: RetrievalSettings,
        known: Known,
    ) -> None:
        self._store = store
        self._collection = collection
        self._where = where
        self._question = question
        self._settings = settings
        self._read = known
        self._known: dict[str, dict[str, float]] = {}
        self._exhausted: set[str] = set()

    def top(self, signal: str, limit: int) -> list[Ranked]:
        """See Source."""
        if signal == "substring":
            return self._substring()[:limit]
        if signal == "graph":
            return self._activated(limit)
        asked = limit
        if self._question.query.mode == "hybrid" and self._size <= _SMALL:
            # Ranking all of a small memory costs less than asking again for the scores of what other signals found.
            asked = max(limit, self._size)
        ranked = self._rank(signal, self._where, asked)
        self._known.setdefault(signal, {}).update(ranked)
        if len(ranked) < asked or asked > limit:
            self._exhausted.add(signal)
        return [hit for hit in ranked[:limit] if hit.score > 0]

    @cached_property
    def _size(self) -> int:
        """The user's points of this kind, whatever the question is limited to."""
        return self._store.count(self._collection, Where(self._where.user_id, kind=self._where.kind))

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:
        """See Source."""
        places, items = self._read
        unread = [point for point in ids if point not in (items if whole else places)]
        for record in self._store.retrieve(self._collection, unread, keys=_WHOLE if whole else _READ):
            if whole:
                read = Gem.from_dict if self._collection == GEMS else Turn.from_dict
                items[record.id] = read(record.payload["data"])
            places[record.id] = record.payload if self._collection == GEMS else _place(record.payload)
        found = (Candidate(point, places[point]) for point in ids if point in places)
        return [one for one in found if self._counts(one.payload)]

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """See Source."""
        self.candidates(ids, whole=True)
        return {point: self._read.items[point] for point in ids if point in self._read.items}

    def scores(self, signal: str, candidates: Sequence[Candidate]) -> dict[str, float]:
        """See Source."""
        query = self._question.query
        if signal == "bm25_session":
            return session_scores(self._store, query.user_id, self._question.terms, candidates, self._question.ranking)
        if signal == "recency":
            return {one.id: recency(one.created_at, query.as_of) for one in candidates}
        if signal == "graph":
            return {one.id: self._question.activation.get(one.id, 0.0) for one in candidates}
        known = self._known.setdefault(signal, {})
        missing = tuple(one.id for one in candidates if one.id not in known)
        known.update(dict.fromkeys(missing, 0.0))
        if missing and signal not in self._exhausted:
            where = Where(query.user_id, kind=self._where.kind, ids=missing)
            known.update(self._rank(signal, where, len(missing)))
        return {one.id: known[one.id] for one in candidates}

    def _rank(self, signal: str, where: Where, limit: int) -> list[Ranked]:
        store, ranking = self._store, self._question.ranking
        if signal in semantic.VECTORS:
            vector = self._question.vector
            if vector is None:
                return []
            exact = where.ids is not None or self._size < self._settings.exact_below
            return store.dense(self._collection, vector, semantic.VECTORS[signal], where, limit, exact=exact)
        terms = self._question.terms
        if not terms:
            return []
        return store.text(self._collection, terms, FIELDS[signal], where, limit, k1=ranking.bm25_k1, b=ranking.bm25_b)

    def _activated(self, limit: int) -> list[Ranked]:
        """The graph knows all of a user's points: those that this source may give are picked, best first."""
        ranked = sorted((Ranked(*pair) for pair in self._question.activation.items()), key=_best_first)
        found: list[Ranked] = []
        step = max(limit, 100)
        for start in range(0, len(ranked), step):
            page = ranked[start : start + step]
            where = replace(self._where, ids=tuple(hit.id for hit in page))
            allowed = {record.id for record in self._store.scroll(self._collection, where, keys=("kind",))}
            found += [hit for hit in page if hit.id in allowed]
            if len(found) >= limit:
                break
        return found[:limit]

    def _substring(self) -> list[Ranked]:
        needle = substring.fold(self._question.query.text)
        where = replace(self._where, terms=substring.whole_terms(needle))
        points = self._store.scroll(self._collection, where, keys=_SAID) if needle else ()
        scored = (Ranked(point.id, substring.score(needle, point.payload["data"])) for point in points)
        return sorted((hit for hit in scored if hit.score > 0), key=_best_first)

    def _counts(self, payload: Mapping[str, Any]) -> bool:
        """Whether a gem held at the query's moment; a turn always counts."""
        if payload["kind"] != "gem":
            return True
        as_of, data = self._question.query.as_of, payload.get("data", {})
        begins, ends = data.get("valid_from"), data.get("valid_until")
        if begins is not None and parse_time(begins) > as_of:
            return False
        return payload["status"] == "active" or (ends is not None and parse_time(ends) > as_of)


def _place(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A turn's payload without what it says, so that thousands can be remembered."""
    return {name: value for name, value in payload.items() if name != "data"}


def _best_first(hit: Ranked) -> tuple[float, str]:
    return -hit.score, hit.id
