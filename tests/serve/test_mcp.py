"""The MCP server, asked by the official client: in this process, and over HTTP."""

import asyncio
import subprocess
import sys
import threading

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from neuralstream import NeuralStream, Settings, Turn
from neuralstream.errors import MissingPartError
from neuralstream.serve.http import create_app
from neuralstream.serve.mcp import make_server
from neuralstream.testing import FakeClock, FakeEmbedder

TOOLS = {
    "recent_conversations",
    "search_memory",
    "semantic_search",
    "recall",
    "conversation_thread",
    "themes",
    "remember",
    "forget",
}
TOKENS = {"alice": "a" * 32, "bob": "b" * 32}


def fill(memory, clock):
    """Three days of two sessions, a turn a day in one and three in the other."""
    for day, (text, reply) in enumerate([("Move redis to port 6381", "Done."), ("And staging?", "It stays on 6379.")]):
        clock.advance(86_400 if day else 60)
        memory.capture(Turn.exchange(text, reply, session_id="redis", turn_id=f"redis-{day}"))
    clock.advance(86_400)
    for number, (who, text) in enumerate([("Ann", "Who owns billing?"), ("Ben", "Mira."), ("Ann", "Thanks.")]):
        clock.advance(60)
        memory.capture(Turn.utterance(who, text, session_id="chat", turn_id=f"chat-{number}"))


def open_memory(folder, clock, **settings):
    """A memory in a folder of its own, with a small deterministic embedder."""
    chosen = Settings(home=folder / "home", cache_dir=folder / "cache", worker="inline", **settings)
    return NeuralStream(chosen, clock=clock, embedder=FakeEmbedder())


@pytest.fixture(scope="module")
def clock():
    """Noon of a day in 2026; it moves when told to."""
    return FakeClock("2026-03-01T12:00:00Z")


@pytest.fixture(scope="module")
def memory(tmp_path_factory, clock):
    """A memory of two conversations, for calls that change nothing."""
    with open_memory(tmp_path_factory.mktemp("mcp"), clock) as opened:
        fill(opened, clock)
        yield opened


@pytest.fixture
def own(tmp_path):
    """The same for calls that change it."""
    moved = FakeClock("2026-03-01T12:00:00Z")
    with open_memory(tmp_path, moved) as opened:
        fill(opened, moved)
        yield opened


async def ask_server(server, name, arguments):
    """One call, framed as over any transport."""
    async with Client(server, mode="legacy") as client:
        return await client.call_tool(name, arguments)


@pytest.fixture
def ask(memory, clock):
    """Call a tool on the shared memory; the structured result, of which the text holds the same."""

    def call(name, **arguments):
        result = asyncio.run(ask_server(make_server(memory, clock=clock), name, arguments))
        assert not result.is_error, result.content
        return result.structured_content

    return call


@pytest.fixture
def refused(memory, clock):
    """Call a tool that is to fail; what the model reads."""

    def call(name, **arguments):
        result = asyncio.run(ask_server(make_server(memory, clock=clock), name, arguments))
        assert result.is_error
        (content,) = result.content
        assert "Traceback" not in content.text
        return content.text

    return call


@pytest.fixture
def tools(memory):
    """The tools, as a client lists them."""

    async def listed():
        async with Client(make_server(memory)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    return asyncio.run(listed())


def test_every_tool_has_schemas_and_says_when_to_use_it(tools):
    """Typed arguments and results, a description of each argument, and hints on what changes something."""
    assert tools.keys() == TOOLS
    for tool in tools.values():
        assert tool.output_schema["type"] == "object"
        assert all(
            "description" in shown for name, shown in tool.input_schema["properties"].items() if name != "importance"
        )
        assert tool.annotations.read_only_hint == (tool.name not in {"remember", "forget"})
    assert tools["forget"].annotations.destructive_hint
    lately = tools["recent_conversations"].description
    assert all(word in lately for word in ("recent", "lately", "this week", "summarise our conversations"))
    assert "recent_conversations" in tools["search_memory"].description


def test_logging_stays_as_the_program_has_it():
    """Making a server gives the root logger no handler, though the SDK would."""
    code = "import logging; from neuralstream.serve.mcp import make_server; make_server(None)"
    code += "; print(logging.getLogger().handlers, logging.getLogger().level == logging.WARNING)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[] True\n"


def test_no_tool_takes_the_name_of_a_user(tools, refused):
    """Whose memory it is comes from the connection; an argument for it is refused, not ignored."""
    for tool in tools.values():
        assert not [name for name in tool.input_schema["properties"] if "user" in name]
        assert "no argument user_id" in refused(tool.name, user_id="bob")


def test_recent_conversations_are_exchanges_newest_first(ask):
    """Question and answer with date, session, place and ids; utterances are paired."""
    found = ask("recent_conversations")["exchanges"]
    assert [(one["q"], one["a"]) for one in found] == [
        ("Ann: Thanks.", ""),
        ("Ann: Who owns billing?", "Ben: Mira."),
        ("And staging?", "It stays on 6379."),
        ("Move redis to port 6381", "Done."),
    ]
    assert found[1] | {"q": "", "a": ""} == {
        "q": "",
        "a": "",
        "created_at": "2026-03-03T12:03:00Z",
        "session_id": "chat",
        "index": 0,
        "turn_ids": ["chat-0", "chat-1"],
    }
    assert ask("recent_conversations", limit=2)["exchanges"] == found[:2]


@pytest.mark.parametrize(
    ("bounds", "sessions"),
    [
        ({"since": "1d"}, ["chat", "chat"]),
        ({"since": "2026-03-02"}, ["chat", "chat", "redis"]),
        ({"since": "2026-03-02T12:01:30Z"}, ["chat", "chat"]),
        ({"until": "2026-03-02"}, ["redis", "redis"]),
        ({"since": "36h", "until": "30 h"}, []),
        ({"since": ""}, ["chat", "chat", "redis", "redis"]),
    ],
)
def test_a_span_is_an_age_a_day_or_a_moment(ask, bounds, sessions):
    """Ages count back from now; a day that ends a span is in it to its last moment."""
    assert [one["session_id"] for one in ask("recent_conversations", **bounds)["exchanges"]] == sessions


def test_search_finds_turns_with_ids_and_dates(ask):
    """Hits by subject, bounded by time and session where that is asked for."""
    best = ask("search_memory", query="redis port", limit=3)["hits"][0]
    assert (best["id"], best["kind"], best["session_id"], best["index"]) == ("redis-0", "turn", "redis", 0)
    assert best["created_at"] == "2026-03-01T12:01:00Z"
    assert not ask("search_memory", query="redis", since="1d", session_id="redis")["hits"]
    assert "redis-0" in [hit["id"] for hit in ask("semantic_search", query="Move redis to port 6381")["hits"]]


def test_recall_gives_the_fenced_block_and_its_sources(ask):
    """The text to read, within the budget, and what it was made of."""
    block = ask("recall", query="which port does redis use?", budget_tokens=200)
    assert "untrusted history" in block["text"]
    assert "6381" in block["text"]
    assert 0 < block["tokens"] <= 200
    assert "redis-0" in [source["id"] for source in block["sources"]]


def test_a_thread_is_read_in_pages_and_in_full(ask):
    """From an index on, and where to go on."""
    first = ask("conversation_thread", session_id="chat", limit=2)
    assert [turn["messages"][0] for turn in first["turns"]] == [
        {"speaker": "Ann", "text": "Who owns billing?"},
        {"speaker": "Ben", "text": "Mira."},
    ]
    assert (first["total_turns"], first["next_index"]) == (3, 2)
    rest = ask("conversation_thread", session_id="chat", from_index=2)
    assert ([turn["turn_id"] for turn in rest["turns"]], rest["next_index"]) == (["chat-2"], None)


def test_themes_show_examples(own):
    """A subject that comes up again has its size, its span and typical turns."""
    words = {"boiler": "boiler cellar plumber heating valve", "sailing": "sailing harbour mast regatta anchor"}
    said = [
        Turn.utterance("Ana", " ".join((words[subject].split() * 2)[place % 5 :][:4]), session_id=subject)
        for place in range(12)
        for subject in words
    ]
    own.capture_all(said)
    themes = asyncio.run(ask_server(make_server(own), "themes", {"limit": 2})).structured_content["themes"]
    assert {theme["examples"][0]["session_id"] for theme in themes} == words.keys()
    assert all(theme["turns"] >= 5 for theme in themes)


def test_what_is_remembered_is_found_and_can_be_forgotten(own):
    """The id that remember gives is the one that forget takes, and forget says what it removed."""

    async def talk():
        async with Client(make_server(own), mode="legacy") as client:
            kept = await client.call_tool("remember", {"text": "Mira prefers tea.", "tags": ["preference"]})
            found = await client.call_tool("search_memory", {"query": "tea", "tags": ["preference"]})
            gone = await client.call_tool("forget", {"gem_id": kept.structured_content["gem_id"]})
            return kept, found, gone

    kept, found, gone = (result.structured_content for result in asyncio.run(talk()))
    assert kept["content"] == "Mira prefers tea."
    assert [hit["id"] for hit in found["hits"]] == [kept["gem_id"]]
    assert gone | {"turns": 0} == {
        "kind": "gem",
        "id": kept["gem_id"],
        "text": "Mira prefers tea.",
        "turns": 0,
        "gems": 1,
        "proved": True,
    }
    assert not own.gems()


def test_forgetting_a_conversation_says_how_much_went(own):
    """Its turns are gone, those of others stay."""
    gone = asyncio.run(ask_server(make_server(own), "forget", {"session_id": "chat"})).structured_content
    assert (gone["kind"], gone["turns"], gone["proved"]) == ("session", 3, True)
    assert {hit.item.session_id for hit in own.recent()} == {"redis"}


def test_long_texts_are_cut_in_listings_only(own):
    """A turn of 10,000 characters does not fill the model's context, and can be read in full."""
    own.capture(Turn.exchange("Log?", "x" * 10_000, session_id="long"))
    server = make_server(own)
    listed = asyncio.run(ask_server(server, "recent_conversations", {})).structured_content["exchanges"]
    (cut,) = [one for one in listed if one["session_id"] == "long"]
    assert len(cut["a"]) == 2000
    assert cut["a"].endswith("[…]")
    whole = asyncio.run(ask_server(server, "conversation_thread", {"session_id": "long"})).structured_content
    assert len(whole["turns"][0]["messages"][1]["text"]) == 10_000


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("recent_conversations", {"since": "the other day"}, "write an age such as 12h, 7d or 2w"),
        ("recent_conversations", {"since": "last week"}, "is not a time"),
        ("recent_conversations", {"limit": 0}, "limit: Input should be greater than or equal to 1, got '0'"),
        ("recent_conversations", {"days": 7}, "it takes limit, since, until"),
        ("search_memory", {}, "query: Field required"),
        ("search_memory", {"query": "x", "tags": ["idea"]}, "'preference'"),
        ("conversation_thread", {"session_id": "nope"}, "recent_conversations and search_memory give a session_id"),
        ("remember", {"text": " "}, "nothing to remember"),
        ("forget", {}, "exactly one of gem_id and session_id"),
        ("forget", {"gem_id": "0" * 36, "session_id": "chat"}, "exactly one of gem_id and session_id"),
        ("forget", {"gem_id": "not-an-id"}, "nothing was removed"),
        ("forget", {"session_id": "nope"}, "nothing was removed"),
        ("search", {"query": "x"}, "there are recent_conversations, search_memory"),
    ],
)
def test_an_error_names_the_way_out(refused, name, arguments, told):
    """What a model reads says what to do next, in the tools' own terms."""
    message = refused(name, **arguments)
    assert told in message
    assert "errors.pydantic.dev" not in message


@pytest.mark.parametrize(
    ("name", "arguments", "way_out"),
    [
        ("recent_conversations", {"since": "a" * 100_000}, "write an age"),
        ("conversation_thread", {"session_id": "a" * 100_000}, "give a session_id"),
        ("themes", {"a" * 100_000: 1}, "it takes since"),
        ("a" * 100_000, {}, "there are recent_conversations"),
    ],
)
def test_an_error_does_not_repeat_a_long_value(refused, name, arguments, way_out):
    """It would fill the model's context; how it began and the way out are left."""
    told = refused(name, **arguments)
    assert "aaaa … aaaa" in told
    assert way_out in told
    assert len(told) < 1200


def test_a_part_that_is_down_is_told_and_a_crash_is_not(memory, monkeypatch):
    """Errors raised on purpose keep their message; the text of a bug stays in the log."""
    server = make_server(memory)
    monkeypatch.setattr(type(memory), "search", raising(MissingPartError("qdrant is down: start it")))
    result = asyncio.run(ask_server(server, "search_memory", {"query": "x"}))
    assert (result.is_error, result.content[0].text) == (True, "qdrant is down: start it")
    monkeypatch.setattr(type(memory), "search", raising(KeyError("secret")))
    result = asyncio.run(ask_server(server, "search_memory", {"query": "x"}))
    assert result.is_error
    assert "secret" not in result.content[0].text


def raising(error):
    """A function that raises it."""

    def call(*_, **__):
        raise error

    return call


def test_the_prompt_has_the_fetched_turns_inside_a_fence(memory, clock):
    """The exchanges of the span, oldest first, as untrusted history, with what to make of them."""

    async def prompts():
        async with Client(make_server(memory, clock=clock)) as client:
            (listed,) = (await client.list_prompts()).prompts
            found = await client.get_prompt(listed.name, {"since": "12h", "limit": "10"})
            none = await client.get_prompt(listed.name, {"since": "1m"})
            with pytest.raises(MCPError, match="write an age"):
                await client.get_prompt(listed.name, {"since": "soon"})
            with pytest.raises(MCPError, match="limit: Input should be"):
                await client.get_prompt(listed.name, {"limit": "0"})
            return listed, found.messages[0].content.text, none.messages[0].content.text

    clock.advance(600)
    listed, text, none = asyncio.run(prompts())
    assert listed.name == "summarise_recent_themes"
    assert "untrusted history" in text
    assert text.index("[chat #0] Tue 2026-03-03 12:03\n  Q: Ann: Who owns billing?\n  A: Ben: Mira.") < text.index(
        "Thanks"
    )
    assert "redis" not in text.split("untrusted history")[1]
    assert "no conversation" in none


# Over HTTP.


async def over_http(app, token, talk):
    """What `talk` makes of a client of the service; the service runs meanwhile."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, headers=headers) as http,
        Client(streamable_http_client("http://127.0.0.1:7711/mcp", http_client=http)) as client,
    ):
        return await talk(client)


def test_over_http_a_token_gives_its_user_and_nobody_else(tmp_path):
    """No tool shows or changes anything of another user, whatever it is asked."""
    clock = FakeClock("2026-03-01T12:00:00Z")
    with open_memory(tmp_path, clock, serve={"tokens": TOKENS}) as memory:
        for user in TOKENS:
            memory.capture(Turn.exchange(f"The word is {user}", "Noted.", session_id=user, turn_id=user, user_id=user))
        secret = memory.remember("The word is alice, she said", user_id="alice")
        calls = {
            "recent_conversations": {},
            "search_memory": {"query": "the word is alice"},
            "semantic_search": {"query": "the word is alice"},
            "recall": {"query": "the word is alice"},
            "conversation_thread": {"session_id": "alice"},
            "themes": {},
            "remember": {"text": "Bob likes tea."},
            "forget": {"gem_id": secret.gem_id},
        }

        async def walk(client):
            assert {tool.name for tool in (await client.list_tools()).tools} == calls.keys()
            answers = [await client.call_tool(name, arguments) for name, arguments in calls.items()]
            return answers, await client.get_prompt("summarise_recent_themes")

        answers, prompt = asyncio.run(over_http(create_app(memory), TOKENS["bob"], walk))
        for answer in answers:
            assert "The word is alice" not in f"{answer.content} {answer.structured_content}"
        assert "alice" not in prompt.messages[0].content.text
        recent = answers[0].structured_content["exchanges"]
        assert [one["session_id"] for one in recent] == ["bob"]
        assert memory.gem(secret.gem_id, user_id="alice")
        assert [gem.content for gem in memory.gems(user_id="bob")] == ["Bob likes tea."]


def test_over_http_nothing_is_told_without_a_token(tmp_path):
    """The guard stands before MCP too, and the service can be started again."""
    with open_memory(tmp_path, FakeClock("2026-03-01T12:00:00Z"), serve={"tokens": TOKENS}) as memory:
        app = create_app(memory)

        async def post():
            async with (
                app.router.lifespan_context(app),
                httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http,
            ):
                return await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

        assert asyncio.run(post()).status_code == 401


def test_over_http_without_tokens_it_is_the_settings_user(tmp_path):
    """On this machine, where nobody asks for a token."""
    with open_memory(tmp_path, FakeClock("2026-03-01T12:00:00Z"), user_id="me") as memory:
        memory.capture(Turn.exchange("Hi", "Hello.", session_id="s", user_id="me"))

        async def recent(client):
            return await client.call_tool("recent_conversations", {})

        found = asyncio.run(over_http(create_app(memory), None, recent))
        assert [one["q"] for one in found.structured_content["exchanges"]] == ["Hi"]


def test_over_http_a_tool_has_the_time_of_a_request_and_is_timed(tmp_path, monkeypatch):
    """A slow one is answered with what to do, and holds up nothing; both are in the latency metrics."""
    go_on = threading.Event()
    with open_memory(tmp_path, FakeClock("2026-03-01T12:00:00Z"), serve={"timeout": "1s"}) as memory:
        memory.capture(Turn.exchange("Hi", "Hello.", session_id="s"))
        monkeypatch.setattr(memory, "search", lambda *_, **__: go_on.wait(30))
        app = create_app(memory)

        async def walk(client):
            slow = await client.call_tool("search_memory", {"query": "redis"})
            quick = await client.call_tool("recent_conversations", {})
            go_on.set()
            return slow, quick

        slow, quick = asyncio.run(over_http(app, None, walk))
    assert slow.is_error
    assert "search_memory: no answer within 1 s" in slow.content[0].text
    assert not quick.is_error
    for tool in ("search_memory", "recent_conversations"):
        assert f'neuralstream_tool_seconds_count{{tool="{tool}"}} 1.0' in app.state.service.metrics.render().decode()
