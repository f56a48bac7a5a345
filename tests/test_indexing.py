from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralstream.analysis import analyse
from neuralstream.config import RetrievalSettings
from neuralstream.embed.vectors import mean_of_chunks
from neuralstream.errors import InputError
from neuralstream.indexing import Indexer, fingerprint, texts_of, turn_point_id
from neuralstream.retrieve.documents import STRETCH
from neuralstream.store.base import Where
from neuralstream.store.edge import EdgeStore
from neuralstream.store.schema import (
    GEMS,
    TERMS,
    TERMS_DATED,
    TERMS_NEAR,
    TEXT_FIELDS,
    TURNS,
    VECTOR_CHUNKS,
    VECTOR_NEAR,
    VECTOR_TEXT,
)
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Gem, Part, Source, Turn

START = datetime(2026, 5, 8, 12, tzinfo=UTC)
EMBEDDER = FakeEmbedder()
WORDS = ("redis", "port", "qdrant", "lease", "kettle", "harbour", "violin", "meadow", "quartz", "lantern")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """An empty store of the real engine."""
    opened = EdgeStore(tmp_path_factory.mktemp("store"), fingerprint(EMBEDDER))
    yield opened
    opened.close()


@pytest.fixture
def store(engine):
    """The engine, emptied."""
    for collection in (TURNS, GEMS):
        engine.delete(collection, Where(None, since=START - timedelta(days=9999)))
    return engine


def turn(
    index: int, text: str | None = None, *, session_id: str = "s", user_id: str = "u", speaker: str = "Ada"
) -> Turn:
    """An utterance of session s, a minute apart by index."""
    text = f"{WORDS[index % len(WORDS)]} number {index}" if text is None else text
    when = START + timedelta(minutes=index)
    return Turn.utterance(
        speaker,
        text,
        session_id=session_id,
        user_id=user_id,
        turn_id=f"{session_id}-{index}",
        index=index,
        created_at=when,
    )


def gem(content: str, *indexes: int, status: str = "active", **fields) -> Gem:
    """A gem that cites turns by index."""
    cited = tuple(f"s-{index}" for index in indexes)
    return Gem(
        gem_id=Gem.make_id("u", "s", cited, content),
        content=content,
        source=Source("s", "2026-05-08", f"{min(indexes)}-{max(indexes)}"),
        source_turns=cited,
        created_at=START + timedelta(minutes=max(indexes)),
        user_id="u",
        status=status,
        **fields,
    )


def indexer(store, neighbours: int = 1) -> Indexer:
    """An indexer over the store."""
    return Indexer(store, EMBEDDER, RetrievalSettings(people={"neighbours": neighbours}))


def everything(store, collection=TURNS) -> dict:
    """Every point by id, vectors rounded."""
    return {
        record.id: (dict(record.payload), {name: vector.round(5).tolist() for name, vector in record.vectors.items()})
        for record in store.scroll(collection, Where("u"), with_vectors=True)
    }


def stored(store, turn_id: str):
    """One stored turn with its vectors."""
    (record,) = store.retrieve(TURNS, [turn_point_id("u", turn_id)], with_vectors=True)
    return record


def test_a_turn_is_stored_with_the_fields_every_signal_reads(store):
    """A turn's point names its user, place and time, and holds its tokens alone, with heading, and with neighbours."""
    indexer(store).index_turns([turn(0, "Move it to Harbour Street"), turn(1, "Done"), turn(2, "Thanks, café")])
    payload = stored(store, "s-1").payload
    assert (payload["user_id"], payload["kind"], payload["session_id"], payload["index"]) == ("u", "turn", "s", 1)
    assert payload["created_at"] == "2026-05-08T12:01:00Z"
    assert payload["speakers"] == ["Ada"]
    assert payload[TERMS].split() == analyse("Done")
    assert payload[TERMS_DATED].split() == ["8", "may", "2026", "ada", *analyse("Done")]
    assert payload[TERMS_NEAR].split() == [
        token for text in ("Move it to Harbour Street", "Done", "Thanks, café") for token in analyse(text)
    ]
    assert Turn.from_dict(payload["data"]) == turn(1, "Done")
    assert stored(store, "s-0").payload["entities"] == ["harbour street", "harbour", "street"]


def test_near_vector_is_the_direction_of_the_neighbours_mean(store):
    """The vector of a neighbourhood is the normalised sum of its turns' vectors; the text's is the embedder's own."""
    turns = [turn(index) for index in range(4)]
    indexer(store).index_turns(turns)
    vectors = EMBEDDER.embed_documents([text for one in turns for text in texts_of(one)])
    total = vectors[0] + vectors[1] + vectors[2]
    found = stored(store, "s-1").vectors
    assert np.allclose(found[VECTOR_TEXT], vectors[1], atol=1e-5)
    assert np.allclose(found[VECTOR_NEAR], total / np.linalg.norm(total), atol=1e-5)


def test_a_long_text_has_a_vector_for_each_chunk(store):
    """Chunks are kept beside their mean; a text within the window is one vector, and needs none of its own."""
    long = " ".join(f"word{number}" for number in range(600))
    indexer(store).index_turns([turn(0, "short"), turn(1, long)])
    assert "chunks" not in stored(store, "s-0").vectors
    (expected,) = EMBEDDER.embed_chunks([f"Ada: {long}"])
    assert len(expected) > 1
    assert np.allclose(stored(store, "s-1").vectors["chunks"], expected, atol=1e-5)
    assert np.allclose(stored(store, "s-1").vectors[VECTOR_TEXT], mean_of_chunks(expected), atol=1e-5)


def test_the_parts_of_an_exchange_are_signals_of_their_own(store):
    """The user's part has a vector and tokens, the reply tokens; where one person speaks there are none."""
    said = {"session_id": "x", "turn_id": "x-0", "user_id": "u", "index": 0, "created_at": START}
    indexer(store).index_turns([Turn.exchange("Move the kettle?", "It stands at pier 9.", **said), turn(0)])
    found = stored(store, "x-0")
    assert found.payload["terms_user"].split() == analyse("Move the kettle?")
    assert found.payload["terms_reply"].split() == analyse("It stands at pier 9.")
    assert np.allclose(found.vectors["user"], EMBEDDER.embed_documents(["Move the kettle?"])[0], atol=1e-5)
    assert (found.payload["role"], found.payload["question"], found.payload["digits"]) == ("exchange", 1.0, True)
    assert {"terms_user", "terms_reply"}.isdisjoint(stored(store, "s-0").payload)
    assert "user" not in stored(store, "s-0").vectors


def test_a_turn_knows_the_one_before_it_whatever_came_first(store):
    """`before` names the turn one place earlier in the session, also when that one is indexed later."""
    indexer(store).index_turns([turn(1)])
    assert "before" not in stored(store, "s-1").payload
    indexer(store, neighbours=0).index_turns([turn(0)])
    assert stored(store, "s-1").payload["before"] == turn_point_id("u", "s-0")
    store.delete(TURNS, Where("u", ids=(turn_point_id("u", "s-0"),)))
    indexer(store).refresh("u", "s")
    assert "before" not in stored(store, "s-1").payload


@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=8), neighbours=st.integers(0, 2), again=st.booleans())
def test_batches_of_any_size_end_as_the_same_points(engine, cuts, neighbours, again):
    """One go, turn by turn, in batches, again, or by a new indexer after a restart: the points are the same."""
    turns = [turn(index) for index in range(sum(cuts))]
    engine.delete(TURNS, Where("u"))
    indexer(engine, neighbours).index_turns(turns)
    in_one_go = everything(engine)
    engine.delete(TURNS, Where("u"))
    at = 0
    for size in cuts:
        indexer(engine, neighbours).index_turns(turns[at : at + size])
        at += size
    if again:
        indexer(engine, neighbours).index_turns(turns[: cuts[0]])
    assert everything(engine) == in_one_go


def test_sessions_and_users_are_not_each_others_neighbours(store):
    """A neighbourhood ends at the session's and the user's border."""
    mixed = [
        turn(0),
        turn(0, "violin", session_id="t"),
        turn(1, "meadow", user_id="v"),
        turn(1, "quartz", session_id="t"),
    ]
    indexer(store).index_turns(mixed)
    assert stored(store, "s-0").payload[TERMS_NEAR] == "redi number 0"
    assert stored(store, "t-0").payload[TERMS_NEAR].split() == analyse("violin") + analyse("quartz")


def test_a_stretch_holds_at_most_64_turns(store):
    """A session's tokens lie in stretches of 64 turns, so indexing a turn costs no more in a long session."""
    indexer(store).index_turns([turn(index) for index in range(STRETCH + 2)])
    indexer(store).index_turns([turn(STRETCH + 2)])
    stretches = sorted(store.scroll(TURNS, Where("u", kind="session")), key=lambda one: one.payload["index"])
    assert [one.payload["index"] for one in stretches] == [0, STRETCH]
    assert stretches[1].payload["terms_session"].split().count("number") == 3
    assert stretches[1].payload["created_at"] == turn(STRETCH + 2).to_dict()["created_at"]
    assert stretches[0].vectors == {}


def test_a_turn_that_says_nothing_has_no_vector(store):
    """A blank turn is stored, is found by its time and place, and has no vector of its own."""
    blank = Turn((Part("user", " "),), "s", turn_id="blank", user_id="u", index=0, created_at=START)
    indexer(store).index_turns([blank, turn(1)])
    found = stored(store, "blank")
    assert VECTOR_TEXT not in found.vectors
    assert np.allclose(found.vectors[VECTOR_NEAR], stored(store, "s-1").vectors[VECTOR_TEXT], atol=1e-5)
    assert texts_of(blank) == ()


def test_only_what_is_missing_is_embedded(store):
    """`index_missing` leaves stored turns alone."""
    indexer(store).index_turns([turn(0)])
    asked = []

    class Recording(FakeEmbedder):
        def embed_chunks(self, texts):
            asked.extend(texts)
            return super().embed_chunks(texts)

    Indexer(store, Recording(), RetrievalSettings()).index_missing([turn(0), turn(1)])
    assert asked == ["Ada: port number 1"]
    assert stored(store, "s-1").payload[TERMS_NEAR].startswith("redi")


def test_a_turn_that_was_not_captured_is_refused(store):
    """A turn without index or time is an error that says what assigns them."""
    with pytest.raises(InputError, match="no index yet; capture"):
        indexer(store).index_turns([Turn.utterance("Ada", "hi", session_id="s", user_id="u", created_at=START)])
    with pytest.raises(InputError, match="no created_at yet; capture"):
        indexer(store).index_turns([Turn.utterance("Ada", "hi", session_id="s", user_id="u", index=0)])


def test_a_gem_is_stored_with_its_source_and_what_was_said_around(store):
    """A gem's tokens: content and new words of its summary; date, speakers, topics; its turns and their neighbours."""
    indexer(store).index_turns([turn(index) for index in range(6)])
    made = gem("The staging port is 6379", 2, summary="staging moved", topics=("ops",), tags=("decision",))
    indexer(store).index_gems([made])
    (found,) = store.retrieve(GEMS, [made.gem_id], with_vectors=True)
    payload = found.payload
    assert (payload["kind"], payload["status"], payload["tags"], payload["index"]) == ("gem", "active", ["decision"], 2)
    assert payload[TERMS].split()[: len(analyse(made.content))] == analyse(made.content)
    assert "move" in payload[TERMS].split()
    assert payload[TERMS].split().count("stage") == 1
    assert {"8", "may", "2026", "ada", "op"} <= set(payload[TERMS_DATED].split())
    assert "port number 1" in payload[TERMS_NEAR]
    assert "qdrant number 2" in payload[TERMS_NEAR]
    assert "number 3" not in payload[TERMS_NEAR], "a turn after the gem's own time is not known to it"
    assert Gem.from_dict(payload["data"]) == made
    assert set(found.vectors) == {VECTOR_TEXT, VECTOR_NEAR}
    assert texts_of(made) == ("The staging port is 6379",)


def test_turns_know_that_an_active_gem_cites_them(store):
    """Citing covers a turn from the gem's time on, whichever is indexed first; a replaced gem covers its turns too."""
    turns = [turn(index) for index in range(4)]
    made = gem("a decision about the lease", 2, 3)
    indexer(store).index_turns(turns[:3])
    indexer(store).index_gems([made])
    indexer(store).index_turns(turns[2:])
    made_at = made.to_dict()["created_at"]
    covered = [stored(store, f"s-{index}").payload.get("covered_at") for index in range(4)]
    assert covered == [None, None, made_at, made_at]
    indexer(store).index_gems([gem("a decision about the lease", 2, 3, status="superseded")])
    assert stored(store, "s-2").payload.get("covered_at") == made_at


def test_a_gem_is_found_by_the_questions_it_answers(store):
    """Their words are searched and each is a vector more; content, length and the vector of the content stay."""
    indexer(store).index_turns([turn(0)])
    asked = "how long do we wait for stragglers"
    bare, made = (gem("the lease lasts 75 seconds", 0, questions=given) for given in ((), (asked,)))
    seen = []
    for one in (bare, made):
        indexer(store).index_gems([one])
        seen += store.retrieve(GEMS, [one.gem_id], with_vectors=True)
    before, after = seen
    assert "straggler" in after.payload[TERMS].split()
    assert "straggler" in after.payload[TERMS_DATED].split()
    assert before.payload["length"] == after.payload["length"]
    assert np.allclose(before.vectors[VECTOR_TEXT], after.vectors[VECTOR_TEXT])
    assert VECTOR_CHUNKS not in before.vectors
    best = store.dense(GEMS, FakeEmbedder().embed_query(asked), VECTOR_CHUNKS, Where("u", kind="gem"), 1, exact=True)
    assert best[0].score > 0.99
    assert texts_of(made) == (made.content, asked)


def test_refresh_forgets_what_was_deleted_around_a_turn(store):
    """After turns or gems were deleted, refresh leaves no token of them in neighbours, stretches, gems or coverage."""
    turns = [turn(index) for index in range(5)]
    made = gem("meadows are fine", 3)
    indexer(store).index_turns(turns)
    indexer(store).index_gems([made])
    store.delete(TURNS, Where("u", ids=(turn_point_id("u", "s-2"),)))
    store.delete(GEMS, Where("u"))
    indexer(store).refresh("u", "s")
    texts = [payload.get(field, "") for payload, _ in everything(store).values() for field in TEXT_FIELDS]
    assert texts
    assert not any("qdrant" in text for text in texts)
    assert stored(store, "s-3").payload.get("covered_at") is None
    store.delete(TURNS, Where("u", kind="turn"))
    indexer(store).refresh("u", "s")
    assert everything(store) == {}
