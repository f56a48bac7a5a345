"""The client of the HTTP service, against a running one: what goes in comes out as from the memory itself."""

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream import (
    InputError,
    MissingPartError,
    NeuralStream,
    NeuralStreamClient,
    NotFoundError,
    Part,
    Turn,
    Usage,
)
from neuralstream.errors import ExtractionError
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor, serving

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def memory(settings):
    """A memory that works inside each call."""
    with NeuralStream(settings, clock=FakeClock(NOW), embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def client(memory):
    """A client of a service of that memory."""
    with serving(memory) as url, NeuralStreamClient(url) as opened:
        yield opened


def turns(session, count, **fields):
    """Turns of a session, a minute apart, that the extractor finds something in."""
    return [
        Turn.exchange(
            f"We decided that service {number} of {session} listens on port {7000 + number}.",
            "Noted.",
            session_id=session,
            turn_id=f"{session}-{number}",
            created_at=NOW - timedelta(hours=1) + timedelta(minutes=number),
            **fields,
        )
        for number in range(count)
    ]


def test_every_question_is_answered_as_by_the_memory_itself(memory, client):
    """Search, recent, thread, themes, context, gems, a gem and its history are equal, signals included."""
    assert client.capture_all(turns("s/1", 6)) == 6
    gem_id = memory.gems()[0].gem_id
    over_http, at_home = (one.search("port of service 3", k=3, explain=True) for one in (client, memory))
    assert [hit.item for hit in over_http] == [hit.item for hit in at_home]
    # The last digit of a sum is not the same each time.
    assert [hit.signals for hit in over_http] == [pytest.approx(hit.signals, abs=1e-12) for hit in at_home]
    assert client.search("service", tags=["decision"], lane="gems", since=NOW - timedelta(hours=2), mode="bm25")
    assert client.recent(4) == memory.recent(4)
    assert client.recent(3, kind="gem", session_id="s/1") == memory.recent(3, kind="gem", session_id="s/1")
    assert client.thread("s/1") == memory.thread("s/1")
    assert client.thread("unknown") == []
    assert client.themes(limit=3) == memory.themes(limit=3)
    asked = {"session_id": "s/1", "window": [], "budget_tokens": 300}
    assert client.context("service port", **asked).text == memory.context("service port", **asked).text
    assert client.gems(tags=["decision"]) == memory.gems(tags=["decision"])
    assert client.gem(gem_id[:8]) == memory.gem(gem_id)
    assert client.history(gem_id) == memory.history(gem_id)


def test_a_turn_arrives_as_it_was_sent(memory, client):
    """Parts with speakers, the time, where it was read; the service gives it its index."""
    sent = Turn(
        (Part("person", "Tea is better.", "Mira"), Part("tool", "kettle: on")),
        "kitchen",
        turn_id="k-1",
        created_at=NOW,
        time_estimated=True,
        source="log#1",
    )
    assert client.capture(sent)
    assert not client.capture(sent)
    (kept,) = memory.thread("kitchen")
    assert kept.to_dict() == sent.to_dict() | {"index": 0}


def test_gems_are_remembered_corrected_and_forgotten(memory, client):
    """What changes memory changes it, and the answers are the core's own types."""
    gem = client.remember("Otto drinks tea.", tags=["preference"], topics=["tea"], importance=0.6)
    assert memory.gem(gem.gem_id) == gem
    newer = client.correct(gem.gem_id, "Otto drinks coffee.")
    assert newer.supersedes == (gem.gem_id,)
    done = client.forget(gem_id=newer.gem_id)
    assert done.gems == 1
    assert done.proved
    with pytest.raises(NotFoundError, match="no gem"):
        client.gem(newer.gem_id)


def test_usage_and_session_end_make_turns_due(memory, client):
    """What a host reports reaches the triggers."""
    client.capture_all(turns("s1", 2) + turns("s2", 1))
    assert client.turn_end("s1", Usage(tokens=60, context_window=100), turn_id="s1-1")
    assert not client.turn_end("s2", None)
    assert memory.status().undistilled == 1
    client.end_session("s2", reason="compaction")
    assert memory.status().undistilled == 0


def test_dead_letters_are_read_and_tried_again(settings):
    """A batch that failed comes with its reason and its turns, and is queued again."""
    answers = [ExtractionError("too strange"), ()]

    def script(_batch):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    settings = settings.model_copy(update={"buffer": settings.buffer.model_copy(update={"max_attempts": 1})})
    with (
        NeuralStream(
            settings, clock=FakeClock(NOW), embedder=FakeEmbedder(), extractor=ScriptedExtractor(script)
        ) as held,
        serving(held) as url,
        NeuralStreamClient(url) as client,
    ):
        client.capture_all(turns("s1", 5))
        assert client.dead_letters() == held.dead_letters()
        assert [letter.reason for letter in client.dead_letters()] == ["too strange"]
        assert client.retry_dead_letters() == 1
        assert client.dead_letters() == []


def test_a_client_speaks_for_its_user(memory, client):
    """Turns of the default user are the client's; a call may name another."""
    with NeuralStreamClient(str(client._http.base_url), user_id="mira") as hers:
        hers.capture_all(turns("s1", 1))
        assert [turn.user_id for turn in memory.thread("s1", user_id="mira")] == ["mira"]
        assert len(hers.recent()) == 1
        assert hers.recent(user_id="otto") == []
        assert hers.forget(user_id="mira").turns == 1
        assert hers.recent() == []


def test_errors_are_the_memory_s_own(client):
    """The class and the message that the core raised; and what to do where nobody answers."""
    with pytest.raises(InputError, match=r"nothing to remember|empty"):
        client.remember("  ")
    with pytest.raises(InputError, match=r"got the str 'hello'; Turn\.exchange"):
        client.capture("hello")
    with pytest.raises(InputError, match=r"got '52'; write Usage"):
        client.turn_end("s1", 52)
    with pytest.raises(InputError, match=r"body\.tags"):
        client.search("x", tags=["nonsense"])
    with (
        NeuralStreamClient("http://127.0.0.1:9") as nobody,
        pytest.raises(MissingPartError, match="neuralstream serve"),
    ):
        nobody.recent()
    with pytest.raises(InputError, match="neither http"):
        NeuralStreamClient("localhost:7711")


def test_it_has_the_memory_s_methods_and_arguments():
    """Either can stand where the other is expected: same names, same arguments."""
    methods = {name for name, value in vars(NeuralStreamClient).items() if inspect.isfunction(value) and name[0] != "_"}
    methods.remove("user_status")  # of one user; NeuralStream.status counts everybody's
    for name in methods:
        mine, theirs = (
            inspect.signature(getattr(kind, name)).parameters for kind in (NeuralStreamClient, NeuralStream)
        )
        assert list(mine) == list(theirs), name
    asked = {name for name in dir(NeuralStream) if name[0] != "_" and inspect.isfunction(getattr(NeuralStream, name))}
    left_to_the_service = {"tick", "flush", "export", "restore", "reindex", "status"}
    assert asked - methods == left_to_the_service
