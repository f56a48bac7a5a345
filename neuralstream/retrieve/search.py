"""`Retriever`: every mode, every lane, one ranking.

What a query may find is decided here, before any signal is computed: its user, its time range, its lane. Statistics
(IDF, mean lengths, neighbourhoods) are those of the present, also for a query about the past.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from neuralstream.retrieve.documents import turn_point_id
from neuralstream.retrieve.features import FEATURES, Question
from neuralstream.retrieve.hybrid import Found, fuse, measure, tabulate, trusted
from neuralstream.retrieve.kinds import kind_of
from neuralstream.retrieve.pending import PendingTurns
from neuralstream.retrieve.recency import within
from neuralstream.retrieve.rerank import make_reranker, reranked
from neuralstream.retrieve.stored import Known, StoredPoints
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Hit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neuralstream.config import RetrievalSettings
    from neuralstream.embed.base import Embedder
    from neuralstream.ranking import Kind
    from neuralstream.retrieve.features import Source
    from neuralstream.retrieve.hybrid import Table
    from neuralstream.retrieve.query import GraphSignal, Query
    from neuralstream.retrieve.rerank import Reranker
    from neuralstream.store.base import MemoryStore
    from neuralstream.types import Gem, Turn

__all__ = ["Retriever"]

_SIGNAL = {"substring": "substring", "bm25": "bm25", "semantic": "dense", "graph": "graph"}
"""The signal that a mode other than hybrid ranks by."""

_MOST_PLACES = 100_000
"""Turns whose session, index and time are remembered between questions: some 30 MB."""

_MOST_TURNS = 10_000
"""Turns that are remembered whole, since what was an answer once is one again: some 20 MB."""


class Retriever:
    """Searches one store.

    Args:
        store: what is searched.
        embedder: embeds questions; the one that filled the store.
        settings: candidates, and how each kind of conversation is ranked.
        graph: the graph's signal; without it, mode "graph" finds nothing.
        reranker: instead of the one that the settings name.
        sole_owner: nobody else deletes from the store, so that turns may be remembered between questions.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        settings: RetrievalSettings,
        graph: GraphSignal | None = None,
        reranker: Reranker | None = None,
        *,
        sole_owner: bool = True,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._graph = graph
        self._reranker = reranker or make_reranker(settings)
        self._sole_owner = sole_owner
        self._turns = Known({}, {}, {})

    def drop(self) -> None:
        """Forget what is remembered of turns, because some were deleted."""
        self._turns = Known({}, {}, {})

    def search(self, query: Query) -> list[Hit]:
        """The best hits, at most `query.k`, ties by id; none without evidence.

        With `query.explain`, hits carry the raw score of every signal; otherwise of those that made the ranking.
        """
        question, kind = self._question(query)
        sources = self._sources(question)
        if query.mode == "hybrid":
            weights = trusted(question.ranking.weights, question.trust)
            names = [name for name in FEATURES if weights.get(name)]
            table = self._tabulated(sources, names, question, kind)
            if self._reranker is None:
                found = fuse(table, weights, query.k)
            else:
                found = fuse(table, weights, max(query.k, self._settings.rerank_depth))
                found = self._reread(found, query, self._reranker)
        else:
            found = _by_one_signal(sources, _SIGNAL[query.mode], query.k)
        items = _items(sources, found[: query.k])
        # What another process deleted meanwhile is no hit any more.
        found = [one for one in found[: query.k] if one.candidate.id in items]
        if query.explain:
            found = _explained(found, question)
        return [Hit(items[one.candidate.id], one.score, one.signals) for one in found]

    def table(self, query: Query, names: Sequence[str] = FEATURES) -> Table:
        """What hybrid's linear model reads for a query: every candidate, with these features.

        Its candidates are the same whatever the weights are; naming the graph adds what the graph finds.
        """
        question, kind = self._question(query)
        return self._tabulated(self._sources(question), names, question, kind)

    def _tabulated(self, sources: Sequence[Source], names: Sequence[str], question: Question, kind: Kind) -> Table:
        settings, k = self._settings, question.query.k
        limit, shortlist = max(settings.candidates, k), max(settings.shortlist, k)
        return tabulate(sources, names, question, kind=kind, limit=limit, shortlist=shortlist)

    def _question(self, query: Query) -> tuple[Question, Kind]:
        kind = self._settings.kind
        if kind == "auto":
            kind = kind_of(self._store, query.user_id, query.pending)
        return Question(query, self._embedder, self._graph, self._settings.ranking(kind)), kind

    def _reread(self, found: Sequence[Found], query: Query, reranker: Reranker) -> list[Found]:
        depth = self._settings.rerank_depth
        sources = {id(one.source): one.source for one in found[:depth]}.values()
        return reranked(found, _items(sources, found[:depth]), reranker, query.text, depth)

    def _sources(self, question: Question) -> list[Source]:
        query, store, settings = question.query, self._store, self._settings
        if not self._sole_owner or len(self._turns.places) > _MOST_PLACES or len(self._turns.items) > _MOST_TURNS:
            self.drop()
        everywhere = Where(
            query.user_id,
            session_ids=() if query.session_id is None else (query.session_id,),
            since=query.since,
            until=query.as_of if query.until is None else min(query.until, query.as_of),
        )
        sources: list[Source] = []
        if query.lane != "gems" and not query.tags:
            hidden = tuple(turn_point_id(query.user_id, turn) for turn in query.exclude_turns)
            covered = False if query.lane == "all" else None
            turns = replace(everywhere, kind="turn", not_ids=hidden, covered=covered)
            stored = StoredPoints(store, TURNS, turns, question=question, settings=settings, known=self._turns)
            sources.append(stored)
            pending = [turn for turn in query.pending if within(turn, turns)]
            if pending:
                sources.append(
                    PendingTurns(
                        pending,
                        question,
                        store=store,
                        stored=stored,
                        embedder=self._embedder,
                        settings=settings,
                    )
                )
        if query.lane != "turns":
            gems = replace(everywhere, kind="gem", tags=query.tags)
            sources.append(
                StoredPoints(
                    store, GEMS, gems, question=question, settings=settings, known=Known({}, {}, self._turns.many)
                )
            )
        return sources


def _items(sources: Iterable[Source], found: Sequence[Found]) -> dict[str, Turn | Gem]:
    """The turns and gems of these hits, by point id."""
    return {
        point: item
        for source in sources
        for point, item in source.items([one.candidate.id for one in found if one.source is source]).items()
    }


def _by_one_signal(sources: Sequence[Source], signal: str, k: int) -> list[Found]:
    found: dict[str, Found] = {}
    for source in sources:
        score_of = dict(source.top([signal], k)[signal])
        for one in source.candidates(list(score_of), whole=True):
            found.setdefault(one.id, Found(one, source, score_of[one.id], {signal: score_of[one.id]}))
    return sorted(found.values(), key=lambda hit: (-hit.score, hit.candidate.id))


def _explained(found: Sequence[Found], question: Question) -> list[Found]:
    """The hits with every feature that applies to them, those that made the ranking as they were."""
    by_source = sorted(found, key=lambda one: id(one.source))
    raw = measure([one.candidate for one in by_source], [one.source for one in by_source], FEATURES, question)
    every = {
        one.candidate.id: {name: float(value) for name, value in zip(FEATURES, row, strict=True) if not np.isnan(value)}
        for one, row in zip(by_source, raw, strict=True)
    }
    return [one._replace(signals=every[one.candidate.id] | dict(one.signals)) for one in found]
