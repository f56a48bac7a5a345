import logging

import pytest

from neuralstream.config import LlmSettings
from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm import Request, ollama
from neuralstream.llm.ollama import OllamaModel
from neuralstream.testing import FakeEmbedder, OllamaReply, ScriptedOllama

HI = Request("hi")


@pytest.fixture
def server():
    """A scripted server that has qwen3."""
    with ScriptedOllama({"qwen3": FakeEmbedder()}) as running:
        yield running


@pytest.fixture
def connect(server):
    """Open models on the server; pauses between tries are recorded, not slept."""
    opened = []

    def open_model(url=None, name="qwen3", **settings):
        pauses = []
        model = OllamaModel(url or server.url, name, LlmSettings(**settings), sleep=pauses.append)
        model.pauses = pauses
        opened.append(model)
        return model

    ollama._recommend_instruct.cache_clear()
    yield open_model
    for model in opened:
        model.close()


def answer(text, **more):
    """A chat answer as Ollama gives it."""
    return {"message": {"role": "assistant", "content": text}, "done": True, **more}


def test_an_answer_is_the_text_alone(server, connect):
    """White space around it and thinking before it are gone; a model may say nothing."""
    server.script("/api/chat", [answer("  Hello.\n"), answer("<think>\nhm\n</think>\n\nHello."), answer("")])
    model = connect()
    assert [model.answer(HI).text for _ in range(3)] == ["Hello.", "Hello.", ""]


def test_an_answer_says_why_it_ended_and_what_it_took(server, connect):
    """The server's counts are taken over, and estimated where it gives none."""
    server.script(
        "/api/chat",
        [answer("[1,", done_reason="length", prompt_eval_count=30, eval_count=512), answer("Hello you")],
    )
    model = connect()
    cut = model.answer(HI)
    assert (cut.finish, cut.prompt_tokens, cut.answer_tokens, cut.recorded) == ("length", 30, 512, False)
    assert cut.seconds > 0
    whole = model.answer(Request("four", system="and four more"))
    assert (whole.finish, whole.prompt_tokens, whole.answer_tokens) == ("stop", 5, 3)


def test_every_request_says_how_to_answer(server, connect):
    """Context, length, temperature and seed are always named; the system prompt stands before the user's."""
    server.script("/api/chat", lambda _: answer("ok"))
    model = connect(num_ctx=4096, temperature=0.5, seed=3, keep_alive="10m")
    schema = {"type": "array", "items": {"type": "string"}}
    model.answer(Request("hi", "be brief", schema, max_tokens=7))
    (request,) = server.asked("/api/chat")
    assert request.body["options"] == {"num_ctx": 4096, "num_predict": 7, "temperature": 0.5, "seed": 3}
    assert [(message["role"], message["content"]) for message in request.body["messages"]] == [
        ("system", "be brief"),
        ("user", "hi"),
    ]
    assert request.body["format"] == schema
    assert request.body["stream"] is False
    assert request.body["keep_alive"] == 600
    model.answer(HI)
    assert "format" not in server.asked("/api/chat")[1].body


@pytest.mark.parametrize(("capabilities", "think"), [(["completion", "thinking"], False), (["completion"], None)])
def test_only_models_that_think_are_told_not_to(server, connect, capabilities, think):
    """Others may refuse the option; what a model can is asked once."""
    server.script("/api/show", lambda _: {"model_info": {}, "capabilities": capabilities})
    server.script("/api/chat", lambda _: answer("ok"))
    model = connect()
    model.answer(HI)
    model.answer(HI)
    assert [request.body.get("think") for request in server.asked("/api/chat")] == [think, think]
    assert len(server.asked("/api/show")) == 1


THOUGHT = {"message": {"role": "assistant", "content": "ok", "thinking": "Hm."}}


@pytest.mark.parametrize(
    ("name", "can", "reply"),
    [
        ("qwen3", ["thinking"], answer("ok")),
        ("qwen3:4b-thinking-2507-q4_K_M", ["thinking"], answer("ok")),
        ("granite:3b", ["thinking"], THOUGHT),
        ("granite:3b", [], answer("Hm.</think>ok")),
    ],
)
def test_a_model_that_thinks_anyway_is_warned_about_once(server, connect, caplog, name, can, reply):  # noqa: PLR0917
    """By its tag, or by what it did; the warning names an instruct tag."""
    server.models[name] = FakeEmbedder()
    server.script("/api/show", lambda _: {"model_info": {}, "capabilities": can})
    server.script("/api/chat", lambda _: reply)
    with caplog.at_level(logging.WARNING, "neuralstream"):
        assert [connect(name=name).answer(HI).text for _ in "12"] == ["ok", "ok"]
    (record,) = caplog.records
    assert "qwen3:4b-instruct" in record.getMessage()


@pytest.mark.parametrize(
    ("name", "can"), [("qwen3:4b-instruct", ["thinking"]), ("granite:3b", ["thinking"]), ("qwen3", [])]
)
def test_a_model_that_need_not_think_is_not_warned_about(server, connect, caplog, name, can):
    """An instruct tag, another model that can be told not to, a qwen3 whose server knows no thinking."""
    server.models[name] = FakeEmbedder()
    server.script("/api/show", lambda _: {"model_info": {}, "capabilities": can})
    server.script("/api/chat", lambda _: answer("ok"))
    with caplog.at_level(logging.WARNING, "neuralstream"):
        assert connect(name=name).answer(HI).text == "ok"
    assert not caplog.records


def test_a_prompt_that_does_not_fit_is_not_sent(server, connect):
    """Prompt and longest answer share the context, which is the smaller of the setting's and the model's own."""
    server.script("/api/chat", lambda _: answer("ok"))
    model = connect(num_ctx=4096)
    assert model.context_tokens == 4096
    model.answer(Request("x" * 4 * 3584))
    with pytest.raises(ContextOverflowError, match=r"about 3585 tokens and an answer of 512 exceed.*4096; raise llm\."):
        model.answer(Request("x" * (4 * 3584 + 1)))
    server.context_length = 2048
    small = connect(num_ctx=4096)
    assert small.context_tokens == 2048
    with pytest.raises(ContextOverflowError, match="2048"):
        small.answer(Request("x" * 4 * 1600))
    assert len(server.asked("/api/chat")) == 1


def test_a_prompt_that_the_server_cut_is_noticed(server, connect):
    """Its count of what it read tells, although it answers as if nothing had happened."""
    server.script("/api/chat", [answer("ok", prompt_eval_count=2050, eval_count=3)])
    with pytest.raises(ContextOverflowError, match="2050 tokens of a prompt of about 3500"):
        connect(num_ctx=4096).answer(Request("word " * 2800))


def test_a_prompt_that_the_server_refuses_as_too_long_is_an_overflow(server, connect):
    """Some versions say so themselves."""
    server.script("/api/chat", [OllamaReply.error("the input length exceeds the context length", 400)])
    with pytest.raises(ContextOverflowError, match=r"\(400\).*raise llm\.num_ctx"):
        connect().answer(HI)


def test_a_transport_fault_is_tried_again(server, connect):
    """Faults are outlasted with growing pauses."""
    server.script("/api/chat", [OllamaReply(drop=True), OllamaReply.error("loading model", 503), answer("ok")])
    model = connect(tries=3)
    assert model.answer(HI).text == "ok"
    assert model.pauses == [0.5, 1.0]


def test_tries_are_few(server, connect):
    """A server that keeps dropping the connection is reported as missing, after `llm.tries` calls."""
    server.script("/api/chat", lambda _: OllamaReply(drop=True))
    with pytest.raises(MissingPartError, match="no Ollama server answers"):
        connect(tries=2).answer(HI)
    assert len(server.asked("/api/chat")) == 2


def test_a_model_that_is_not_there_is_named_with_the_command_that_pulls_it(server, connect):
    """The message says what to run."""
    server.models.clear()
    with pytest.raises(MissingPartError, match="ollama pull qwen3"):
        connect().answer(HI)


def test_a_refusal_carries_the_servers_words(server, connect):
    """Such as a model that does not fit into memory; it is not asked again."""
    server.script("/api/chat", [OllamaReply.error("model requires more system memory")])
    model = connect()
    with pytest.raises(MissingPartError, match=r"\(500\): model requires more system memory"):
        model.answer(HI)
    assert model.pauses == []


def test_a_slow_answer_ends_with_the_setting_that_allows_more(server, connect):
    """No call waits for ever, and none is repeated that took too long."""
    server.script("/api/chat", [OllamaReply(answer("late"), delay=30)])
    model = connect(timeout=0.2)
    with pytest.raises(MissingPartError, match=r"within 0\.2 s; raise llm\.timeout"):
        model.answer(HI)
    assert model.pauses == []


def test_something_else_than_ollama_is_refused(server, connect):
    """A server that answers with other JSON is not taken for Ollama."""
    server.script("/api/chat", [{"message": "no message"}])
    with pytest.raises(MissingPartError, match="something else than Ollama"):
        connect().answer(HI)


def test_credentials_reach_the_server_and_no_message(server, connect):
    """The URL's user and password are sent as a header, and an error shows neither."""
    server.script("/api/chat", [answer("ok"), OllamaReply.error("broken")])
    model = connect(server.url.replace("//", "//ada:s3cret@"))
    model.answer(HI)
    assert server.asked("/api/chat")[0].headers["authorization"].startswith("Basic ")
    with pytest.raises(MissingPartError) as raised:
        model.answer(HI)
    assert "s3cret" not in str(raised.value)
