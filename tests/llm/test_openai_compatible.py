import pytest

from neuralstream.config import LlmSettings
from neuralstream.errors import ContextOverflowError, MissingPartError
from neuralstream.llm import Request
from neuralstream.llm.openai_compatible import OpenAICompatibleModel
from neuralstream.testing import OpenAIReply, ScriptedChat, ScriptedOpenAI

PATH = "/v1/chat/completions"
HI = Request("hi")
SCHEMA = {"type": "object", "properties": {"gems": {"type": "array"}}}


@pytest.fixture
def server():
    """A scripted server that has qwen3."""
    with ScriptedOpenAI({"qwen3": ScriptedChat("ok")}) as running:
        yield running


@pytest.fixture
def connect(server):
    """Open models on the server; pauses between tries are recorded, not slept."""
    opened = []

    def open_model(url=None, name="qwen3", api_key=None, **settings):
        pauses = []
        model = OpenAICompatibleModel(
            url or server.url, name, LlmSettings(**settings), api_key=api_key, sleep=pauses.append
        )
        model.pauses = pauses
        opened.append(model)
        return model

    yield open_model
    for model in opened:
        model.close()


def refuse(word, said):
    """A server that refuses requests whose body has a word in it."""
    return lambda request: OpenAIReply.error(said) if word in str(request.body) else None


def test_every_request_says_how_to_answer(server, connect):
    """Model, length, temperature, seed and schema are named; the system prompt stands before the user's."""
    connect(temperature=0.5, seed=3).answer(Request("hi", "be brief", SCHEMA, max_tokens=7))
    (request,) = server.asked(PATH)
    assert request.body == {
        "model": "qwen3",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "seed": 3,
        "max_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
    }


def test_an_answer_says_why_it_ended_and_what_it_took(server, connect):
    """The server's counts are taken over, and estimated where it gives none; thinking and empty content are nothing."""
    server.script(
        PATH,
        [
            OpenAIReply.answer("<think>Hm.</think> [1,", "length", prompt_tokens=30, completion_tokens=512),
            OpenAIReply.answer("Hello you"),
            OpenAIReply.answer(None),
        ],
    )
    model = connect()
    cut, whole, empty = (model.answer(Request("four", system="and four more")) for _ in range(3))
    assert (cut.text, cut.finish, cut.prompt_tokens, cut.answer_tokens) == ("[1,", "length", 30, 512)
    assert (whole.text, whole.finish, whole.prompt_tokens, whole.answer_tokens) == ("Hello you", "stop", 5, 3)
    assert cut.seconds > 0
    assert empty.text == ""


@pytest.mark.parametrize(
    ("refused", "formats"),
    [
        ("json_schema", ["json_schema", "json_object", "json_object"]),
        ("response_format", ["json_schema", "json_object", None, None]),
    ],
)
def test_a_form_that_was_refused_is_not_asked_for_again(server, connect, refused, formats):
    """A schema, else JSON, else what the prompt says."""
    server.script(PATH, refuse(refused, "This response_format type is unavailable now"))
    model = connect()
    assert [model.answer(Request("hi", schema=SCHEMA)).text for _ in "12"] == ["ok", "ok"]
    asked = [request.body.get("response_format", {}).get("type") for request in server.asked(PATH)]
    assert asked == formats
    assert model.answer(HI).text == "ok"


@pytest.mark.parametrize(
    "said",
    [
        "This model does not support response format `json_schema`.",
        "The provided JSON schema contains features not supported by xgrammar.",
        "Failed to initialize samplers: failed to parse grammar",
    ],
)
def test_a_form_is_left_out_however_a_server_says_that_it_cannot(server, connect, said):
    """Groq, vLLM and llama.cpp each say it otherwise."""
    server.script(PATH, refuse("json_schema", said))
    assert connect().answer(Request("hi", schema=SCHEMA)).text == "ok"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model."),
        ("seed", '[{"type": "extra_forbidden", "loc": ["body", "seed"]}]'),
    ],
)
def test_what_a_model_does_not_take_is_left_out(server, connect, name, said):
    """Models that reason choose their temperature themselves, and some servers know no seed; each is refused once."""
    server.script(PATH, refuse(name, said))
    model = connect()
    assert [model.answer(HI).text for _ in "12"] == ["ok", "ok"]
    assert [name in request.body for request in server.asked(PATH)] == [True, False, False]


def test_an_answer_in_parts_is_put_together(server, connect):
    """Thinking that stands beside is left out, and a count that is no number is none."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "o"}, {"type": "text", "text": "k"}]
    server.script(
        PATH, [OpenAIReply({"choices": [{"message": {"content": parts}}], "usage": {"prompt_tokens": "many"}})]
    )
    assert connect().answer(HI).text == "ok"


def test_a_model_that_wants_another_word_for_length_gets_it(server, connect):
    """Newer models of OpenAI's take `max_completion_tokens` only; it is asked for once."""
    server.script(PATH, refuse("max_tokens", "Unsupported parameter: use 'max_completion_tokens' instead."))
    model = connect()
    assert [model.answer(HI).text for _ in "12"] == ["ok", "ok"]
    assert [request.body.get("max_completion_tokens") for request in server.asked(PATH)] == [None, 512, 512]


@pytest.mark.parametrize(
    ("entry", "context"),
    [
        ({"max_model_len": 2048}, 2048),
        ({"meta": {"n_ctx_train": 3000}}, 3000),
        ({"meta": {"n_ctx_train": 32768, "n_ctx": 3000}}, 3000),
        ({"context_length": 131072}, 4096),
        ({}, 4096),
    ],
)
def test_the_context_is_what_the_server_tells_or_the_setting(server, connect, entry, context):
    """Whichever is less, by any of the names servers have for it; asked once."""
    server.script("/v1/models", lambda _: {"data": [{"id": "other", "max_model_len": 9}, {"id": "qwen3", **entry}]})
    model = connect(num_ctx=4096)
    assert [model.context_tokens, model.context_tokens] == [context, context]
    assert len(server.asked("/v1/models")) == 1


@pytest.mark.parametrize("reply", [OpenAIReply.error("not here", 404), {"models": []}, [{"id": "qwen3"}]])
def test_a_server_without_a_list_of_models_is_asked_all_the_same(server, connect, reply):
    """The setting counts then."""
    server.script("/v1/models", lambda _: reply)
    model = connect(num_ctx=4096)
    assert (model.context_tokens, model.answer(HI).text) == (4096, "ok")


def test_a_prompt_that_does_not_fit_is_not_sent(server, connect):
    """Prompt and longest answer share the context."""
    server.context_length = 2048
    with pytest.raises(ContextOverflowError, match="2048"):
        connect().answer(Request("x" * 4 * 1600))
    assert server.asked(PATH) == []


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 4348 tokens",
        "the request exceeds the available context size. try increasing the context size",
    ],
)
def test_a_prompt_that_the_server_refuses_as_too_long_is_an_overflow(server, connect, said):
    """As vLLM and llama.cpp say it."""
    server.script(PATH, [OpenAIReply.error(said)])
    with pytest.raises(ContextOverflowError, match="lower batch_size"):
        connect().answer(HI)


def test_a_prompt_that_the_server_cut_is_noticed(server, connect):
    """Ollama's /v1 knows no num_ctx, and cuts."""
    server.script(PATH, [OpenAIReply.answer("ok", prompt_tokens=2050, completion_tokens=2)])
    with pytest.raises(ContextOverflowError, match="2050 tokens of a prompt of about 3500"):
        connect(num_ctx=8192).answer(Request("word " * 2800))


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_transport_fault_is_tried_again(server, connect, status):
    """Faults are outlasted with growing pauses."""
    server.script(PATH, [OpenAIReply(drop=True), OpenAIReply.error("busy", status)])
    model = connect(tries=3)
    assert model.answer(HI).text == "ok"
    assert model.pauses == [0.5, 1.0]


def test_tries_are_few(server, connect):
    """A server that keeps dropping the connection is reported as missing, after `llm.tries` calls."""
    server.script(PATH, lambda _: OpenAIReply(drop=True))
    with pytest.raises(MissingPartError, match="does not answer"):
        connect(tries=2).answer(HI)
    assert len(server.asked(PATH)) == 2


def test_a_refusal_carries_the_servers_words(server, connect):
    """It is not asked again."""
    server.script(PATH, [OpenAIReply.error("out of memory", 500)])
    model = connect()
    with pytest.raises(MissingPartError, match=r"\(500\).*out of memory"):
        model.answer(HI)
    assert model.pauses == []


def test_a_model_that_is_not_there_is_named(connect):
    """The message says which settings to look at."""
    with pytest.raises(MissingPartError, match=r"does not have other.*gem_model.*openai_url"):
        connect(name="other").answer(HI)


def test_a_slow_answer_ends_with_the_setting_that_allows_more(server, connect):
    """No call waits for ever, and none is repeated that took too long."""
    server.script(PATH, [OpenAIReply(delay=30)])
    model = connect(timeout=0.2)
    with pytest.raises(MissingPartError, match=r"within 0\.2 s; raise llm\.timeout"):
        model.answer(HI)
    assert model.pauses == []


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"message": "x"}]}, [1, 2]])
def test_something_else_is_refused(server, connect, body):
    """An answer without a message, or that is no JSON."""
    server.script(PATH, [body])
    with pytest.raises(MissingPartError, match="answered with"):
        connect().answer(HI)


def test_the_key_reaches_the_server_and_no_message(server, connect):
    """It is a bearer token; without it the error names the setting, and neither shows it nor the URL's password."""
    server.api_key = "s3cret"
    url = server.url.replace("//", "//ada:hunter2@")
    assert connect(url, api_key="s3cret").answer(HI).text == "ok"
    with pytest.raises(MissingPartError, match="set openai_api_key") as raised:
        connect(url, api_key="wr0ng").answer(HI)
    assert not {word for word in ("s3cret", "wr0ng", "hunter2") if word in str(raised.value)}


def test_credentials_of_the_address_are_sent(server, connect):
    """User and password of the URL become basic authentication where there is no key."""
    connect(server.url.replace("//", "//anna:s3%40cret@")).answer(HI)
    assert server.requests[0].headers["authorization"] == "Basic YW5uYTpzM0BjcmV0"
