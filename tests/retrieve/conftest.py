"""A small memory on the real engine; each test is a user of its own."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.config import RetrievalSettings
from neuralstream.indexing import Indexer, fingerprint
from neuralstream.retrieve import Query, Retriever
from neuralstream.store.edge import EdgeStore
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Gem, Source, Turn

START = datetime(2026, 5, 1, tzinfo=UTC)


class Memory:
    """What one user said, a day apart, and questions to it."""

    def __init__(self, store, embedder, **settings) -> None:
        self.store = store
        self.embedder = embedder
        ranking = {name: settings.pop(name) for name in ("bm25_k1", "bm25_b", "weights") if name in settings}
        self.settings = RetrievalSettings(people=ranking, **settings)
        self.ranking = self.settings.people
        self.user_id = uuid.uuid4().hex
        self.indexer = Indexer(store, embedder, self.settings)
        self.graph = None
        self.now = START + timedelta(days=365)

    def turn(self, index: int, text: str, *, session_id: str = "s", speaker: str = "Ada", user_id: str | None = None):
        """A captured turn, `index` days after the start."""
        return Turn.utterance(
            speaker,
            text,
            session_id=session_id,
            turn_id=f"{session_id}{index}",
            user_id=user_id or self.user_id,
            index=index,
            created_at=START + timedelta(days=index),
        )

    def say(self, *texts: str, session_id: str = "s", user_id: str | None = None) -> list[Turn]:
        """Index turns of one session."""
        turns = [self.turn(at, text, session_id=session_id, user_id=user_id) for at, text in enumerate(texts)]
        self.indexer.index_turns(turns)
        return turns

    def distil(self, content: str, *cited: int, day: int | None = None, **fields) -> Gem:
        """Index a gem that cites turns of session s."""
        sources = tuple(f"s{index}" for index in cited)
        gem = Gem(
            gem_id=Gem.make_id(self.user_id, "s", sources, content),
            content=content,
            source=Source("s", "2026-05-01", f"{min(cited)}-{max(cited)}"),
            source_turns=sources,
            created_at=START + timedelta(days=max(cited) if day is None else day),
            user_id=self.user_id,
            **fields,
        )
        self.indexer.index_gems([gem])
        return gem

    def search(self, text: str, **fields):
        """Hits of a query, by default of everything in hybrid mode a year later."""
        query = Query(text, fields.pop("user_id", self.user_id), fields.pop("as_of", self.now), **fields)
        return Retriever(self.store, self.embedder, self.settings, self.graph).search(query)

    def ids(self, text: str, **fields) -> list[str]:
        """The ids of the hits."""
        return [hit.id for hit in self.search(text, **fields)]


@pytest.fixture(scope="session")
def engine(tmp_path_factory):
    """One store of the real engine for all tests of this folder."""
    opened = EdgeStore(tmp_path_factory.mktemp("retrieve"), fingerprint(FakeEmbedder()))
    yield opened
    opened.close()


@pytest.fixture
def memory(engine) -> Memory:
    """An empty memory."""
    return Memory(engine, FakeEmbedder())


@pytest.fixture
def memory_with(engine):
    """An empty memory with settings of its own."""
    return lambda **settings: Memory(engine, FakeEmbedder(), **settings)
