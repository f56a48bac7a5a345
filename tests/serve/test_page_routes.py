import pytest
from fastapi.testclient import TestClient

from neuralstream.serve.http import create_app
from neuralstream.stream import NeuralStream
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Turn


@pytest.fixture
def memory(settings):
    """A memory that works inside each call."""
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def client(memory):
    """Asks the service, from this machine."""
    with TestClient(create_app(memory), base_url="http://localhost") as opened:
        yield opened


def talk(memory, count, *, session_id="s1", user_id="ada"):
    """Capture turns that a gem is made of, their ids counting from 0."""
    for number in range(count):
        memory.capture(
            Turn.exchange(
                f"We decided to move service {number} to port 70{number:02}.",
                "Noted.",
                session_id=session_id,
                user_id=user_id,
                turn_id=f"{user_id}-{session_id}-{number}",
            )
        )


def test_a_session_is_cut_where_a_trigger_had_it_distilled(client, memory):
    """Each piece names its trigger and holds the gems of its turns; what none has taken comes last, without."""
    talk(memory, 6)
    memory.end_session("s1", reason="compaction", user_id="ada")
    talk(memory, 7)
    batches = client.get("/v1/timeline/s1?user_id=ada").json()["batches"]
    assert [(batch["trigger"], len(batch["turns"])) for batch in batches] == [
        ("batch", 5), ("compaction", 1), (None, 1)
    ]  # fmt: skip
    for batch in batches[:2]:
        ids = {turn["turn_id"] for turn in batch["turns"]}
        assert batch["gems"]
        assert all(ids.issuperset(gem["source_turns"]) for gem in batch["gems"])
    assert batches[2]["gems"] == []


def test_a_gem_that_was_replaced_stays_in_the_timeline(client, memory):
    """A correction is shown beside what it corrected."""
    talk(memory, 5)
    gem = memory.gems(user_id="ada")[0]
    memory.correct(gem.gem_id, "The service stays where it is.", user_id="ada")
    (batch,) = client.get("/v1/timeline/s1?user_id=ada").json()["batches"]
    statuses = {one["content"]: one["status"] for one in batch["gems"]}
    assert statuses[gem.content] == "superseded"
    assert statuses["The service stays where it is."] == "active"


def test_a_session_of_another_user_has_no_timeline(client, memory):
    """It is as unknown as one that never was."""
    talk(memory, 1)
    assert client.get("/v1/timeline/s1?user_id=bob").status_code == 404


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/style.css"])
def test_nothing_of_the_page_may_come_from_elsewhere_or_turn_text_into_markup(client, path):
    """Every file says so itself."""
    answer = client.get(path)
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_no_other_file_is_served(client):
    """A path that leads out of the page's folder is unknown."""
    assert client.get("/page/..%2f..%2fserve%2fpage.py").status_code == 404
