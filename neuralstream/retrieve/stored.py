"""One collection of the store as a source of candidates."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralstream.retrieve import semantic, substring
from neuralstream.retrieve.bm25 import FIELDS, session_scores
from neuralstream.retrieve.documents import EXCHANGE
from neuralstream.retrieve.features import BEFORE, OF_EXCHANGES, Candidate
from neuralstream.retrieve.recency import holds
from neuralstream.store.base import Bm25, Nearest, Ranked, Where
from neuralstream.store.schema import GEMS
from neuralstream.types import Gem, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from neuralstream.config import RetrievalSettings
    from neuralstream.retrieve.features import Question
    from neuralstream.store.base import MemoryStore, Ranking

__all__ = ["Known", "StoredPoints"]

_PLACE = (
    "kind", "session_id", "index", "created_at", "before", "speakers", "role", "question", "digits", "length", "status",
    "tags", "entities", "topics",
)  # fmt: skip
_OF_A_GEM = ("importance", "confidence", "evidence", "valid_from", "valid_until")
_READ = (*_PLACE, *(f"data.{name}" for name in _OF_A_GEM))
"""What scoring reads of a candidate; the texts of hundreds that are not returned stay where they are."""

_WHOLE = (*_PLACE, "data")

_RANKED = {*FIELDS, *semantic.VECTORS}
"""Signals that the engine ranks by."""

_SAID = ("data.parts", "data.content")


class Known(NamedTuple):
    """What was read of points, by id: payloads without texts, and turns and gems; how many points a user has."""

    places: dict[str, Mapping[str, Any]]
    items: dict[str, Turn | Gem]
    many: dict[tuple[str, str], int]


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

    def top(self, signals: Sequence[str], limit: int) -> dict[str, list[Ranked]]:
        """See Source."""
        found: dict[str, list[Ranked]] = {}
        for signal, ranked in self._top([name for name in signals if name in _RANKED], limit).items():
            self._known.setdefault(signal, {}).update(ranked)
            # Of points that the question is limited away from, such as the turn before a hit, nothing is known by that.
            if len(ranked) < limit and self._is_whole:
                self._exhausted.add(signal)
            found[signal] = [hit for hit in ranked if hit.score > 0]
        if "substring" in signals:
            found["substring"] = self._that_count(self._substring())[:limit]
        if "graph" in signals:
            found["graph"] = self._activated(limit)
        return found

    def _top(self, signals: Sequence[str], limit: int) -> dict[str, list[Ranked]]:
        """Each signal's best of those that count, however many versions were superseded since."""
        asked = limit
        while True:
            ranked = self._rank(dict.fromkeys(signals, (self._where, asked)))
            kept = {signal: self._that_count(hits)[:limit] for signal, hits in ranked.items()}
            if all(len(kept[signal]) == limit or len(ranked[signal]) < asked for signal in signals):
                return kept
            asked *= 4

    def _that_count(self, hits: list[Ranked]) -> list[Ranked]:
        """Those that hold at the question's moment; a turn always does."""
        if self._collection != GEMS:
            return hits
        counts = {one.id for one in self.candidates([hit.id for hit in hits])}
        return [hit for hit in hits if hit.id in counts]

    @property
    def _is_whole(self) -> bool:
        """Whether the question may find everything of the user's that was said before what it finds."""
        return replace(self._where, until=None) == Where(self._where.user_id, kind=self._where.kind)

    @cached_property
    def _size(self) -> int:
        """The user's points of this kind, whatever the question is limited to; not counted again once they are many."""
        counted = (self._collection, self._where.user_id or "")
        if counted not in self._read.many:
            size = self._store.count(self._collection, Where(self._where.user_id, kind=self._where.kind))
            if size < 2 * self._settings.exact_below:
                return size
            self._read.many[counted] = size
        return self._read.many[counted]

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:
        """See Source."""
        places, items = self._read.places, self._read.items
        unread = [point for point in ids if point not in (items if whole else places)]
        for record in self._store.retrieve(self._collection, unread, keys=_WHOLE if whole else _READ):
            if whole:
                read = Gem.from_dict if self._collection == GEMS else Turn.from_dict
                items[record.id] = read(record.payload["data"])
            places[record.id] = record.payload if self._collection == GEMS else _place(record.payload)
        found = (Candidate(point, places[point]) for point in ids if point in places)
        return [one for one in found if holds(one.payload, self._question.query.as_of)]

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """See Source."""
        self.candidates(ids, whole=True)
        return {point: self._read.items[point] for point in ids if point in self._read.items}

    def scores(self, signals: Sequence[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """See Source."""
        ids = [one.id for one in candidates]
        before = [one.payload.get("before") for one in candidates]
        wanted: dict[str, set[str]] = {}
        for signal in signals:
            if signal in BEFORE:
                wanted.setdefault(BEFORE[signal], set()).update(point for point in before if point is not None)
            elif signal in _RANKED:
                wanted.setdefault(signal, set()).update(ids)
        self._learn(wanted)
        columns = [self._column(signal, ids, before, candidates) for signal in signals]
        return np.array(columns, np.float64).reshape(len(signals), len(ids)).T

    def scored(self, signal: str, ids: Sequence[str]) -> Mapping[str, float]:
        """One signal of these points, whatever the question is limited to; 0 without evidence."""
        self._learn({signal: set(ids)})
        return self._known[signal]

    def _column(
        self, signal: str, ids: Sequence[str], before: Sequence[str | None], candidates: Sequence[Candidate]
    ) -> Sequence[float]:
        question = self._question
        if signal == "graph":
            return [question.activation.get(point, 0.0) for point in ids]
        if signal == "bm25_session":
            known = session_scores(self._store, question.query.user_id, question.terms, candidates, question.ranking)
            return [known[point] for point in ids]
        if signal in BEFORE:
            of_before = self._known.get(BEFORE[signal], {})
            return [math.nan if point is None else of_before[point] for point in before]
        known = self._known[signal]
        if signal in OF_EXCHANGES:
            return [known[one.id] if one.payload["role"] == EXCHANGE else math.nan for one in candidates]
        return [known[point] for point in ids]

    def _learn(self, wanted: Mapping[str, set[str]]) -> None:
        """Ask for the scores of points that are not known yet, by id; a point without evidence gets 0."""
        missing = {signal: points - self._known.setdefault(signal, {}).keys() for signal, points in wanted.items()}
        for signal, points in missing.items():
            self._known[signal].update(dict.fromkeys(points, 0.0))
        asked = [signal for signal, points in missing.items() if points and signal not in self._exhausted]
        # One condition for all signals: the engine takes longer to read hundreds of ids than to rank those points.
        ids = tuple(sorted(set().union(*(missing[signal] for signal in asked))))
        where = Where(self._where.user_id, kind=self._where.kind, ids=ids)
        for signal, ranked in self._rank(dict.fromkeys(asked, (where, len(ids)))).items():
            self._known[signal].update(ranked)

    def _rank(self, asked: Mapping[str, tuple[Where, int]]) -> dict[str, list[Ranked]]:
        """Signals, each within its own limits, all in one call of the store."""
        rankings = {signal: self._rankings(signal, *limits) for signal, limits in asked.items()}
        flat = [ranking for several in rankings.values() for ranking in several]
        answers = iter(self._store.rank_many(self._collection, flat) if flat else ())
        return {
            signal: semantic.best_of([next(answers) for _ in several], asked[signal][1])
            for signal, several in rankings.items()
        }

    def _rankings(self, signal: str, where: Where, limit: int) -> Sequence[Ranking]:
        """What the store is asked for a signal: nothing where the question says nothing that it could compare."""
        ranking, vector, terms = self._question.ranking, self._question.vector, self._question.terms
        # Hybrid gives what a finder left out the last score that it found, which is what an equal would have.
        loose = self._question.query.mode == "hybrid"
        if signal in semantic.VECTORS:
            exact = where.ids is not None or self._size < self._settings.exact_below
            names = semantic.VECTORS[signal]
            return [] if vector is None else [Nearest(vector, name, where, limit, exact, loose) for name in names]
        # Without saturation, the frequency of a term does not count: the score is the IDF of the terms that are there.
        k1 = 0.0 if signal == "coverage" else ranking.bm25_k1
        return [Bm25(terms, FIELDS[signal], where, limit, k1, ranking.bm25_b, loose)] if terms else []

    def _activated(self, limit: int) -> list[Ranked]:
        """The graph knows all of a user's points: those that this source may give are picked, best first."""
        ranked = sorted((Ranked(*pair) for pair in self._question.activation.items()), key=_best_first)
        found: list[Ranked] = []
        step = max(limit, 100)
        for start in range(0, len(ranked), step):
            page = ranked[start : start + step]
            where = replace(self._where, ids=tuple(hit.id for hit in page))
            allowed = {record.id for record in self._store.scroll(self._collection, where, keys=("kind",))}
            found += self._that_count([hit for hit in page if hit.id in allowed])
            if len(found) >= limit:
                break
        return found[:limit]

    def _substring(self) -> list[Ranked]:
        needle = substring.fold(self._question.query.text)
        where = replace(self._where, terms=substring.whole_terms(needle))
        points = self._store.scroll(self._collection, where, keys=_SAID) if needle else ()
        scored = (Ranked(point.id, substring.score(needle, point.payload["data"])) for point in points)
        return sorted((hit for hit in scored if hit.score > 0), key=_best_first)


def _place(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """A turn's payload without what it says, so that thousands can be remembered."""
    return {name: value for name, value in payload.items() if name != "data"}


def _best_first(hit: Ranked) -> tuple[float, str]:
    return -hit.score, hit.id
