"""The signals by name, what they are computed from, and the two places where turns and gems are found.

A signal of evidence (BM25, dense, graph) finds points by itself. A signal of context (the session's BM25, recency) only
ranks what others found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from neuralstream.analysis import analyse
from neuralstream.errors import SettingsError
from neuralstream.types import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from neuralstream.config import RankingSettings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.retrieve.query import GraphSignal, Query
    from neuralstream.store.base import Ranked
    from neuralstream.types import Gem, Turn

__all__ = ["CONTEXT", "EVIDENCE", "FEATURES", "Candidate", "Question", "Source", "check_weights"]

EVIDENCE = ("bm25", "bm25_text", "bm25_near", "dense", "dense_near", "graph")
CONTEXT = ("bm25_session", "recency")
FEATURES = EVIDENCE + CONTEXT
"""What a kind's `weights` may name: BM25 of date, speakers and text; BM25 of the text; BM25 of the text with its
neighbours; cosine of the text; cosine of the text with its neighbours; activation in the graph; BM25 of the session's
stretch; recency."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that was found: its id, and what of its payload the signals read."""

    id: str
    payload: Mapping[str, Any]

    @property
    def session_id(self) -> str:
        """The session it comes from."""
        return str(self.payload["session_id"])

    @property
    def index(self) -> int:
        """Its place in the session; a gem has its first source turn's."""
        return int(self.payload["index"])

    @property
    def created_at(self) -> datetime:
        """When it was said, or made."""
        return parse_time(self.payload["created_at"])


class Source(Protocol):
    """A place where candidates are found and scored: a collection of the store, or the turns not in it yet."""

    def top(self, signal: str, limit: int) -> list[Ranked]:
        """Points by one signal of EVIDENCE, or by "substring", best first, ties by id; scores above 0 only."""
        ...

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:
        """Those of these points that count at the query's moment; `whole` where most will be returned."""
        ...

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """The turns and gems themselves, by point id."""
        ...

    def scores(self, signal: str, candidates: Sequence[Candidate]) -> dict[str, float]:
        """One signal of FEATURES for each of this source's candidates, by id; 0 without evidence."""
        ...


class Question:
    """A query, how its kind of conversation is ranked, and what is derived from its text once a signal needs it."""

    def __init__(self, query: Query, embedder: Embedder, graph: GraphSignal | None, ranking: RankingSettings) -> None:
        self.query = query
        self.ranking = ranking
        self._embedder = embedder
        self._graph = graph

    @cached_property
    def terms(self) -> list[str]:
        """Its analysed tokens, each once."""
        return list(dict.fromkeys(analyse(self.query.text)))

    @cached_property
    def vector(self) -> Vectors | None:
        """Its embedding; None where it says nothing."""
        return self._embedder.embed_query(self.query.text) if self.query.text.strip() else None

    @cached_property
    def activation(self) -> Mapping[str, float]:
        """What it activates in the user's graph, by point id."""
        return self._graph.activate(self.query.user_id, self.query.text) if self._graph else {}


def check_weights(name: str, weights: Mapping[str, float]) -> None:
    """Refuse weights that name no known signal, or none that finds anything.

    Args:
        name: the setting's, for the message.
        weights: weight per signal.

    Raises:
        SettingsError: the message lists the known names.
    """
    unknown = sorted(set(weights) - set(FEATURES))
    if unknown:
        raise SettingsError(f"{name} names unknown signals {unknown}; use {', '.join(FEATURES)}")
    if not any(weights.get(name) for name in EVIDENCE):
        raise SettingsError(f"{name} finds nothing: give one of {', '.join(EVIDENCE)} a weight other than 0")
