"""Fakes in the process: a clock, an embedder, an extractor."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from neuralstream.analysis import analyse_whole_words
from neuralstream.clock import parse_time
from neuralstream.embed.vectors import means_of_chunks
from neuralstream.extract.base import Extraction
from neuralstream.types import Gem, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from neuralstream.embed.base import Vectors
    from neuralstream.extract.base import Batch

__all__ = ["FakeClock", "FakeEmbedder", "ScriptedExtractor"]


class FakeClock:
    """A clock that moves only when told to.

    Args:
        start: the first time it tells.
    """

    def __init__(self, start: datetime | str = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.now = parse_time(start)

    def __call__(self) -> datetime:
        """The time, aware UTC."""
        return self.now

    def advance(self, by: timedelta | float = 0, **units: float) -> datetime:
        """Move on by a duration or seconds, plus units as `timedelta` names them: `advance(minutes=15)`."""
        self.now += (by if isinstance(by, timedelta) else timedelta(seconds=by)) + timedelta(**units)
        return self.now

    def set(self, now: datetime | str) -> datetime:
        """Jump to a time."""
        self.now = parse_time(now)
        return self.now


class FakeEmbedder:
    """A hashed bag of stemmed words: texts that share words are near, the rest is nearly orthogonal.

    Each word has a fixed random vector of +1 and -1 (a random projection); a text's vector is their sum, normalised.

    Args:
        dim: length of a vector, a multiple of 8.
        window: words a chunk of a stored text holds; a longer text is cut every so many words, without overlap.
    """

    def __init__(self, dim: int = 64, *, window: int = 256) -> None:
        self.dim = dim
        self.name = f"fake-{dim}"
        self.digest = hashlib.sha256(f"{self.name} {window}".encode()).hexdigest()
        self._window = window

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts: for each text (chunks, dim) float32, rows L2-normalised."""
        return [np.stack([self.embed_query(chunk) for chunk in self._cut(text)]) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised."""
        return means_of_chunks(self.embed_chunks(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        """Vector of a text: (dim,) float32, L2-normalised; a text without words has a vector of its own."""
        total = np.zeros(self.dim, dtype=np.float32)
        for word in analyse_whole_words(text):
            total += _word_vector(word, self.dim)
        if not total.any():
            total += _word_vector("\0" + text, self.dim)
        normalised: Vectors = total / np.float32(np.linalg.norm(total))
        return normalised

    def known_share(self, text: str) -> float:  # noqa: ARG002 - every word has a vector
        """1: it reads everything."""
        return 1.0

    def _cut(self, text: str) -> list[str]:
        words = text.split()
        if len(words) <= self._window:
            return [text]
        return [" ".join(words[start : start + self._window]) for start in range(0, len(words), self._window)]


class ScriptedExtractor:
    """Distils as told, and records the batches it saw in `batches`.

    Args:
        script: answers a batch with an extraction or with gems, or raises ExtractionError. None answers every call with
            one new random gem, as a language model would answer the same batch differently each time.
        name: what gems record as their model.
    """

    def __init__(
        self, script: Callable[[Batch], Extraction | Iterable[Gem]] | None = None, *, name: str = "scripted"
    ) -> None:
        self.name = name
        self.batches: list[Batch] = []
        self._script = script or self._improvise

    def extract(self, batch: Batch) -> Extraction:
        """What the script says."""
        self.batches.append(batch)
        answer = self._script(batch)
        return answer if isinstance(answer, Extraction) else Extraction(tuple(answer))

    def _improvise(self, batch: Batch) -> Sequence[Gem]:
        first, last = batch.turns[0], batch.turns[-1]
        content = f"{uuid.uuid4().hex} {uuid.uuid4().hex}"  # nothing that meets, or replaces, what was said before
        source_turns = tuple(turn.turn_id for turn in batch.turns)
        return [
            Gem(
                gem_id=Gem.make_id(first.user_id, first.session_id, source_turns, content),
                content=content,
                source=Source(first.session_id, first.at().date().isoformat(), f"{first.index}-{last.index}"),
                source_turns=source_turns,
                created_at=last.at(),
                user_id=first.user_id,
                model=self.name,
            )
        ]


@lru_cache(maxsize=65_536)
def _word_vector(word: str, dim: int) -> Vectors:
    bits = np.unpackbits(np.frombuffer(hashlib.shake_256(word.encode("utf-8", "replace")).digest(dim // 8), np.uint8))
    return bits.astype(np.float32) * 2 - 1
