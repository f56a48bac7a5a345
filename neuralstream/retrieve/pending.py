"""Turns that were captured a moment ago and are not in the store yet, searched in memory: there is no blind spot.

They are scored by the same formulas. What is approximated: neighbours are those among the pending turns; the session's
stretch is the better of what is stored and what is pending; the mean length is a sample's (see `bm25.corpus`); only
the newest EMBEDDED turns are embedded, older ones are found by their words; the graph does not know them, so BM25,
scaled to the strongest activation, stands in for theirs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from neuralstream.embed.vectors import mean_of_chunks
from neuralstream.entities import find_entities
from neuralstream.retrieve import substring
from neuralstream.retrieve.bm25 import FIELDS, corpus, score, session_scores
from neuralstream.retrieve.documents import (
    EXCHANGE,
    STRETCH,
    embedded_text,
    part_terms,
    role_of,
    traits,
    turn_heading_terms,
    turn_point_id,
    user_text,
)
from neuralstream.retrieve.features import BEFORE, OF_EXCHANGES, Candidate
from neuralstream.retrieve.kinds import kind_of_role
from neuralstream.retrieve.semantic import VECTORS
from neuralstream.store.base import Ranked, Where
from neuralstream.store.schema import TERMS, TERMS_DATED, TERMS_NEAR, TERMS_REPLY, TERMS_SESSION, TERMS_USER, TURNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from neuralstream.config import RetrievalSettings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.retrieve.features import Question
    from neuralstream.retrieve.stored import StoredPoints
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
        stored: those turns as a source, for the turn before a pending one.
        embedder: embeds the newest.
        settings: the number of neighbours.
    """

    def __init__(
        self,
        turns: Sequence[Turn],
        question: Question,
        *,
        store: MemoryStore,
        stored: StoredPoints,
        embedder: Embedder,
        settings: RetrievalSettings,
    ) -> None:
        self._stored = stored
        self._turns = {turn_point_id(turn.user_id, turn.turn_id): turn for turn in turns}
        self._question = question
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._known: dict[str, dict[str, float]] = {}

    def top(self, signals: Sequence[str], limit: int) -> dict[str, list[Ranked]]:
        """See Source."""
        return {signal: self._best(signal, limit) for signal in signals}

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:  # noqa: ARG002 - all are at hand
        """See Source."""
        return [self._candidate(point) for point in ids if point in self._turns]

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """See Source."""
        return {point: self._turns[point] for point in ids}

    def scores(self, signals: Sequence[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """See Source."""
        columns = [[self._all(signal)[one.id] for one in candidates] for signal in signals]
        return np.array(columns, np.float64).reshape(len(signals), len(candidates)).T

    def _best(self, signal: str, limit: int) -> list[Ranked]:
        found = [Ranked(point, value) for point, value in self._all(signal).items() if value > 0]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:limit]

    def _candidate(self, point: str) -> Candidate:
        turn = self._turns[point]
        plain = turn.to_dict()
        read = {name: plain[name] for name in ("session_id", "index", "created_at")}
        named = {"speakers": list(turn.speakers), "entities": list(find_entities(turn.text))}
        return Candidate(
            point, {"kind": "turn"} | named | read | traits(turn, role_of(turn), self._tokens[TERMS][point])
        )

    def _all(self, signal: str) -> dict[str, float]:
        if signal not in self._known:
            self._known[signal] = self._score(signal)
        return self._known[signal]

    def _score(self, signal: str) -> dict[str, float]:
        query = self._question.query
        if signal in BEFORE:
            return self._before(BEFORE[signal])
        if signal in FIELDS or signal in VECTORS:
            return self._measured(signal)
        if signal == "bm25_session":
            return self._session()
        if signal == "graph":
            return self._overlap()
        needle = substring.fold(query.text)
        return {point: substring.score(needle, turn.to_dict()) for point, turn in self._turns.items()}

    def _measured(self, signal: str) -> dict[str, float]:
        if signal in VECTORS:
            scores = self._dense(signal)
        else:
            k1 = 0.0 if signal == "coverage" else self._question.ranking.bm25_k1
            scores = self._bm25(self._tokens[FIELDS[signal]], FIELDS[signal], k1)
        if signal in OF_EXCHANGES:
            scores |= {point: math.nan for point, turn in self._turns.items() if role_of(turn) != EXCHANGE}
        return scores

    @cached_property
    def _tokens(self) -> dict[str, dict[str, list[str]]]:
        """Tokens by field and point."""
        parts = {point: part_terms(turn) for point, turn in self._turns.items()}
        plain = {point: [term for part in said.values() for term in part] for point, said in parts.items()}
        exchanges = {point: said for point, said in parts.items() if {"user", "assistant"} <= said.keys()}
        return {
            TERMS_USER: {point: exchanges[point]["user"] if point in exchanges else [] for point in parts},
            TERMS_REPLY: {point: exchanges[point]["assistant"] if point in exchanges else [] for point in parts},
            TERMS: plain,
            TERMS_DATED: {point: turn_heading_terms(turn) + plain[point] for point, turn in self._turns.items()},
            TERMS_NEAR: {point: [term for near in self._near(point) for term in plain[near]] for point in plain},
        }

    @cached_property
    def _places(self) -> dict[tuple[str, int], str]:
        return {(turn.session_id, turn.index or 0): point for point, turn in self._turns.items()}

    def _near(self, point: str) -> list[str]:
        turn = self._turns[point]
        reach = self._settings.ranking(kind_of_role(role_of(turn))).neighbours
        places = ((turn.session_id, (turn.index or 0) + step) for step in range(-reach, reach + 1))
        return [self._places[place] for place in places if place in self._places]

    def _before(self, signal: str) -> dict[str, float]:
        """A signal of the turn before each, which may be stored already."""
        own = self._all(signal)
        stored = self._stored.scored(signal, list(self._stored_before.values()))
        scores = {}
        for point, turn in self._turns.items():
            pending = self._places.get((turn.session_id, (turn.index or 0) - 1))
            before = self._stored_before.get(point)
            scores[point] = own[pending] if pending else stored[before] if before else math.nan
        return scores

    @cached_property
    def _stored_before(self) -> dict[str, str]:
        """The stored turn right before the first pending one of each stretch that is pending."""
        found: dict[str, str] = {}
        for point, turn in self._turns.items():
            before = (turn.index or 0) - 1
            if before >= 0 and (turn.session_id, before) not in self._places:
                where = Where(turn.user_id, kind="turn", session_ids=(turn.session_id,))
                where = replace(where, session_index_from=before, session_index_to=before)
                found.update((point, record.id) for record in self._store.scroll(TURNS, where, keys=("kind",)))
        return found

    def _bm25(self, documents: Mapping[str, Sequence[str]], field: str, k1: float) -> dict[str, float]:
        terms, b = self._question.terms, self._question.ranking.bm25_b
        known = corpus(self._store, self._question.query.user_id, terms, field, list(documents.values()))
        return {point: score(terms, document, known, k1=k1, b=b) for point, document in documents.items()}

    def _session(self) -> dict[str, float]:
        """The better of the stretch as it is stored and the stretch as it is pending."""
        stretch_of = {point: (turn.session_id, (turn.index or 0) // STRETCH) for point, turn in self._turns.items()}
        stretches: dict[str, list[str]] = {}
        for point, stretch in stretch_of.items():
            stretches.setdefault(str(stretch), []).extend(self._tokens[TERMS][point])
        pending = self._bm25(stretches, TERMS_SESSION, self._question.ranking.bm25_k1)
        stored = session_scores(
            self._store,
            self._question.query.user_id,
            self._question.terms,
            self.candidates(list(self._turns)),
            self._question.ranking,
        )
        return {point: max(stored[point], pending[str(stretch)]) for point, stretch in stretch_of.items()}

    @cached_property
    def _rows(self) -> dict[str, dict[str, Vectors]]:
        """Of the newest turns that say something: vectors by signal, chunks by chunks, and point."""
        said = [point for point, turn in self._turns.items() if embedded_text(turn).strip()]
        newest = sorted(said, key=lambda point: (self._turns[point].at(), self._turns[point].index or 0))[-EMBEDDED:]
        whole = {point: embedded_text(self._turns[point]) for point in newest}
        asked = {point: user_text(self._turns[point]) for point in newest}
        texts = sorted({text for text in (*whole.values(), *asked.values()) if text.strip()})
        rows = dict(zip(texts, self._embedder.embed_chunks(texts) if texts else (), strict=True))
        return {
            "dense": {point: rows[text] for point, text in whole.items()},
            "dense_user": {point: rows[text] for point, text in asked.items() if text in rows},
        }

    def _dense(self, signal: str) -> dict[str, float]:
        query = self._question.vector
        cosines = dict.fromkeys(self._turns, 0.0)
        if query is None:
            return cosines
        if signal == "dense_near":
            means = {point: mean_of_chunks(rows) for point, rows in self._rows["dense"].items()}
            for point in means:
                total = np.sum([means[other] for other in self._near(point) if other in means], axis=0)
                cosines[point] = float(total @ query) / (float(np.linalg.norm(total)) or 1.0)
        for point, rows in self._rows.get(signal, {}).items():
            best = float((rows @ query).max()) if signal == "dense" else -1.0
            cosines[point] = max(best, float(mean_of_chunks(rows) @ query))
        return cosines

    def _overlap(self) -> dict[str, float]:
        strongest = max(self._question.activation.values(), default=1.0)
        scores = self._all("bm25")
        best = max(scores.values(), default=0.0) or 1.0
        return {point: strongest * value / best for point, value in scores.items()}
