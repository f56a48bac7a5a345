"""Who is answered: tokens and their users, web pages, names, sizes; and that nobody sees another's memory."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from neuralstream import NeuralStream, Settings, SettingsError, Turn
from neuralstream.serve.auth import Tokens, refuse_an_open_door
from neuralstream.serve.http import create_app
from neuralstream.testing import FakeClock, FakeEmbedder

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MIRA, OTTO = "mira-token-0123456789", "otto-token-0123456789"
SECRET = "marzipan"
"""A word that only Otto said."""


def serve_with(settings, **serve):
    """Settings of a service, checked as those of a file are."""
    return Settings(**settings.model_dump() | {"serve": serve})


@pytest.fixture
def both(settings):
    """A memory of two users, each with a token; Otto's turns, gems, themes and a dead letter are there."""
    settings = serve_with(settings, tokens={"mira": MIRA, "otto": OTTO})
    with NeuralStream(settings, clock=FakeClock(NOW), embedder=FakeEmbedder()) as memory:
        for user, thing in (("mira", "tea"), ("otto", SECRET)):
            for number in range(7):
                memory.capture(
                    Turn.exchange(
                        f"We decided that {user.title()} buys {thing} number {number} at Corner Shop.",
                        "Noted.",
                        session_id=f"{user}-{thing}",
                        turn_id=f"{user}-{number}",
                        user_id=user,
                        created_at=NOW - timedelta(minutes=60 - number),
                    )
                )
            memory.remember(f"{user.title()} is fond of {thing}.", user_id=user)
        yield memory


@pytest.fixture
def http(both):
    """Asks without a token, unless a test gives one."""
    with TestClient(create_app(both), base_url="http://memory.example", raise_server_exceptions=False) as client:
        yield client


def by(token):
    """The header that a token is sent in."""
    return {"Authorization": f"Bearer {token}"}


OPEN = {"/", "/healthz", "/readyz", "/openapi.json"}


def operations(http):
    """Method, path and declaration of everything OpenAPI lists, and of what it does not."""
    schema = http.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation, schema


def test_every_route_needs_a_known_token(http):
    """Without one, with a wrong one, with half of one, or in another scheme: 401, and how to send it."""
    paths = {path for _, path, _, _ in operations(http)} | {"/metrics", "/mcp", "/mcp/", "/docs", "/v1/nothing"}
    headers = [{}, by("wrong-token-0123456789"), by(MIRA[:-1]), {"Authorization": f"Basic {MIRA}"}, by("")]
    for path in sorted(paths - OPEN):
        for header in headers:
            for method in ("GET", "POST", "DELETE", "PATCH", "HEAD"):
                answer = http.request(method, path.replace("{", "").replace("}", ""), headers=header)
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
    for path in OPEN:
        assert http.get(path).status_code != 401


def test_an_opened_path_does_not_open_memory(http, monkeypatch):
    """Where a route's path is open by mistake, the route itself still asks for the token."""
    monkeypatch.setattr("neuralstream.serve.auth.OPEN_FOLDER", "/v1/")
    assert http.get("/v1/recent").status_code == 401
    assert http.get("/v1/recent", headers=by(MIRA)).status_code == 200


@pytest.mark.parametrize("host", ["a/page/", "a/page/x?", "a/healthz#", "a/healthz?", "["])
def test_a_host_header_does_not_open_a_path(http, host):
    """What decides is the path that is asked for, not what a URL made of both would say."""
    assert http.get("/v1/recent", headers={"Host": host}).status_code == 401


BODIES = {
    "/v1/turns": {"turns": [{"session_id": "mine", "turn_id": "new", "user": "Hello."}]},
    "/v1/turn_end": {"session_id": "otto-marzipan", "usage": {"percent": 70}},
    "/v1/sessions/{session_id}/end": {},
    "/v1/context": {"query": SECRET, "session_id": "otto-marzipan"},
    "/v1/search": {"query": SECRET, "k": 100, "explain": True},
    "/v1/remember": {"text": "Mira was here."},
    "/v1/forget": {"session_id": "otto-marzipan"},
    "/v1/gems/{gem_id}": {"content": "Mira was here."},
    "/v1/deadletters/retry": None,
}


def test_a_token_gets_nothing_of_another_user(both, http):
    """Every operation of the OpenAPI, asked by Mira about Otto's sessions, gems, entities and words."""
    before = _everything(both, "otto")
    gem_id = both.gems(user_id="otto")[0].gem_id
    names = {"session_id": "otto-marzipan", "gem_id": gem_id, "name": "Otto"}
    asked = 0
    for method, path, operation, _ in operations(http):
        told = {} if method == "GET" else {"json": BODIES.get(path)}
        answer = http.request(method, path.format(**names), params=_widest(operation), headers=by(MIRA), **told)
        assert answer.status_code < 500, (method, path, answer.text)
        _tells_nothing(answer, (method, path), gem_id)
        asked += 1
    assert asked >= 18
    assert _everything(both, "otto") == before


def test_naming_another_user_is_refused(both, http):
    """In a body, in a turn, in the query: 403 on every operation that takes a user, and nothing is done."""
    before = _everything(both, "otto")
    names = {"session_id": "otto-marzipan", "gem_id": both.gems(user_id="otto")[0].gem_id, "name": "Otto"}
    for method, path, operation, schema in operations(http):
        in_query = any(one["name"] == "user_id" for one in operation.get("parameters", ()))
        body = dict(BODIES.get(path) or {})
        if path == "/v1/turns":
            body["turns"] = [{**body["turns"][0], "user_id": "otto"}]
        else:
            assert in_query or _takes_user(operation, schema), (method, path)
            body["user_id"] = "otto"
        told = {"params": {"user_id": "otto"}} if in_query else {"json": body}
        answer = http.request(method, path.format(**names), headers=by(MIRA), **told)
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "Forbidden"), (method, path)
    assert _everything(both, "otto") == before


def test_a_token_sees_its_own_user(http):
    """What is refused to Mira is Otto's to have; his own name may be said."""
    hits = http.post("/v1/search", json={"query": SECRET, "user_id": "otto"}, headers=by(OTTO)).json()["hits"]
    assert hits
    assert {hit[hit["kind"]]["user_id"] for hit in hits} == {"otto"}
    kept = http.post("/v1/turns", json={"turns": [{"session_id": "s", "user": "Hello there."}]}, headers=by(OTTO))
    assert kept.json()["new"] == 1
    assert http.get("/v1/sessions/s", headers=by(OTTO)).json()["turns"][0]["user_id"] == "otto"


def test_metrics_tell_no_names(http):
    """Totals over all users: no user, no session, no text."""
    http.get("/v1/sessions/otto-marzipan", headers=by(OTTO))
    text = http.get("/metrics", headers=by(MIRA)).text
    assert "neuralstream_stored" in text
    assert "otto" not in text
    assert SECRET not in text


def _everything(memory, user):
    """What there is of a user, as JSON."""
    return json.dumps(
        {
            "turns": [hit.item.to_dict() for hit in memory.recent(100, user_id=user)],
            "gems": [gem.to_dict() for gem in memory.gems(status=None, user_id=user)],
            "due": [len(memory.parts.buffer.unplanned(key)) for key in memory.parts.buffer.sessions(user)],
        }
    )


def _widest(operation):
    """Query parameters under which an operation tells the most."""
    widest = {"limit": 200, "history": "true", "status": "any"}
    declared = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
    return {name: min(value, declared[name].get("maximum", value)) if name == "limit" else value
            for name, value in widest.items() if name in declared}  # fmt: skip


def _tells_nothing(answer, asked, gem_id):
    """An answer holds neither Otto's words nor his ids, but for the ones that were asked with."""
    said = answer.text.lower()
    if answer.status_code >= 400:
        # It says which id it did not find.
        said = said.replace("otto-marzipan", "").replace(gem_id, "").replace("'otto'", "")
    for word in (SECRET, "otto"):
        assert word not in said, (asked, said[:300])


def _takes_user(operation, schema):
    """Whether the body has a user_id."""
    content = operation["requestBody"]["content"]["application/json"]["schema"]
    options = [one for one in (content, *content.get("anyOf", ())) if "$ref" in one]
    return any(
        "user_id" in schema["components"]["schemas"][one["$ref"].rsplit("/", 1)[1]]["properties"] for one in options
    )


# Without tokens.


@pytest.fixture
def alone(settings):
    """A service of this machine's user, without tokens."""
    settings = serve_with(settings, allowed_hosts=["agent.internal"], max_request_mb=0.01)
    with (
        NeuralStream(settings, clock=FakeClock(NOW), embedder=FakeEmbedder()) as memory,
        TestClient(create_app(memory), base_url="http://localhost:7711") as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:7711", 200), ("127.0.0.1", 200), ("[::1]:7711", 200), ("app.localhost", 200),
        ("Agent.internal:80", 200), ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.nip.io", 421),
        ("10.0.0.1", 421), ("", 421), ("[", 421),
    ],
)  # fmt: skip
def test_a_name_made_to_point_here_is_refused(alone, host, status):
    """DNS rebinding: the Host header must be this machine's, or named in the settings."""
    assert alone.get("/v1/recent", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200), ("http://localhost:7711", 200), ("http://localhost:3000", 403), ("https://evil.example", 403),
        ("null", 403), ("http://localhost:7711.evil.example", 403),
    ],
)  # fmt: skip
def test_a_page_of_another_site_cannot_ask(alone, origin, status):
    """Cross-site requests are told by their Origin, also those a browser sends without asking first."""
    headers = {} if origin is None else {"Origin": origin}
    assert alone.post("/v1/deadletters/retry", headers=headers).status_code == status
    assert alone.post("/v1/forget", json={"everything": True}, headers=headers).status_code == status


def test_a_body_that_does_not_say_it_is_json_is_refused(alone):
    """A form of another page can only send text."""
    body = json.dumps({"turns": [{"session_id": "s", "user": "planted"}]})
    assert alone.post("/v1/turns", content=body, headers={"Content-Type": "text/plain"}).status_code == 422
    assert alone.get("/v1/recent").json() == {"hits": []}


def test_a_body_that_is_too_large_is_refused(alone):
    """By its length where that is told, else as soon as it is too long."""
    body = json.dumps({"turns": [{"session_id": "s", "user": "x" * 20_000}]}).encode()
    chunks = (body[start : start + 1000] for start in range(0, len(body), 1000))
    headers = {"Content-Type": "application/json"}
    for content in (body, chunks):
        answer = alone.post("/v1/turns", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "TooLarge")
    assert alone.get("/v1/recent").json() == {"hits": []}


# The settings.


def test_beyond_this_machine_a_token_is_needed(settings):
    """It says which setting, and how to make a token."""
    for host in ("0.0.0.0", "::", "192.168.1.5", "memory.example"):
        with pytest.raises(SettingsError, match=r"serve\.tokens.*openssl rand"):
            refuse_an_open_door(serve_with(settings, host=host).serve, Tokens())
        refuse_an_open_door(serve_with(settings, host=host).serve, Tokens([("mira", MIRA)]))
    for host in ("127.0.0.1", "::1", "localhost"):
        refuse_an_open_door(serve_with(settings, host=host).serve, Tokens())


def test_tokens_come_from_settings_and_a_file(settings, tmp_path):
    """A user may have one in each, so that one can be replaced."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'mira = "{MIRA}-new"\notto = "{OTTO}"\n', encoding="utf-8")
    tokens = Tokens.read(serve_with(settings, tokens={"mira": SecretStr(MIRA)}, token_file=file).serve)
    assert [tokens.user(token) for token in (MIRA, f"{MIRA}-new", OTTO, "other")] == ["mira", "mira", "otto", None]
    assert not Tokens.read(settings.serve)


@pytest.mark.parametrize("token", ["short", "has a space 0123456789", "ümlaut-0123456789-abc", ""])
def test_tokens_that_could_be_guessed_are_refused_without_showing_them(settings, token):
    """The message names the user."""
    with pytest.raises(SettingsError, match="'mira'") as refused:
        serve_with(settings, tokens={"mira": token})
    assert not token or token not in str(refused.value)


def test_a_token_stands_for_one_user(settings, tmp_path):
    """Two users with one token are refused, wherever the second one is."""
    with pytest.raises(SettingsError, match="same token"):
        serve_with(settings, tokens={"mira": MIRA, "otto": MIRA})
    file = tmp_path / "tokens.toml"
    file.write_text(f'otto = "{MIRA}"\n', encoding="utf-8")
    with pytest.raises(SettingsError, match="same token"):
        Tokens.read(serve_with(settings, tokens={"mira": MIRA}, token_file=file).serve)


@pytest.mark.parametrize("content", [None, "not toml", "mira = 3\n"])
def test_a_token_file_that_cannot_be_used_is_named(settings, tmp_path, content):
    """Missing, not TOML, or not text."""
    file = tmp_path / "tokens.toml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"tokens\.toml"):
        Tokens.read(serve_with(settings, token_file=file).serve)


def test_tokens_do_not_show(settings):
    """Neither in the settings as text, nor as JSON, nor in what decides a result."""
    settings = serve_with(settings, tokens={"mira": MIRA})
    assert MIRA not in repr(settings)
    assert MIRA not in settings.model_dump_json()
    assert "serve" not in settings.deciding()
