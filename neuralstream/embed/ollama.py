"""Embeddings from an Ollama server."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralstream.config import EmbedSettings
from neuralstream.embed.vectors import (
    SHORTEST_CHUNK,
    check_chunking,
    digest_of,
    mean_of_chunks,
    means_of_chunks,
    normalised,
)
from neuralstream.errors import EmbeddingError
from neuralstream.ollama_server import OllamaError, OllamaServer
from neuralstream.text import encodable
from neuralstream.tokens import CHARS_PER_TOKEN, count_tokens
from neuralstream.transport import TOO_LONG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neuralstream.embed.base import Vectors

__all__ = ["QUERY_PREFIXES", "OllamaEmbedder"]

QUERY_PREFIXES = {
    "snowflake-arctic-embed2": "query: ",
    "snowflake-arctic-embed": "Represent this sentence for searching relevant passages: ",
    "mxbai-embed-large": "Represent this sentence for searching relevant passages: ",
    "nomic-embed-text": "search_query: ",
    "embeddinggemma": "task: search result | query: ",
    "qwen3-embedding": ("Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"),
}
"""What a model's card on Hugging Face asks for before queries, by its name on Ollama without a tag."""

DOCUMENT_PREFIXES = {"nomic-embed-text": "search_document: ", "embeddinggemma": "title: none | text: "}
"""The same before texts that are stored; most cards ask for nothing."""

_KEEP_ALIVE = "30m"
"""How long the server keeps the model loaded: longer than the pauses in a conversation."""

_CHUNK_TOKENS = 512
"""The longest chunk where `embed.chunk_tokens` is 0. Models here hold thousands of tokens, and one vector of them all
is about their common subject: a sentence on something else, late in a long reply, would not be found by it."""

_ESTIMATE_MARGIN = 0.75
"""Share of the model's context that a chunk of estimated length may fill; code has more tokens than prose."""

_TRIES = 3

_SHORTEST_CHUNK_CHARS = 64
"""A chunk this short that still exceeds the context is the model's fault, not the text's."""


class OllamaEmbedder:
    """A model on an Ollama server, asked at the first need.

    The server has no tokenizer to ask, so texts longer than 512 tokens, or `embed.chunk_tokens`, are cut by estimated
    tokens, and a chunk is halved where the server says that it exceeds the model's context. Nothing is cut silently
    (`truncate` is off).

    Args:
        url: http(s):// of the server.
        model: its name there, with or without a tag.
        settings: chunking, batch size, query prefix, context size and timeout.
        sleep: waits between tries, seconds.

    Raises:
        SettingsError: the chunk length means nothing.
    """

    def __init__(
        self,
        url: str,
        model: str,
        settings: EmbedSettings | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings or EmbedSettings()
        check_chunking(self._settings)
        self.name = model
        self._server = OllamaServer(
            url, model, timeout=self._settings.timeout, too_slow="raise embed.timeout", tries=_TRIES, sleep=sleep
        )
        base = model.rpartition("/")[2].partition(":")[0]
        configured = self._settings.query_prefix
        self._query_prefix = QUERY_PREFIXES.get(base, "") if configured is None else configured
        self._document_prefix = DOCUMENT_PREFIXES.get(base, "")
        self._lock = threading.RLock()
        self._digest: str | None = None
        self._dim: int | None = None
        self._longest: int | None = None

    @property
    def digest(self) -> str:
        """The server's digest of the model."""
        with self._lock:
            if self._digest is None:
                cutting = ("chunk_tokens", "chunk_overlap", "num_ctx")
                self._digest = digest_of(self._find_digest(), self._settings, *cutting)
            return self._digest

    @property
    def dim(self) -> int:
        """Length of a vector, learnt from the first answer."""
        with self._lock:
            return self._dim or int(self._vectors(["dimension"]).shape[1])

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts that are stored: for each text (chunks, dim) float32, rows L2-normalised.

        Raises:
            EmbeddingError: the model answered with a wrong shape, NaN or a zero vector.
            MissingPartError: the server does not answer, or does not have the model.
        """
        return self._embed(texts, self._document_prefix) if len(texts) else []

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised."""
        return means_of_chunks(self.embed_chunks(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question: (dim,) float32, L2-normalised, with the model's query prefix."""
        return mean_of_chunks(self._embed([text], self._query_prefix)[0])

    def known_share(self, text: str) -> float:  # noqa: ARG002 - the server does not tell
        """1: the server does not show its tokens."""
        return 1.0

    def close(self) -> None:
        """Close the connections to the server."""
        self._server.close()

    def _embed(self, texts: Sequence[str], prefix: str) -> list[Vectors]:
        longest = max(SHORTEST_CHUNK, self._longest_chunk() - count_tokens(prefix))
        chunks: list[str] = []
        owners: list[int] = []
        for owner, text in enumerate(texts):
            pieces = _split(encodable(text), longest, self._settings.chunk_overlap)
            chunks += pieces
            owners += [owner] * len(pieces)
        found: list[list[Vectors]] = [[] for _ in texts]
        for start in range(0, len(chunks), self._settings.batch_size):
            batch = chunks[start : start + self._settings.batch_size]
            mine = owners[start : start + len(batch)]
            for owner, rows in zip(mine, self._embed_batch(batch, prefix), strict=True):
                found[owner].append(rows)
        return [np.concatenate(rows) for rows in found]

    def _embed_batch(self, batch: Sequence[str], prefix: str) -> list[Vectors]:
        """A row for each chunk; where a chunk of the batch exceeds the context, one by one, that chunk in halves."""
        try:
            return list(self._vectors([prefix + chunk for chunk in batch])[:, np.newaxis])
        except _TooLongError as error:
            if len(batch) > 1:
                return [self._embed_batch([chunk], prefix)[0] for chunk in batch]
            chunk = batch[0]
            if len(chunk) <= _SHORTEST_CHUNK_CHARS:
                raise EmbeddingError(
                    f"{self.name} refuses {len(chunk)} characters as too long: {error}; use another"
                ) from error
            middle = len(chunk) // 2
            overlap = min(self._settings.chunk_overlap * CHARS_PER_TOKEN, middle // 4)
            halves = [chunk[: middle + overlap], chunk[middle - overlap :]]
            return [np.concatenate([self._embed_batch([half], prefix)[0] for half in halves])]

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        answer = self._call(
            lambda client: client.embed(
                model=self.name,
                input=list(texts),
                truncate=False,
                options={"num_ctx": self._settings.num_ctx},
                keep_alive=_KEEP_ALIVE,
            )
        )
        vectors = normalised(answer.embeddings, rows=len(texts), model=self.name)
        with self._lock:
            self._dim = self._dim or vectors.shape[1]
            if vectors.shape[1] != self._dim:
                raise EmbeddingError(
                    f"{self.name} answered with {vectors.shape[1]} dimensions after {self._dim}; start again"
                )
        return vectors

    def _longest_chunk(self) -> int:
        """Tokens of a chunk, estimated."""
        with self._lock:
            if self._longest is None:
                trained = self._ask(self._server.trained_context) or self._settings.num_ctx
                fits = int(min(self._settings.num_ctx, trained) * _ESTIMATE_MARGIN)
                self._longest = min(self._settings.chunk_tokens or _CHUNK_TOKENS, fits)
            return self._longest

    def _find_digest(self) -> str:
        wanted = {self.name, f"{self.name}:latest"}
        for model in self._call(lambda client: client.list()).models:
            if model.model in wanted and model.digest:
                return str(model.digest)
        raise self._server.not_pulled()

    def _call(self, call: Callable[[Any], Any]) -> Any:
        return self._ask(lambda: self._server.request(call))

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except OllamaError as error:
            if TOO_LONG.search(str(error)):
                raise _TooLongError(str(error)) from error
            raise EmbeddingError(str(error)) from error


class _TooLongError(Exception):
    """An input exceeds the model's context."""


def _split(text: str, longest: int, overlap: int) -> list[str]:
    """Overlapping pieces of at most about `longest` tokens, cut at a space where there is one near the end."""
    tokens = count_tokens(text)
    if tokens <= longest:
        return [text]
    width = max(1, len(text) * longest // tokens)
    shared = min(len(text) * overlap // tokens, width // 4)
    pieces = []
    start = 0
    while start + width < len(text):
        space = text.rfind(" ", start + width - width // 4, start + width)
        end = start + width if space < 0 else space
        pieces.append(text[start:end])
        start = end - shared
    return [*pieces, text[start:]]
