"""Turns that were captured a moment ago and are not in the store yet, searched in memory: there is no blind spot.

They are scored by the same formulas. What is approximated: neighbours are those among the pending turns; the session's
stretch is the better of what is stored and what is pending; the mean length is a sample's (see `bm25.corpus`); only
the newest EMBEDDED turns are embedded, older ones are found by their words; the graph does not know them, so BM25,
scaled to the strongest activation, stands in for theirs.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from neuralstream.retrieve import substring
from neuralstream.retrieve.bm25 import FIELDS, corpus, score, session_scores
from neuralstream.retrieve.documents import (
    STRETCH,
    embedded_text,
    turn_heading_terms,
    turn_point_id,
    turn_terms,
)
from neuralstream.retrieve.features import Candidate
from neuralstream.retrieve.recency import recency
from neuralstream.retrieve.semantic import VECTORS
from neuralstream.store.base import Ranked
from neuralstream.store.schema import TERMS, TERMS_DATED, TERMS_NEAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.config import RetrievalSettings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.retrieve.features import Question
    from neuralstream.store.base import MemoryStore
    from neuralstream.types import Gem, Turn

__all__ = ["EMBEDDED", "PendingTurns"]

EMBEDDED = 32
"""Newest pending turns that a question embeds. With the embedding cache this only moves work that indexing would do."""


class PendingTurns:
    """A question's pending turns as a source of candidates.

    Args:
        turns: the turns it may find, in any order.
        question: what is asked.
        store: gives the statistics of the stored turns.
        embedder: embeds the newest.
        settings: the number of neighbours.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        question: Question,
        store: MemoryStore,
        embedder: Embedder,
        settings: RetrievalSettings,
    ) -> None:
        self._turns = {turn_point_id(turn.user_id, turn.turn_id): turn for turn in turns}
        self._question = question
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._known: dict[str, dict[str, float]] = {}

    def top(self, signal: str, limit: int) -> list[Ranked]:
        """See Source."""
        found = [Ranked(point, value) for point, value in self._all(signal).items() if value > 0]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:limit]

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:  # noqa: ARG002 - all are at hand
        """See Source."""
        return [self._candidate(point) for point in ids if point in self._turns]

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """See Source."""
        return {point: self._turns[point] for point in ids}

    def scores(self, signal: str, candidates: Sequence[Candidate]) -> dict[str, float]:
        """See Source."""
        everything = self._all(signal)
        return {one.id: everything[one.id] for one in candidates}

    def _candidate(self, point: str) -> Candidate:
        turn = self._turns[point].to_dict()
        read = {name: turn[name] for name in ("session_id", "index", "created_at")}
        return Candidate(point, {"kind": "turn"} | read)

    def _all(self, signal: str) -> dict[str, float]:
        if signal not in self._known:
            self._known[signal] = self._score(signal)
        return self._known[signal]

    def _score(self, signal: str) -> dict[str, float]:
        query = self._question.query
        if signal in FIELDS:
            return self._bm25(self._tokens[FIELDS[signal]], FIELDS[signal])
        if signal in VECTORS:
            return self._dense(signal)
        if signal == "bm25_session":
            return self._session()
        if signal == "recency":
            return {point: recency(turn.at(), query.as_of) for point, turn in self._turns.items()}
        if signal == "graph":
            return self._overlap()
        needle = substring.fold(query.text)
        return {point: substring.score(needle, turn.to_dict()) for point, turn in self._turns.items()}

    @cached_property
    def _tokens(self) -> dict[str, dict[str, list[str]]]:
        """Tokens by field and point."""
        plain = {point: turn_terms(turn) for point, turn in self._turns.items()}
        return {
            TERMS: plain,
            TERMS_DATED: {point: turn_heading_terms(turn) + plain[point] for point, turn in self._turns.items()},
            TERMS_NEAR: {point: [term for near in self._near(point) for term in plain[near]] for point in plain},
        }

    @cached_property
    def _places(self) -> dict[tuple[str, int], str]:
        return {(turn.session_id, turn.index or 0): point for point, turn in self._turns.items()}

    def _near(self, point: str) -> list[str]:
        turn, reach = self._turns[point], self._settings.neighbours
        places = ((turn.session_id, (turn.index or 0) + step) for step in range(-reach, reach + 1))
        return [self._places[place] for place in places if place in self._places]

    def _bm25(self, documents: Mapping[str, Sequence[str]], field: str) -> dict[str, float]:
        terms = self._question.terms
        known = corpus(self._store, self._question.query.user_id, terms, field, list(documents.values()))
        k1, b = self._question.ranking.bm25_k1, self._question.ranking.bm25_b
        return {point: score(terms, document, known, k1=k1, b=b) for point, document in documents.items()}

    def _session(self) -> dict[str, float]:
        """The better of the stretch as it is stored and the stretch as it is pending."""
        stretch_of = {point: (turn.session_id, (turn.index or 0) // STRETCH) for point, turn in self._turns.items()}
        stretches: dict[str, list[str]] = {}
        for point, stretch in stretch_of.items():
            stretches.setdefault(str(stretch), []).extend(self._tokens[TERMS][point])
        pending = self._bm25(stretches, TERMS)
        stored = session_scores(
            self._store,
            self._question.query.user_id,
            self._question.terms,
            self.candidates(list(self._turns)),
            self._question.ranking,
        )
        return {point: max(stored[point], pending[str(stretch)]) for point, stretch in stretch_of.items()}

    @cached_property
    def _vectors(self) -> dict[str, Vectors]:
        """Vectors of the newest turns that say something, by point."""
        said = [point for point, turn in self._turns.items() if embedded_text(turn).strip()]
        newest = sorted(said, key=lambda point: (self._turns[point].at(), self._turns[point].index or 0))[-EMBEDDED:]
        texts = [embedded_text(self._turns[point]) for point in newest]
        return dict(zip(newest, self._embedder.embed_documents(texts), strict=True)) if texts else {}

    def _dense(self, signal: str) -> dict[str, float]:
        query = self._question.vector
        cosines = dict.fromkeys(self._turns, 0.0)
        for point in self._vectors if query is not None else ():
            near = self._near(point) if signal == "dense_near" else [point]
            total = np.sum([self._vectors[other] for other in near if other in self._vectors], axis=0)
            length = float(np.linalg.norm(total)) or 1.0
            cosines[point] = float(total @ query) / length
        return cosines

    def _overlap(self) -> dict[str, float]:
        strongest = max(self._question.activation.values(), default=1.0)
        scores = self._all("bm25")
        best = max(scores.values(), default=0.0) or 1.0
        return {point: strongest * value / best for point, value in scores.items()}
