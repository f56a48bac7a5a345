"""Features that follow from a candidate's payload: who speaks, when, and what kind of thing is said.

What they read of a turn is written when it is indexed (`documents.traits`), so that no text is read again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from neuralstream.retrieve.documents import EXCHANGE
from neuralstream.retrieve.named import speaks
from neuralstream.retrieve.recency import recency
from neuralstream.retrieve.when import closeness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from neuralstream.retrieve.features import Candidate, Question

__all__ = ["payload_features"]

_UNNAMED = {"user": ("user",), "assistant": ("assistant",), EXCHANGE: ("user", "assistant")}
"""Who speaks where the log has no names."""

_ASKED_FOR = {
    "decision": frozenset({"decide", "decided", "decision", "decisions", "choose", "chose", "agree", "agreed"}),
    "preference": frozenset({"prefer", "prefers", "preferred", "preference", "favorite", "favourite", "like", "likes"}),
    "todo": frozenset({"todo", "todos", "task", "tasks", "remind", "pending", "open", "deadline", "due"}),
    "code": frozenset({"code", "command", "function", "script", "snippet", "config", "query"}),
}  # fmt: skip
"""Words of a question that ask for a gem's tag. A fact is what every question asks for."""


def payload_features(names: Sequence[str], candidates: Sequence[Candidate], question: Question) -> NDArray[np.float64]:
    """Features told by a candidate's payload alone: (candidates, names); NaN where one does not apply."""
    values = np.full((len(candidates), len(names)), math.nan)
    for column, name in enumerate(names):
        feature, _, role = name.partition(":")
        if role:
            for row, one in enumerate(candidates):
                if role in {one.payload["role"], one.payload["kind"]}:
                    values[row, column] = _TRAITS[feature](one)
        else:
            values[:, column] = [_FEATURES[name](one, question) for one in candidates]
    return values


def _speaker(one: Candidate, question: Question) -> float:
    return speaks(one.payload.get("speakers") or _UNNAMED.get(one.payload["role"], ()), question.words)


def _date(one: Candidate, question: Question) -> float:
    return closeness(one.created_at, question.periods)


def _recency(one: Candidate, question: Question) -> float:
    return recency(one.created_at, question.query.as_of)


def _tag(one: Candidate, question: Question) -> float:
    """Whether the question's words ask for a tag of the gem."""
    if one.payload["kind"] != "gem":
        return math.nan
    return float(any(question.words & _ASKED_FOR.get(tag, frozenset()) for tag in one.payload["tags"]))


def _user(one: Candidate, question: Question) -> float:  # noqa: ARG001 - called like the others
    """Whether a user rather than an assistant says it; both speak in an exchange."""
    return {"user": 1.0, "assistant": 0.0}.get(one.payload["role"], math.nan)


def _gem(one: Candidate, question: Question) -> float:  # noqa: ARG001 - called like the others
    return float(one.payload["kind"] == "gem")


_FEATURES: Mapping[str, Callable[[Candidate, Question], float]] = {
    "speaker": _speaker,
    "date": _date,
    "recency": _recency,
    "tag": _tag,
    "user": _user,
    "gem": _gem,
}

_TRAITS: Mapping[str, Callable[[Candidate], float]] = {
    "question": lambda one: float(one.payload["question"]),
    "digits": lambda one: float(one.payload["digits"]),
    "length": lambda one: math.log1p(one.payload["length"]),
    "importance": lambda one: float(one.payload["data"]["importance"]),
    "confidence": lambda one: float(one.payload["data"]["confidence"]),
    "evidence": lambda one: math.log1p(len(one.payload["data"]["evidence"])),
}
