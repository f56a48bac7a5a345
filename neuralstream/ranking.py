"""How one kind of conversation is ranked: BM25's parameters and the weights of hybrid's linear model.

A signal of evidence (BM25, dense, graph) can rank by itself. A signal of context (the session, the turn before, time,
names) only ranks what others found. A prior says something of a candidate whatever is asked, and only of those that one
role speaks: what a question mark means depends on whose it is.

What ships was written by `neuralstream tune` into `ranking.toml` beside this module, with the data it was fitted to and
how well it did; `reports/tuning.md` tells the same for people.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "CONTEXT",
    "EVIDENCE",
    "FEATURES",
    "GROUPS",
    "PRIORS",
    "SIGNALS",
    "AssistantRankingSettings",
    "ExchangeRankingSettings",
    "Kind",
    "RankingSettings",
    "TunedSettings",
]

Kind = Literal["people", "assistant", "exchange"]
"""Kinds of conversation: people talking; a user and an assistant, a turn a message; the same, a turn an exchange."""

EVIDENCE = ("bm25", "bm25_text", "bm25_near", "bm25_user", "bm25_reply", "dense", "dense_near", "dense_user", "graph")
"""BM25 of date, speakers and text; of the text; of the text with its neighbours; of the user's part of an exchange; of
the reply. Cosine of the text, the best of its chunks where it is long; of the text with its neighbours; of the user's
part. Activation in the graph."""

CONTEXT = (
    "bm25_session", "bm25_before", "coverage", "dense_session", "dense_before", "linked", "speaker", "date", "recency",
    "tag",
)  # fmt: skip
"""BM25 of the session's stretch; of the turn before. The IDF of the query's terms that the text and its neighbours
hold, summed. The best cosine in the session; the cosine of the turn before. Activation from the best candidates through
names that both hold. Whether the query names who speaks; whether it names the date; how recent it is; whether it asks
for a gem's tag."""

SIGNALS = EVIDENCE + CONTEXT
"""Features that speak for a candidate: their weights are never below 0."""

ROLES = ("person", "user", "assistant", "exchange")

PRIORS = (
    *(f"{trait}:{role}" for trait in ("question", "digits", "length") for role in ROLES),
    "user", "importance:gem", "confidence:gem", "evidence:gem", "length:gem", "gem",
)  # fmt: skip
"""Features of what was said, for each role that may say it (of a gem: the turn it comes from): whether it asks, holds
digits, how long it is; whether a user rather than an assistant says it; a gem's importance, confidence, number of turns
behind it, length; a gem rather than a turn."""

FEATURES = SIGNALS + PRIORS

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

Weight = Annotated[float, Field(allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def _checked(weights: dict[str, float]) -> dict[str, float]:
    """Refuse weights that name no known feature, count a signal against a hit, or find nothing."""
    unknown = sorted(set(weights) - set(FEATURES))
    if unknown:
        raise ValueError(f"unknown features {unknown}; use {', '.join(FEATURES)}")
    against = sorted(name for name, weight in weights.items() if weight < 0 and name in SIGNALS)
    if against:
        raise ValueError(f"below 0 for {against}: signals that count against a hit break on other logs; use 0 or more")
    if not any(weights.get(name) for name in EVIDENCE):
        raise ValueError(f"finds nothing: give one of {', '.join(EVIDENCE)} a weight other than 0")
    return weights


Weights = Annotated[dict[str, Weight], AfterValidator(_checked)]


def _shipped(kind: str, name: str) -> Callable[[], Any]:
    """A default that is read from the shipped file when it is needed."""
    return lambda: _shipped_file()[kind][name]


@cache
def _shipped_file() -> dict[str, Any]:
    text = files("neuralstream").joinpath("ranking.toml").read_text(encoding="utf-8")
    retrieval: dict[str, Any] = tomllib.loads(text)["retrieval"]
    return retrieval


def _k1(kind: str) -> Any:
    return Field(default_factory=_shipped(kind, "bm25_k1"), ge=0, le=10, description="BM25 term-frequency saturation")


def _b(kind: str) -> Any:
    return Field(default_factory=_shipped(kind, "bm25_b"), ge=0, le=1, description="BM25 length normalisation")


def _weights(kind: str) -> Any:
    return Field(
        default_factory=_shipped(kind, "weights"), description="hybrid's weight per standardised feature, as tuned"
    )


def _neighbours(kind: str) -> Any:
    return Field(
        default_factory=_shipped(kind, "neighbours"),
        ge=0,
        le=5,
        description="turns on each side that count as a turn's neighbourhood",
    )


class RankingSettings(_Frozen):
    """How conversations of people are ranked."""

    bm25_k1: float = _k1("people")
    bm25_b: float = _b("people")
    neighbours: int = _neighbours("people")
    weights: Weights = _weights("people")


class AssistantRankingSettings(RankingSettings):
    """How conversations of a user with an assistant are ranked, where each message is a turn."""

    bm25_k1: float = _k1("assistant")
    bm25_b: float = _b("assistant")
    neighbours: int = _neighbours("assistant")
    weights: Weights = _weights("assistant")


class ExchangeRankingSettings(RankingSettings):
    """How they are ranked where a message and its reply are one turn."""

    bm25_k1: float = _k1("exchange")
    bm25_b: float = _b("exchange")
    neighbours: int = _neighbours("exchange")
    weights: Weights = _weights("exchange")


class TunedSettings(_Frozen):
    """Where weights come from, as `neuralstream tune` writes it; a store filled by another embedder refuses them."""

    version: str = Field(description="of neuralstream")
    command: str = Field(description="that wrote the weights")
    embedder: str = Field(description="the model that made the vectors")
    embedder_digest: str = Field(description="identifies its weights")
    analyser: str = Field(description="the analysis that made the tokens")
    seed: int = Field(description="of the folds")
    features: list[str] = Field(description="that were chosen from")
    regularisation: dict[str, float] = Field(description="strength by kind")
    datasets: list[dict[str, Any]] = Field(description="what was fitted, and how well")
