"""Ranking by the cosine of embeddings."""

from __future__ import annotations

from neuralstream.store.schema import VECTOR_NEAR, VECTOR_TEXT

__all__ = ["VECTORS"]

VECTORS = {"dense": VECTOR_TEXT, "dense_near": VECTOR_NEAR}
"""The named vector that each signal compares."""
