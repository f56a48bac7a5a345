"""The seam between texts and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Embedder", "Vectors"]

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. Every implementation passes `tests/embed/test_contract.py`."""

    @property
    def name(self) -> str:
        """The model, for people and for the store's record, such as "all-MiniLM-L6-v2"."""
        ...

    @property
    def digest(self) -> str:
        """Identifies the weights: two embedders with one digest give the same vectors."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts that are stored: for each text (chunks, dim) float32, rows L2-normalised, in its order.

        A text within the model's window is one chunk; a longer one overlapping chunks that leave nothing out, so that
        it can be found by its best. `vectors.mean_of_chunks` is a text's one vector.

        Raises:
            EmbeddingError: the model answered with a wrong shape, NaN or a zero vector.
            MissingPartError: the model or its server cannot be reached.
        """
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised; n may be 0."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question: (dim,) float32, L2-normalised, with the model's query prefix.

        A question longer than the window is the mean of its chunks.
        """
        ...

    def known_share(self, text: str) -> float:
        """The share of a question's tokens that the model has a meaning for, 0 to 1; 1 where it cannot tell.

        What it cannot read it embeds all the same, and the cosines say nothing.
        """
        ...
