"""Ranking by the cosine of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralstream.store.base import Where
from neuralstream.store.schema import VECTOR_NEAR, VECTOR_TEXT

if TYPE_CHECKING:
    from neuralstream.embed.base import Vectors
    from neuralstream.store.base import MemoryStore, Ranked

__all__ = ["VECTORS", "ranked"]

VECTORS = {"dense": VECTOR_TEXT, "dense_near": VECTOR_NEAR}
"""The named vector that each signal compares."""


def ranked(
    store: MemoryStore,
    collection: str,
    where: Where,
    vector: Vectors,
    *,
    signal: str,
    limit: int,
    exact_below: int,
) -> list[Ranked]:
    """Points by cosine (-1 to 1), best first; exact where the user has fewer than `exact_below` points of the kind."""
    exact = where.ids is not None or store.count(collection, Where(where.user_id, kind=where.kind)) < exact_below
    return store.dense(collection, vector, VECTORS[signal], where, limit, exact=exact)
