"""The graph of a user's memory."""

from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.config import RetrievalSettings
from neuralstream.indexing import Indexer, fingerprint, turn_point_id
from neuralstream.retrieve import GraphSignal
from neuralstream.retrieve.graph import MemoryGraph
from neuralstream.store.base import Where
from neuralstream.store.edge import EdgeStore
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Gem, Source, Turn

START = datetime(2026, 5, 1, 9, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    store = EdgeStore(tmp_path / "store", fingerprint(FakeEmbedder()))
    yield store
    store.close()


@pytest.fixture
def indexer(store):
    """Fills it."""
    return Indexer(store, FakeEmbedder(), RetrievalSettings())


@pytest.fixture
def graph(store):
    """What is tested."""
    return MemoryGraph(store, RetrievalSettings())


def said(session, *texts, user_id="u", first=0, days=0):
    """A session's turns, a minute apart."""
    return [
        Turn.utterance(
            "Ana" if number % 2 else "Bo",
            text,
            session_id=session,
            turn_id=f"{session}-{number}",
            user_id=user_id,
            index=number,
            created_at=START + timedelta(days=days, minutes=number),
        )
        for number, text in enumerate(texts, first)
    ]


def made(content, *source_turns, **fields):
    """A gem of session s1."""
    return Gem(
        Gem.make_id("u", "s1", source_turns, content),
        content,
        Source("s1", "2026-05-01", "0-0"),
        source_turns,
        START + timedelta(days=1),
        user_id="u",
        **fields,
    )


def point(turn_id, user_id="u"):
    """The id of a turn's point."""
    return turn_point_id(user_id, turn_id)


CHAT = said(
    "s1",
    "The boiler in the cellar leaks again.",
    "Then call the same man as last year.",
    "Lunch was soup and bread.",
    "The train was late this morning.",
    "My sister paints birds.",
) + said("s2", "Football on Sunday?", "Rain is forecast.", days=1)


def test_it_is_the_signal_that_search_asks_for(graph):
    """The seam of retrieval."""
    assert isinstance(graph, GraphSignal)


def test_what_holds_the_words_comes_first_and_what_stands_beside_it_next(graph, indexer):
    """A turn that shares no word with the query is found through its neighbour."""
    indexer.index_turns(CHAT)
    activation = graph.activate("u", "where does the boiler leak?")
    ranked = sorted(activation, key=activation.get, reverse=True)
    assert ranked[:2] == [point("s1-0"), point("s1-1")]
    assert all(score > 0 for score in activation.values())


def test_a_gem_and_its_source_turn_activate_each_other(graph, indexer):
    """What the gem says in other words leads to the turn, and the turn's words to the gem."""
    gem = made("Heating needs a plumber.", "s1-0", topics=("home repairs",))
    indexer.index_turns(CHAT)
    indexer.index_gems([gem])
    by_gem = graph.activate("u", "heating plumber")
    assert max(by_gem, key=by_gem.get) == gem.gem_id
    assert max((p for p in by_gem if p != gem.gem_id), key=by_gem.get) == point("s1-0")
    by_turn = graph.activate("u", "cellar")
    assert by_turn[gem.gem_id] > by_turn.get(point("s1-3"), 0)


def test_names_of_several_words_link_what_mentions_them(graph, indexer):
    """A topic is followed as a whole, in any casing."""
    gems = [
        made("Gutter cleaned.", topics=("home repairs",)),
        made("Window fixed.", topics=("Home Repairs",)),
        made("Repairs of the car are done, back at home."),
    ]
    indexer.index_gems(gems)
    activation = graph.activate("u", "anything about home repairs")
    assert min(activation[gems[0].gem_id], activation[gems[1].gem_id]) > activation[gems[2].gem_id]


def test_phrases_link_what_says_the_words_together(graph, indexer):
    """Of two turns with the same words, the one leads that has them side by side as the query does."""
    [together], [apart] = said("s3", "Heat exchanger, noon."), said("s4", "Exchanger, heat: noon.")
    indexer.index_turns([*CHAT, together, apart])
    activation = graph.activate("u", "heat exchangers")
    assert activation[point("s3-0")] > 1.05 * activation[point("s4-0")]


def test_nothing_known_gives_nothing(graph, indexer):
    """An empty memory, an empty query, words nobody said."""
    assert graph.activate("u", "boiler") == {}
    indexer.index_turns(CHAT)
    for text in ("", "the of and", "zeppelin", "\ud800"):
        assert graph.activate("u", text) == {}


def test_users_do_not_meet(graph, indexer):
    """Another user's turns neither are found nor change a score."""
    indexer.index_turns(CHAT)
    alone = dict(graph.activate("u", "boiler"))
    indexer.index_turns(said("s1", "My boiler is new.", "A boiler, really?", user_id="u2"))
    assert set(graph.activate("u2", "boiler")) == {point("s1-0", "u2"), point("s1-1", "u2")}
    graph.drop("u")
    assert graph.activate("u", "boiler") == alone


def test_new_turns_and_gems_are_noticed(graph, store, indexer):
    """The graph that grew equals one built at once, to the last digit; also where older turns arrive late."""
    for turn in CHAT[1:]:
        indexer.index_turns([turn])
        graph.activate("u", "boiler")
    indexer.index_turns(CHAT[:1])
    indexer.index_gems([made("Heating needs a plumber.", "s1-0"), made("Bread was eaten.", "s1-2")])
    for text in ("boiler", "plumber bread", "rain in the cellar"):
        grown = graph.activate("u", text)
        assert grown
        assert grown == MemoryGraph(store, RetrievalSettings()).activate("u", text)


def test_growing_reads_only_what_is_new(graph, store, indexer, monkeypatch):
    """One more turn does not read the whole memory again."""
    indexer.index_turns(CHAT)
    graph.activate("u", "boiler")
    indexer.index_turns(said("s3", "The boiler man came.", days=2))
    monkeypatch.setattr(store, "scroll", None)
    assert point("s3-0") in graph.activate("u", "boiler man")


def test_concurrent_sessions_need_no_reading_anew(graph, store, indexer, monkeypatch):
    """A turn that is stored after a later one of another session is new all the same."""
    early, late = said("s3", "The boiler man came."), said("s4", "The boiler is new.", days=3)
    indexer.index_turns(CHAT + late)
    graph.activate("u", "boiler")
    indexer.index_turns(early)
    monkeypatch.setattr(store, "scroll", None)
    assert point("s3-0") in graph.activate("u", "boiler man")


def test_what_is_deleted_is_noticed(graph, store, indexer):
    """By the number of points, also where nobody says so."""
    indexer.index_turns(CHAT)
    indexer.index_gems([made("Heating needs a plumber.", "s1-0")])
    assert point("s1-0") in graph.activate("u", "boiler")
    store.delete(TURNS, Where("u", ids=(point("s1-0"),)))
    assert point("s1-0") not in graph.activate("u", "boiler heating")
    store.delete(GEMS, Where("u", kind="gem"))
    assert graph.activate("u", "plumber") == {}


def test_dropping_reads_anew(graph, store, indexer):
    """A point that was replaced while its number stayed the same counts after `drop`."""
    indexer.index_turns(CHAT)
    graph.activate("u", "boiler")
    store.delete(TURNS, Where("u", ids=(point("s1-0"),)))
    indexer.index_turns(said("s3", "A walrus.", days=2))
    graph.drop("u")
    graph.drop("nobody")
    assert point("s3-0") in graph.activate("u", "walrus")


def test_a_higher_restart_stays_nearer_to_the_words(store, indexer):
    """What a neighbour gets shrinks as the walker returns more often."""
    indexer.index_turns(CHAT)

    def share(restart):
        found = MemoryGraph(store, RetrievalSettings(graph_restart=restart)).activate("u", "boiler leaks")
        return found[point("s1-1")] / found[point("s1-0")]

    assert share(0.8) < share(0.3)


def test_long_turns_do_not_come_first_for_being_long(graph, indexer):
    """Of two turns with the word, the one that is about it leads."""
    long = "The boiler and " + " ".join(f"word{number}" for number in range(300))
    indexer.index_turns(said("s4", long, days=3) + said("s3", "The boiler hums.", days=2) + CHAT[1:])
    activation = graph.activate("u", "boiler")
    assert activation[point("s3-0")] > activation[point("s4-0")]


def test_only_the_graphs_used_last_are_kept(graph, indexer):
    """Many users do not fill the memory."""
    for number in range(12):
        indexer.index_turns(said("s1", "The boiler hums.", user_id=f"u{number}"))
        assert graph.activate(f"u{number}", "boiler")
    assert len(graph._graphs) == 8
    assert graph.activate("u0", "boiler")
