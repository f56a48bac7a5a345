"""What is compared. Each is filled with the same turns and asked the same questions; embedding is left out of the time.

Every function here runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import resource
import tempfile
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import bm25s
import numpy as np
import qdrant_edge as engine
from rank_bm25 import BM25Okapi

from benchmarks.corpus import DIM, USER, TopicEmbedder, questions, turns
from neuralstream.analysis import analyse
from neuralstream.clock import parse_time
from neuralstream.config import Settings
from neuralstream.indexing import Indexer, fingerprint
from neuralstream.retrieve.documents import turn_heading_terms, turn_point_id, turn_terms
from neuralstream.retrieve.query import Query
from neuralstream.retrieve.search import Retriever
from neuralstream.store import open_store
from neuralstream.store.base import Where
from neuralstream.store.schema import TERMS_DATED, TURNS, VECTOR_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neuralstream.embed.base import Vectors
    from neuralstream.store.base import MemoryStore

__all__ = [
    "FUSION",
    "HYBRID",
    "PLAIN",
    "Fill",
    "Latency",
    "ask_store",
    "fill_store",
    "in_memory",
    "with_bm25s",
    "with_rank_bm25",
]

HYBRID = "NeuralStream hybrid"
FUSION = "the engine's fusion"
PLAIN = "the engine's fusion, as it comes"

_AT_ONCE = 400
"""Turns that are indexed by one call."""

_WARM_UP = 10
"""Questions asked before the clock counts."""

_CANDIDATES = 200

_MOST_PLAIN = 100_000
"""Turns beyond which a second store of whole vectors is not made."""


class Fill(NamedTuple):
    """What filling took: turns, seconds without embedding, the process's peak memory in MB."""

    turns: int
    seconds: float
    peak_mb: float


class Latency(NamedTuple):
    """What asking took: who answered, seconds to open, seconds for each question, the process's peak memory in MB."""

    subject: str
    opening: float
    seconds: list[float]
    peak_mb: float


class _Timed(TopicEmbedder):
    """An embedder that knows how long it worked."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        started = perf_counter()
        chunks = [super(_Timed, self).embed_query(text)[np.newaxis] for text in texts]
        self.seconds += perf_counter() - started
        return chunks

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.concatenate(self.embed_chunks(texts))

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_chunks([text])[0][0]
        return vector


def fill_store(settings: Settings, count: int) -> Fill:
    """Index turns into the embedded store."""
    with closing(open_store(settings, fingerprint(TopicEmbedder()))) as store:
        seconds = _index(store, settings, count)
    return Fill(count, seconds, _peak_mb())


def ask_store(settings: Settings, count: int, number: int) -> list[Latency]:
    """Ask the embedded store, and by turns the engine's own fusion: of the same points, and of a store of its own."""
    started = perf_counter()
    with ExitStack() as opened:
        store = opened.enter_context(closing(open_store(settings, fingerprint(TopicEmbedder()))))
        opening = perf_counter() - started
        plain = opened.enter_context(_plain_shard(count))
        shard = store._shards[TURNS]  # type: ignore[attr-defined]  # noqa: SLF001 - the engine itself is asked too
        asked = {HYBRID: _hybrid(store, settings, count), FUSION: _fusion(shard)}
        if plain is not None:
            asked[PLAIN] = _fusion(plain)
        seconds: dict[str, list[float]] = {name: [] for name in asked}
        for text in questions(count, number + _WARM_UP):
            for name, ask in asked.items():
                seconds[name].append(ask(text))
    return [Latency(name, opening, taken[_WARM_UP:], _peak_mb()) for name, taken in seconds.items()]


def in_memory(count: int, number: int) -> tuple[Fill, Latency]:
    """The same hybrid search with qdrant-client's `:memory:` mode as its store."""
    settings = Settings(qdrant_url=":memory:")
    with closing(open_store(settings, fingerprint(TopicEmbedder()))) as store:
        filled = _index(store, settings, count)
        hybrid = _hybrid(store, settings, count)
        seconds = [hybrid(text) for text in questions(count, number + _WARM_UP)][_WARM_UP:]
    return Fill(count, filled, _peak_mb()), Latency(f"{HYBRID} on :memory:", 0.0, seconds, _peak_mb())


def with_rank_bm25(count: int, number: int) -> tuple[Fill, Latency]:
    """rank_bm25's Okapi over the same tokens: BM25 alone, built anew whenever a turn is added."""

    def build(documents: list[list[str]]) -> Callable[[list[str]], object]:
        index = BM25Okapi(documents)
        return lambda terms: np.argsort(-index.get_scores(terms))[:_CANDIDATES]

    return _lexical("rank_bm25", build, count, number)


def with_bm25s(count: int, number: int) -> tuple[Fill, Latency]:
    """bm25s over the same tokens: BM25 alone, built anew whenever a turn is added."""

    def build(documents: list[list[str]]) -> Callable[[list[str]], object]:
        index = bm25s.BM25(method="lucene")
        index.index(documents, show_progress=False)
        most = min(_CANDIDATES, len(documents))
        return lambda terms: index.retrieve([terms], k=most, show_progress=False, n_threads=1)

    return _lexical("bm25s", build, count, number)


def _index(store: MemoryStore, settings: Settings, count: int) -> float:
    """Index turns, and return the seconds that took without making and embedding them."""
    embedder = _Timed()
    indexer = Indexer(store, embedder, settings.retrieval)
    source, seconds = turns(count), 0.0
    while batch := list(islice(source, _AT_ONCE)):
        started = perf_counter()
        indexer.index_turns(batch)
        seconds += perf_counter() - started
    return seconds - embedder.seconds


def _hybrid(store: MemoryStore, settings: Settings, count: int) -> Callable[[str], float]:
    embedder = _Timed()
    retriever = Retriever(store, embedder, settings.retrieval)
    (last,) = store.newest(TURNS, Where(USER, kind="turn"), 1)
    as_of = parse_time(last.payload["created_at"]) + timedelta(minutes=1)

    def ask(text: str) -> float:
        embedded, started = embedder.seconds, perf_counter()
        found = retriever.search(Query(text, USER, as_of, k=10, lane="turns"))
        seconds = perf_counter() - started - (embedder.seconds - embedded)
        assert len(found) == min(10, count)
        return seconds

    return ask


@contextmanager
def _plain_shard(count: int) -> Iterator[engine.EdgeShard | None]:
    """The same turns in a shard with the engine's own settings: whole vectors, one text index. None where too many."""
    if count > _MOST_PLAIN:
        yield None
        return
    embedder, source = TopicEmbedder(), turns(count)
    update = engine.UpdateOperation
    with tempfile.TemporaryDirectory(prefix="neuralstream-plain-") as folder:
        vector = engine.EdgeVectorParams(size=DIM, distance=engine.Distance.Cosine)
        shard = engine.EdgeShard.create(f"{folder}/shard", engine.EdgeConfig(vectors={VECTOR_TEXT: vector}))
        shard.update(update.create_field_index("user_id", engine.KeywordIndexParams(is_tenant=True)))
        tokens = engine.TextIndexParams(tokenizer=engine.TokenizerType.Whitespace, lowercase=False, scoring=True)
        shard.update(update.create_field_index(TERMS_DATED, tokens))
        while batch := list(islice(source, _AT_ONCE)):
            rows = embedder.embed_documents([turn.text for turn in batch]).tolist()
            points = [
                engine.Point(
                    turn_point_id(USER, turn.turn_id),
                    {VECTOR_TEXT: row},
                    {"user_id": USER, TERMS_DATED: " ".join(turn_heading_terms(turn) + turn_terms(turn))},
                )
                for turn, row in zip(batch, rows, strict=True)
            ]
            shard.update(update.upsert_points(points))
        yield shard
        shard.close()


def _fusion(shard: engine.EdgeShard) -> Callable[[str], float]:
    """Reciprocal rank fusion of dense and BM25, 200 each, under the user's filter, as the engine's manual shows it."""
    embedder = TopicEmbedder()
    user = engine.Filter(must=[engine.FieldCondition("user_id", match=engine.MatchValue(USER))])

    def ask(text: str) -> float:
        vector, terms = embedder.embed_query(text).tolist(), " ".join(analyse(text))
        signals = (engine.Query.Nearest(vector, VECTOR_TEXT), engine.TextQuery(TERMS_DATED, terms))
        prefetches = [engine.Prefetch(_CANDIDATES, query=signal, filter=user) for signal in signals]
        started = perf_counter()
        fusion: Any = engine.Fusion.Rrf(60)  # the package's types do not know that it is a Fusion
        shard.query(engine.QueryRequest(limit=10, query=fusion, prefetches=prefetches))
        return perf_counter() - started

    return ask


def _lexical(
    name: str, build: Callable[[list[list[str]]], Callable[[list[str]], object]], count: int, number: int
) -> tuple[Fill, Latency]:
    source, started = list(turns(count)), perf_counter()
    ask = build([turn_heading_terms(turn) + turn_terms(turn) for turn in source])
    filled, seconds = perf_counter() - started, []
    for text in questions(count, number + _WARM_UP):
        started = perf_counter()
        ask(analyse(text))
        seconds.append(perf_counter() - started)
    return Fill(count, filled, _peak_mb()), Latency(name, 0.0, seconds[_WARM_UP:], _peak_mb())


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
