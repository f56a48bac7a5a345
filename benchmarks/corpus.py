"""Synthetic conversations of any length, the same on every machine, and vectors for them without a model.

Words follow Zipf's law with Mandelbrot's offset, which stands for the stop words that analysis takes out: the commonest
word is in a tenth of all turns. A conversation's turns share a topic, whose words its turns draw more often and around
whose centre their vectors lie.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from neuralstream.types import Part, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from neuralstream.embed.base import Vectors

__all__ = ["DIM", "USER", "TopicEmbedder", "questions", "turns"]

USER = "ada"
DIM = 384
"""MiniLM's."""

_WORDS = 30_000
_OFFSET = 20
_TOPICS = 500
_TOPIC_WORDS = 40
_SESSION = 40
"""Turns of a conversation."""

_START = datetime(2026, 1, 1, tzinfo=UTC)
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprtvz" for vowel in "aiou"]


def turns(count: int) -> Iterator[Turn]:
    """The first `count` exchanges of the one user, in order: question of some 10 words, reply of some 25."""
    for first in range(0, count, _SESSION):
        random = np.random.default_rng([1, first])
        topic = int(random.integers(_TOPICS))
        for index in range(min(_SESSION, count - first)):
            question, reply = (f"{_say(random, topic, mean)} {_name(topic)}" for mean in (10, 25))
            parts = (Part("user", question), Part("assistant", reply))
            number = first + index
            at = _START + timedelta(minutes=number)
            session = f"session-{first // _SESSION}"
            yield Turn(parts, session, turn_id=f"turn-{number}", user_id=USER, index=index, created_at=at)


def questions(count: int, number: int) -> list[str]:
    """Questions about what was said in the first `count` turns: six words of a random turn, and its topic's name."""
    random = np.random.default_rng(2)
    asked = []
    for first in (random.integers(max(1, count // _SESSION), size=number) * _SESSION).tolist():
        topic = int(np.random.default_rng([1, first]).integers(_TOPICS))
        asked.append(f"{_say(random, topic, 6)} {_name(topic)}?")
    return asked


class TopicEmbedder:
    """Vectors around the centre of the topic that a text's last word names; no model, so that its time is left out."""

    def __init__(self) -> None:
        self.dim = DIM
        self.name = "topics"
        self.digest = "0" * 64
        self._centres = np.random.default_rng(3).normal(size=(_TOPICS, DIM)).astype(np.float32)
        self._topics = {_name(topic): topic for topic in range(_TOPICS)}

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """A chunk for each text."""
        return [self.embed_query(text)[np.newaxis] for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """(n, dim) float32, L2-normalised."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else np.empty((0, DIM), np.float32)

    def known_share(self, text: str) -> float:  # noqa: ARG002 - every word has a vector
        """1: it reads everything."""
        return 1.0

    def embed_query(self, text: str) -> Vectors:
        """(dim,) float32, L2-normalised."""
        topic = self._topics[text.rstrip("?").rpartition(" ")[2]]
        noise = np.random.default_rng(crc32(text.encode())).standard_normal(DIM, np.float32)
        vector = self._centres[topic] + noise
        normalised: Vectors = vector / np.linalg.norm(vector)
        return normalised


def _say(random: np.random.Generator, topic: int, mean: int) -> str:
    """Words for which a fifth is the topic's own, as many as a log-normal draw around the mean says."""
    length = int(np.clip(random.lognormal(np.log(mean), 0.6), 3, 10 * mean))
    ranks = np.searchsorted(_CUMULATIVE, random.random(length))
    own = random.random(length) < 0.2
    ranks[own] = (topic * _TOPIC_WORDS + random.integers(_TOPIC_WORDS, size=int(own.sum()))) % _WORDS
    return " ".join(_VOCABULARY[rank] for rank in ranks.tolist())


def _name(topic: int) -> str:
    return f"about{topic}"


def _zipf() -> NDArray[np.float64]:
    weights = 1 / (np.arange(_WORDS) + 1 + _OFFSET)
    cumulative: NDArray[np.float64] = np.cumsum(weights / weights.sum())
    return cumulative


def _word(rank: int) -> str:
    """A pronounceable word that no stemmer shortens into another's."""
    word = ""
    while rank or not word:
        rank, syllable = divmod(rank, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
    return word + "x"


_CUMULATIVE = _zipf()
_VOCABULARY = [_word(rank) for rank in range(_WORDS)]
