"""Ranking by the cosine of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralstream.store.base import Ranked
from neuralstream.store.schema import VECTOR_CHUNKS, VECTOR_NEAR, VECTOR_TEXT, VECTOR_USER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["VECTORS", "best_of"]

VECTORS: Mapping[str, tuple[str, ...]] = {
    "dense": (VECTOR_TEXT, VECTOR_CHUNKS),
    "dense_near": (VECTOR_NEAR,),
    "dense_user": (VECTOR_USER,),
}
"""The named vectors that each signal compares; the best of them counts."""


def best_of(rankings: Sequence[Sequence[Ranked]], limit: int) -> list[Ranked]:
    """The first `limit` points of several rankings by their best score, ties by id.

    Exact where each ranking holds its first `limit` points or all it has.
    """
    told = [ranking for ranking in rankings if ranking]
    if len(told) <= 1:
        return list(told[0][:limit]) if told else []
    best: dict[str, float] = {}
    for ranking in told:
        for point, score in ranking:
            best[point] = max(score, best.get(point, score))
    return sorted((Ranked(*pair) for pair in best.items()), key=lambda hit: (-hit.score, hit.id))[:limit]
