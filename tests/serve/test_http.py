"""The routes: what they take, what they answer, and how they fail."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient

from neuralstream import ContextOverflowError, ExtractionError, MissingPartError, NeuralStream, StoreError, Turn
from neuralstream.serve.http import create_app
from neuralstream.serve.metrics import Metrics, open_memory
from neuralstream.serve.models import GemOut, TurnOut
from neuralstream.testing import FakeClock, FakeEmbedder
from neuralstream.types import Gem

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return FakeClock(NOW)


@pytest.fixture
def memory(settings, clock):
    """A memory that works inside each call."""
    with NeuralStream(settings, clock=clock, embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def http(memory):
    """Asks the service, from this machine."""
    with TestClient(create_app(memory), base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def turn(session, number, **fields):
    """A turn the extractor finds a decision in, as it is sent."""
    return {
        "session_id": session,
        "turn_id": f"{session}-{number}",
        "user": f"We decided that Mira runs redis {number} on port {7000 + number}.",
        "assistant": "Noted.",
        "created_at": (NOW - timedelta(minutes=60 - number)).isoformat(),
    } | fields


def send(http, session, count, **fields):
    """Capture turns of a session."""
    return http.post("/v1/turns", json={"turns": [turn(session, number, **fields) for number in range(count)]})


def error(response):
    """Status and type of an error, which has a message."""
    told = response.json()["error"]
    assert told["message"]
    return response.status_code, told["type"]


def test_turns_are_kept_once_in_the_order_they_are_sent(http):
    """Sent again, a turn is known and nothing changes; each is told by its id."""
    assert send(http, "s1", 3).json() == {
        "new": 3,
        "turns": [{"turn_id": f"s1-{number}", "new": True} for number in range(3)],
    }
    again = send(http, "s1", 4).json()
    assert [told["new"] for told in again["turns"]] == [False, False, False, True]
    found = http.get("/v1/recent").json()["hits"]
    assert [hit["id"] for hit in found] == ["s1-3", "s1-2", "s1-1", "s1-0"]


def test_a_turn_without_id_and_time_gets_both(http):
    """A random id, and now."""
    body = {"turns": [{"session_id": "s1", "parts": [{"role": "person", "text": "Tea?", "speaker": "Mira"}]}]}
    (kept,) = http.post("/v1/turns", json=body).json()["turns"]
    (hit,) = http.get("/v1/recent").json()["hits"]
    assert hit["turn"]["turn_id"] == kept["turn_id"]
    assert datetime.fromisoformat(hit["turn"]["created_at"]) == NOW
    assert hit["turn"]["parts"] == [{"role": "person", "text": "Tea?", "speaker": "Mira"}]


def test_sessions_are_listed_read_and_ended(http):
    """Slashes in an id are fine; what is left is distilled when it ends."""
    send(http, "agent:main/1", 2)
    send(http, "other", 1, created_at=NOW.isoformat())
    listed = http.get("/v1/sessions").json()["sessions"]
    assert [(row["session_id"], row["turns"], row["undistilled"]) for row in listed] == [
        ("other", 1, 1),
        ("agent:main/1", 2, 2),
    ]
    assert http.post("/v1/sessions/agent:main%2F1/end", json={"reason": "reset"}).json() == {"queued": 2}
    assert http.post("/v1/sessions/other/end").json() == {"queued": 1}
    thread = http.get("/v1/sessions/agent:main/1").json()
    assert [one["turn_id"] for one in thread["turns"]] == ["agent:main/1-0", "agent:main/1-1"]
    assert {gem["source"]["session_id"] for gem in thread["gems"]} == {"agent:main/1"}
    assert error(http.get("/v1/sessions/nowhere")) == (404, "NotFoundError")


def test_crossing_the_threshold_fires_once(http):
    """Usage as a percent or as tokens of a window; unknown usage fires nothing."""
    send(http, "s1", 2)
    ends = [{"percent": 20}, None, {"tokens": 60, "context_window": 100}, {"percent": 70}]
    fired = [http.post("/v1/turn_end", json={"session_id": "s1", "usage": usage}).json()["fired"] for usage in ends]
    assert fired == [False, False, True, False]
    assert http.get("/v1/gems").json()["gems"]


def test_search_and_context_find_what_was_sent(http):
    """With the score of every signal; the block is fenced, and leaves out what the context still holds."""
    send(http, "s1", 6)
    hits = http.post("/v1/search", json={"query": "redis 3 port", "lane": "turns", "k": 2, "explain": True}).json()[
        "hits"
    ]
    assert hits[0]["id"] == "s1-3"
    assert len(hits[0]["signals"]) > 3
    block = http.post("/v1/context", json={"query": "redis port", "window": ["s1-5"]}).json()
    assert block["text"].startswith("<neuralstream-memory")
    assert 0 < block["tokens"] <= 1500
    assert "s1-5" not in {hit["id"] for hit in block["hits"]}


def test_filters_reach_the_search(http):
    """Since, until, session and tags are obeyed."""
    send(http, "s1", 6)
    send(http, "s2", 6)
    narrow = {"query": "redis", "k": 50, "session_id": "s2", "until": turn("s2", 2)["created_at"], "lane": "turns"}
    found = http.post("/v1/search", json=narrow).json()["hits"]
    assert {hit["id"] for hit in found} == {"s2-0", "s2-1", "s2-2"}
    assert http.post("/v1/search", json={"query": "redis", "tags": ["todo"], "lane": "gems"}).json() == {"hits": []}


def test_a_gem_is_read_with_its_turns_and_corrected_on_record(http):
    """Eight digits name it; the corrected version is the newer of two."""
    send(http, "s1", 5)
    gem = http.get("/v1/gems", params={"tag": ["decision", "fact"]}).json()["gems"][0]
    told = http.get(f"/v1/gems/{gem['gem_id'][:8]}").json()
    assert told["gem"] == gem
    assert [one["turn_id"] for one in told["turns"]] == gem["source_turns"]
    assert told["versions"] is None
    new = http.patch(f"/v1/gems/{gem['gem_id']}", json={"content": "Redis runs nowhere."}).json()
    assert new["supersedes"] == [gem["gem_id"]]
    versions = http.get(f"/v1/gems/{new['gem_id']}", params={"history": True}).json()["versions"]
    assert [version["gem"]["content"] for version in versions][-1] == "Redis runs nowhere."
    assert len(http.get("/v1/gems", params={"status": "any"}).json()["gems"]) > len(http.get("/v1/gems").json()["gems"])
    assert error(http.patch("/v1/gems/nothing", json={"content": "x"})) == (404, "NotFoundError")


def test_forgetting_names_one_thing_and_proves_it(http):
    """A gem by DELETE; a session, a date or everything by POST; nothing named, or two, is refused."""
    gem = http.post("/v1/remember", json={"text": "Otto drinks tea.", "tags": ["preference"]}).json()
    assert http.delete(f"/v1/gems/{gem['gem_id']}").json()["proved"]
    assert error(http.get(f"/v1/gems/{gem['gem_id']}")) == (404, "NotFoundError")
    send(http, "s1", 2)
    for body in ({}, {"session_id": "s1", "everything": True}):
        assert error(http.post("/v1/forget", json=body)) == (422, "InputError")
    done = http.post("/v1/forget", json={"session_id": "s1"}).json()
    assert (done["turns"], done["proved"]) == (2, True)
    assert all(done["checks"].values())


def test_an_entity_is_shown_with_what_surrounds_it(http):
    """The gems and turns that name it, in any casing, and what is named beside it."""
    send(http, "s1", 6)
    found = http.get("/v1/entities/MIRA").json()
    assert len(found["turns"]) == 6
    assert found["turns"][0]["turn_id"] == "s1-5"
    assert any("7003" in row["name"] or "redis" in row["name"] for row in found["neighbours"])
    assert error(http.get("/v1/entities/nobody")) == (404, "NotFoundError")


def test_themes_and_status_are_the_user_s(http):
    """Only the user's own turns count."""
    send(http, "s1", 6)
    send(http, "s2", 3, user_id="otto", turn_id=None)
    assert http.get("/v1/themes").json()["themes"]
    assert http.get("/v1/themes", params={"user_id": "nobody"}).json() == {"summary": "", "themes": []}
    mine, otto = (http.get("/v1/status", params={"user_id": user}).json() for user in ("default", "otto"))
    assert (mine["turns"], mine["sessions"]) == (6, 1)
    assert (otto["turns"], otto["undistilled"], otto["dead_letters"]) == (3, 3, 0)


def test_what_cannot_be_used_is_named(http):
    """The place in the body, a misspelt name, an unknown route, and JSON that is none."""
    response = http.post("/v1/search", json={"query": "x", "kk": 3, "mode": "psychic"})
    assert error(response) == (422, "InputError")
    assert "there is no kk here" in response.json()["error"]["message"]
    response = http.post("/v1/search", json={"query": "x", "mode": "psychic"})
    assert error(response) == (422, "InputError")
    assert "body.mode" in response.json()["error"]["message"]
    both = {"turns": [{"session_id": "s1", "user": "x", "parts": [{"role": "user", "text": "y"}]}]}
    assert error(http.post("/v1/turns", json=both)) == (422, "InputError")
    assert error(http.post("/v1/search", content=b"{", headers={"content-type": "application/json"})) == (
        422,
        "InputError",
    )
    assert error(http.get("/v1/nothing"))[0] == 404
    assert error(http.post("/v1/recent"))[0] == 405


def test_an_id_of_another_session_is_refused(http):
    """The core's own message comes through."""
    send(http, "s1", 1)
    response = send(http, "s2", 1, turn_id="s1-0")
    assert error(response) == (422, "InputError")
    assert "s1-0" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (MissingPartError("the store is down"), 503),
        (StoreError("no room"), 507),
        (ExtractionError("nonsense"), 502),
        (ContextOverflowError("too long"), 502),
        (RuntimeError("secret of the implementation"), 500),
    ],
)
def test_each_error_has_its_status(http, memory, monkeypatch, raised, status):
    """And its class; one that nobody foresaw tells nothing of its message."""

    def search(*_args, **_kwargs):
        raise raised

    monkeypatch.setattr(memory, "search", search)
    response = http.post("/v1/search", json={"query": "x"})
    foreseen = status != 500
    assert error(response) == (status, type(raised).__name__ if foreseen else "InternalError")
    assert (str(raised) in response.text) is foreseen


def test_a_slow_answer_ends_with_a_timeout_and_hosts_report_meanwhile(settings, clock):
    """All threads hang in a search: those who ask are told in time, and hosts report meanwhile."""
    serve = settings.serve.model_copy(update={"timeout": timedelta(seconds=0.5), "threads": 1})
    with NeuralStream(settings.model_copy(update={"serve": serve}), clock=clock, embedder=FakeEmbedder()) as memory:
        hanging, go_on = threading.Event(), threading.Event()

        def search(*_args, **_kwargs):
            hanging.set()
            go_on.wait(30)
            return []

        memory.search = search
        with TestClient(create_app(memory), base_url="http://localhost") as http:
            try:
                assert error(http.post("/v1/search", json={"query": "x"})) == (504, "Timeout")
                assert hanging.is_set()
                waiting = http.get("/v1/recent")
                assert error(waiting) == (504, "Timeout")
                assert "nothing was done" in waiting.json()["error"]["message"]
                assert http.post("/v1/turn_end", json={"session_id": "s1"}).json() == {"fired": False}
            finally:
                go_on.set()


def test_health_tells_whether_the_parts_answer(http, memory, monkeypatch):
    """The first while the process lives; the second names the part that is down."""
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"buffer": True, "store": True}

    def down():
        raise MissingPartError("redis://:password@somewhere does not answer")

    assert metric(http, "neuralstream_ready") == 1
    monkeypatch.setattr(type(memory.parts.buffer), "version", lambda _: down())
    response = http.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"buffer": False, "store": True})
    monkeypatch.setattr(memory, "status", down)
    assert metric(http, "neuralstream_ready") == 0
    assert metric(http, "neuralstream_requests_total", route="/readyz") == 1
    assert http.get("/healthz").status_code == 200


def metric(http, name, **labels):
    """A metric's value, 0 where there is none."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    for line in http.get("/metrics").text.splitlines():
        if line.startswith((f"{name} ", f"{name}{{")) and all(label in line for label in wanted):
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def test_metrics_add_up(settings, clock):
    """Turns new and known, batches by trigger, gems, lag, queries by mode, answers by route."""
    metrics = Metrics()
    with (
        open_memory(settings, metrics, clock=clock, embedder=FakeEmbedder()) as memory,
        TestClient(create_app(memory, metrics=metrics), base_url="http://localhost") as http,
    ):
        send(http, "s1", 7)
        send(http, "s1", 8)
        http.post("/v1/turn_end", json={"session_id": "s1", "usage": {"percent": 60}})
        send(http, "s2", 3)
        http.post("/v1/sessions/s2/end", json={"reason": "compaction"})
        send(http, "s3", 2)
        for mode in ("bm25", "bm25", "semantic"):
            http.post("/v1/search", json={"query": "redis", "mode": mode})
        http.get("/v1/sessions/nowhere")
        assert metric(http, "neuralstream_turns_captured_total", result="new") == 13
        assert metric(http, "neuralstream_turns_captured_total", result="known") == 7
        triggers = {name: metric(http, "neuralstream_batches_total", trigger=name, result="distilled")
                    for name in ("batch", "context", "compaction", "idle")}  # fmt: skip
        assert triggers == {"batch": 1, "context": 1, "compaction": 1, "idle": 0}
        assert metric(http, "neuralstream_batches_done") == 3
        assert metric(http, "neuralstream_lag_turns", stage="distil") == 2
        assert metric(http, "neuralstream_lag_turns", stage="index") == 0
        assert metric(http, "neuralstream_stored", kind="turns") == 13
        assert metric(http, "neuralstream_gems_distilled_total") >= metric(http, "neuralstream_stored", kind="gems") > 0
        assert metric(http, "neuralstream_query_seconds_count", mode="bm25") == 2
        assert metric(http, "neuralstream_capture_seconds_count") == 4
        missed = {"method": "GET", "route": "/v1/sessions/{session_id:path}", "status": "404"}
        assert metric(http, "neuralstream_requests_total", **missed) == 1
        for made_up in ("BREW", "WHEN", "X" * 60):
            http.request(made_up, "/v1/search")
        assert metric(http, "neuralstream_requests_total", method="other") == 3
        assert "BREW" not in http.get("/metrics").text


def test_the_documented_shapes_are_the_core_s():
    """A field that turns or gems gain is told over HTTP too."""
    assert set(GemOut.model_fields) == set(Gem.__slots__)
    assert set(TurnOut.model_fields) == set(Turn.exchange("a", "b", session_id="s").to_dict())


def test_every_route_is_documented_and_typed(http):
    """docs/http.md has a row for each, and OpenAPI a schema for each answer."""
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    paths = http.get("/openapi.json").json()["paths"]
    assert len(paths) >= 16
    for path, methods in paths.items():
        for method, operation in methods.items():
            written = path.replace("{session_id}", "{id}").replace("{gem_id}", "{id}")
            assert f"`{method.upper()} {written}`" in page, path
            (schema,) = operation["responses"]["200"]["content"].values()
            assert "$ref" in schema["schema"], path


@pytest.mark.parametrize(
    ("method", "path", "sent", "told"),
    [
        (
            "POST",
            "/v1/search",
            {"json": {"query": "redis", "limit": 3}},
            "body: there is no limit here, but user_id, query,",
        ),
        (
            "POST",
            "/v1/turns",
            {"json": {"session_id": "s", "user": "a"}},
            "there is no session_id, user here, but turns",
        ),
        ("POST", "/v1/turns", {"json": {"turns": [turn("s", 1, text="a")]}}, "body.turns.0: there is no text here"),
        (
            "POST",
            "/v1/turns",
            {"content": '{"turns": ', "headers": JSON},
            "the body is no JSON: Expecting value at character 10",
        ),
        ("POST", "/v1/turns", {"data": {"user": "a"}}, "with the header Content-Type: application/json"),
        ("GET", "/v1/recent?n=3", {}, "/v1/recent has no n in its query; it takes limit, since,"),
        ("POST", "/v1/search?user_id=ada", {"json": {"query": "redis"}}, "what it takes goes into the body"),
        ("GET", "/v1/nothing", {}, "GET /v1/nothing; /openapi.json and docs/http.md list the routes"),
        ("GET", "/v1/search", {}, "Method Not Allowed: GET /v1/search"),
    ],
)
def test_a_wrong_request_is_told_what_it_may_hold(http, method, path, sent, told):
    """By the names that are known there, so that nobody has to look them up."""
    answer = http.request(method, path, **sent)
    assert answer.status_code in {404, 405, 422}
    assert told in answer.json()["error"]["message"]


def test_turns_before_a_refused_one_are_kept(http, memory):
    """As docs/http.md says: what follows is not, and all may be sent again."""
    send(http, "s1", 1)
    mixed = [turn("s2", 1), turn("s2", 2, turn_id="s1-0"), turn("s2", 3)]
    assert http.post("/v1/turns", json={"turns": mixed}).status_code == 422
    assert [kept.turn_id for kept in memory.thread("s2")] == ["s2-1"]
    mixed[1] = turn("s2", 2)
    assert http.post("/v1/turns", json={"turns": mixed}).json()["new"] == 2
