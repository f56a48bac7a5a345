"""The features that hybrid's linear model reads, by name, and the two places where turns and gems are found.

A signal of evidence (BM25, dense, graph) can rank points by itself. A signal of context (the session, the turn before,
time, names) only ranks what others found. A prior says something of a candidate whatever is asked, and only of those
that one role speaks: what a question mark means depends on whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from neuralstream.analysis import analyse, words
from neuralstream.errors import SettingsError
from neuralstream.retrieve.when import asked
from neuralstream.types import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from neuralstream.config import RankingSettings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.retrieve.query import GraphSignal, Query
    from neuralstream.retrieve.when import Asked
    from neuralstream.store.base import Ranked
    from neuralstream.types import Gem, Turn

__all__ = [
    "BEFORE",
    "CONTEXT",
    "EVIDENCE",
    "FEATURES",
    "FINDERS",
    "GROUPS",
    "MEASURED",
    "PRIORS",
    "SIGNALS",
    "Candidate",
    "Question",
    "Source",
    "check_weights",
]

EVIDENCE = ("bm25", "bm25_text", "bm25_near", "bm25_user", "bm25_reply", "dense", "dense_near", "dense_user", "graph")
"""BM25 of date, speakers and text; of the text; of the text with its neighbours; of the user's part of an exchange; of
the reply. Cosine of the text, the best of its chunks where it is long; of the text with its neighbours; of the user's
part. Activation in the graph."""

CONTEXT = (
    "bm25_session", "bm25_before", "coverage", "dense_session", "dense_before", "linked", "speaker", "date", "recency",
    "tag",
)  # fmt: skip
"""BM25 of the session's stretch; of the turn before. The share of the query's terms, by IDF, that the text and its
neighbours hold. The best cosine in the session; the cosine of the turn before. Activation from the best
candidates through names that both hold. Whether the query names who speaks;
whether it names the date; how recent it is; whether it asks for a gem's tag."""

SIGNALS = EVIDENCE + CONTEXT
"""Features that speak for a candidate: their weights are never below 0."""

PRIORS = (
    *(f"{trait}:{role}" for trait in ("question", "digits", "length") for role in ("person", "user", "assistant", "exchange")),
    "user", "importance:gem", "confidence:gem", "evidence:gem", "length:gem", "gem",
)  # fmt: skip
"""Features of what was said, for each role that may say it: whether it asks, holds digits, how long it is; whether a
user rather than an assistant says it; a gem's importance, confidence, number of turns behind it, length; a gem rather
than a turn."""

FEATURES = SIGNALS + PRIORS

MEASURED = (*EVIDENCE, "bm25_session", "bm25_before", "coverage", "dense_before")
"""The signals that only the place where a candidate lies can tell; the rest follows from these and its payload."""

BEFORE = {"bm25_before": "bm25_text", "dense_before": "dense"}
"""Signals of the turn before, and the signal of its own that each is."""

FINDERS = ("bm25", "bm25_near", "dense", "dense_near")
"""The signals whose best are hybrid's candidates, beside the graph's where it has a weight."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "bm25": ("bm25", "bm25_text", "bm25_user", "bm25_reply"),
    "dense": ("dense", "dense_user"),
    "neighbours": ("bm25_near", "dense_near", "coverage"),
    "turn before": ("bm25_before", "dense_before"),
    "session": ("bm25_session", "dense_session"),
    "speaker": ("speaker",),
    "time": ("date", "recency"),
    "priors": PRIORS,
    "gems": ("tag",),
    "graph": ("graph", "linked"),
}
"""What belongs together when features are left out one group at a time."""


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
        """Points by each of some signals of EVIDENCE, or by "substring", best first, ties by id; above 0 only."""
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
    def activation(self) -> Mapping[str, float]:
        """What it activates in the user's graph, by point id."""
        return self._graph.activate(self.query.user_id, self.query.text) if self._graph else {}


def check_weights(name: str, weights: Mapping[str, float]) -> None:
    """Refuse weights that name no known feature, count a signal against a hit, or find nothing.

    Args:
        name: the setting's, for the message.
        weights: weight per feature.

    Raises:
        SettingsError: the message lists the known names.
    """
    unknown = sorted(set(weights) - set(FEATURES))
    if unknown:
        raise SettingsError(f"{name} names unknown features {unknown}; use {', '.join(FEATURES)}")
    against = sorted(name for name, weight in weights.items() if weight < 0 and name in SIGNALS)
    if against:
        raise SettingsError(
            f"{name} is below 0 for {against}: a signal that counts against a hit breaks on other logs; use 0 or more"
        )
    if not any(weights.get(name) for name in EVIDENCE):
        raise SettingsError(f"{name} finds nothing: give one of {', '.join(EVIDENCE)} a weight other than 0")
