"""What ranking reads: a question, candidates, and the two places where turns and gems are found.

`neuralstream.ranking` says what each feature is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from neuralstream.analysis import analyse, words
from neuralstream.clock import parse_time
from neuralstream.ranking import EVIDENCE, FEATURES
from neuralstream.retrieve.when import asked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.ranking import RankingSettings
    from neuralstream.retrieve.query import GraphSignal, Query
    from neuralstream.retrieve.when import Asked
    from neuralstream.store.base import Ranked
    from neuralstream.types import Gem, Turn

__all__ = ["BEFORE", "FEATURES", "FINDERS", "MEASURED", "OF_EXCHANGES", "Candidate", "Question", "Source"]

MEASURED = (*EVIDENCE, "bm25_session", "bm25_before", "coverage", "dense_before")
"""The signals that only the place where a candidate lies can tell; the rest follows from these and its payload."""

BEFORE = {"bm25_before": "bm25_text", "dense_before": "dense"}
"""Signals of the turn before, and the signal of its own that each is."""

OF_EXCHANGES = ("bm25_user", "bm25_reply", "dense_user")
"""Signals of the parts of an exchange, which tell nothing of other turns and of gems."""

FINDERS = ("bm25", "bm25_near", "dense", "dense_near")
"""The signals whose best are hybrid's candidates, beside the graph's where it has a weight."""


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

    def top(self, signals: Sequence[str], limit: int) -> dict[str, list[Ranked]]:
        """Points by each of some signals of EVIDENCE, or by "substring", best first, ties by id.

        Scores above 0 only, and of gems those that count at the query's moment.
        """
        ...

    def candidates(self, ids: Sequence[str], *, whole: bool = False) -> list[Candidate]:
        """Those of these points that count at the query's moment; `whole` where most will be returned."""
        ...

    def items(self, ids: Sequence[str]) -> dict[str, Turn | Gem]:
        """The turns and gems themselves, by point id."""
        ...

    def scores(self, signals: Sequence[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Signals of `MEASURED` for this source's candidates: (candidates, signals); 0 without evidence.

        NaN where a signal does not apply: the first turn of a session has none before it.
        """
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
    def words(self) -> frozenset[str]:
        """Its words, folded, stop words included."""
        return frozenset(words(self.query.text))

    @cached_property
    def periods(self) -> tuple[Asked, ...]:
        """The stretches of time it names, seen from the moment it is asked."""
        return asked(self.query.text, self.query.as_of)

    @cached_property
    def vector(self) -> Vectors | None:
        """Its embedding; None where it says nothing."""
        return self._embedder.embed_query(self.query.text) if self.query.text.strip() else None

    @cached_property
    def trust(self) -> float:
        """How far its embedding can be trusted: the share of its tokens that the model knows."""
        return self._embedder.known_share(self.query.text)

    @cached_property
    def activation(self) -> Mapping[str, float]:
        """What it activates in the user's graph, by point id."""
        return self._graph.activate(self.query.user_id, self.query.text) if self._graph else {}
