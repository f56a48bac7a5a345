"""What every embedder does with what its model answers: check it, normalise it, average chunks, name the result."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralstream.config import EmbedSettings
from neuralstream.errors import EmbeddingError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.embed.base import Vectors

__all__ = [
    "SHORTEST_CHUNK",
    "check_chunking",
    "digest_of",
    "mean_of_chunks",
    "means_of_chunks",
    "normalised",
]

SHORTEST_CHUNK = 16
"""Tokens. Below this, special tokens outweigh the text."""


def normalised(answer: Any, *, rows: int, model: str) -> Vectors:
    """A model's answer as (rows, dim) float32, L2-normalised.

    Raises:
        EmbeddingError: it has another shape, or holds NaN, an infinity or a zero vector.
    """
    try:
        vectors = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"{model} answered with something that is not a matrix of numbers: {error}; use another"
        ) from error
    if vectors.ndim != 2 or len(vectors) != rows or not vectors.shape[1]:
        raise EmbeddingError(
            f"{model} answered {rows} texts with an array of shape {vectors.shape}, not ({rows}, dim); use another"
        )
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"{model} answered with NaN or infinity; reload the model, or use another")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not lengths.all():
        raise EmbeddingError(f"{model} answered with a zero vector; reload the model, or use another")
    unit: Vectors = vectors / lengths
    return unit


def mean_of_chunks(rows: Vectors) -> Vectors:
    """One vector of a text from those of its chunks: the direction of their mean, (chunks, dim) to (dim,).

    A text of one chunk keeps that chunk's vector to the last bit. Chunks whose vectors cancel out, which no real text
    has, are answered by the first.
    """
    if len(rows) == 1:
        only: Vectors = rows[0]
        return only
    total = np.sum(rows, axis=0, dtype=np.float64)
    length = float(np.linalg.norm(total))
    return np.asarray(total / length if length else rows[0], dtype=np.float32)


def means_of_chunks(texts: Sequence[Vectors], dim: int) -> Vectors:
    """`mean_of_chunks` of each text: (n, dim); n may be 0."""
    means = np.empty((len(texts), dim), dtype=np.float32)
    for row, chunks in enumerate(texts):
        means[row] = mean_of_chunks(chunks)
    return means


def digest_of(weights: str, settings: EmbedSettings, *names: str) -> str:
    """Identifies what vectors depend on: the weights, and the named settings where they are not the defaults."""
    chosen, default = ({name: getattr(values, name) for name in names} for values in (settings, EmbedSettings()))
    if chosen == default:
        return weights
    return hashlib.sha256(f"{weights} {sorted(chosen.items())}".encode()).hexdigest()


def check_chunking(settings: EmbedSettings) -> None:
    """Refuse chunks too short to mean anything.

    Raises:
        SettingsError: `embed.chunk_tokens` lies below 16 and is not 0.
    """
    if 0 < settings.chunk_tokens < SHORTEST_CHUNK:
        raise SettingsError(
            f"embed.chunk_tokens = {settings.chunk_tokens}: write 0 for the model's limit, or {SHORTEST_CHUNK} and more"
        )
