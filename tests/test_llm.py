import pytest

from neuralstream.config import LlmSettings, Settings
from neuralstream.errors import MissingPartError
from neuralstream.llm import OllamaModel, make_language_model
from neuralstream.testing import FakeEmbedder, OllamaReply, ScriptedOllama


@pytest.fixture
def server():
    """A scripted server that has qwen3."""
    with ScriptedOllama({"qwen3": FakeEmbedder()}) as running:
        yield running


@pytest.fixture
def connect(server):
    """Open models on the server."""
    opened = []

    def open_model(url=None, **settings):
        opened.append(OllamaModel(url or server.url, "qwen3", LlmSettings(**settings)))
        return opened[-1]

    yield open_model
    for model in opened:
        model.close()


def answer(text):
    """A chat answer as Ollama gives it."""
    return {"message": {"role": "assistant", "content": text}, "done": True}


def test_an_answer_is_the_text_alone(server, connect):
    """White space around it and thinking before it are gone; a model may say nothing."""
    server.script("/api/chat", [answer("  Hello.\n"), answer("<think>\nhm\n</think>\n\nHello."), answer("")])
    model = connect()
    assert [model.complete("hi") for _ in range(3)] == ["Hello.", "Hello.", ""]


def test_every_request_says_how_to_answer(server, connect):
    """Context, length, temperature and seed are always named; the system prompt stands before the user's."""
    server.script("/api/chat", lambda _: answer("ok"))
    connect(num_ctx=4096).complete("hi", system="be brief", max_tokens=7)
    (request,) = server.asked("/api/chat")
    assert request.body["options"] == {"num_ctx": 4096, "num_predict": 7, "temperature": 0, "seed": 0}
    assert [(message["role"], message["content"]) for message in request.body["messages"]] == [
        ("system", "be brief"),
        ("user", "hi"),
    ]
    assert request.body["stream"] is False
    assert request.body["keep_alive"]


@pytest.mark.parametrize(("capabilities", "think"), [(["completion", "thinking"], False), (["completion"], None)])
def test_only_models_that_think_are_told_not_to(server, connect, capabilities, think):
    """Others may refuse the option; what a model can is asked once."""
    server.script("/api/show", lambda _: {"model_info": {}, "capabilities": capabilities})
    server.script("/api/chat", lambda _: answer("ok"))
    model = connect()
    model.complete("hi")
    model.complete("hi")
    assert [request.body.get("think") for request in server.asked("/api/chat")] == [think, think]
    assert len(server.asked("/api/show")) == 1


def test_a_model_that_is_not_there_is_named_with_the_command_that_pulls_it(server, connect):
    """The message says what to run."""
    server.models.clear()
    with pytest.raises(MissingPartError, match="ollama pull qwen3"):
        connect().complete("hi")


def test_a_refusal_carries_the_servers_words(server, connect):
    """Such as a model that does not fit into memory."""
    server.script("/api/chat", [OllamaReply.error("model requires more system memory")])
    with pytest.raises(MissingPartError, match=r"\(500\): model requires more system memory"):
        connect().complete("hi")


def test_a_slow_answer_ends_with_the_setting_that_allows_more(server, connect):
    """No call waits for ever."""
    server.script("/api/chat", [OllamaReply(answer("late"), delay=30)])
    with pytest.raises(MissingPartError, match=r"within 0\.2 s; raise llm\.timeout"):
        connect(timeout=0.2).complete("hi")


@pytest.mark.parametrize("reply", [OllamaReply(drop=True), {"message": "no message"}])
def test_a_server_that_is_down_or_no_ollama_is_a_missing_part(server, connect, reply):
    """Whatever goes wrong on the way is one kind of error."""
    server.script("/api/chat", [reply])
    with pytest.raises(MissingPartError):
        connect().complete("hi")


def test_credentials_reach_the_server_and_no_message(server, connect):
    """The URL's user and password are sent as a header, and an error shows neither."""
    server.script("/api/chat", [answer("ok"), OllamaReply.error("broken")])
    model = connect(server.url.replace("//", "//ada:s3cret@"))
    model.complete("hi")
    assert server.asked("/api/chat")[0].headers["authorization"].startswith("Basic ")
    with pytest.raises(MissingPartError) as raised:
        model.complete("hi")
    assert "s3cret" not in str(raised.value)


def test_settings_name_the_model(server):
    """`ollama_url` says where and `gem_model` which; without a server the error says what to set."""
    server.script("/api/chat", [answer("ok")])
    with make_language_model(Settings(ollama_url=server.url)) as model:
        assert (model.name, model.complete("hi")) == ("qwen3", "ok")
    with pytest.raises(MissingPartError, match="set ollama_url"):
        make_language_model(Settings())
