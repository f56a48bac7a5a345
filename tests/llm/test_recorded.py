import socket

import pytest

from neuralstream.config import Settings
from neuralstream.errors import CassetteMissError, ContextOverflowError, MissingPartError, SettingsError
from neuralstream.llm import Request, make_language_model
from neuralstream.testing import OllamaReply, ScriptedChat, ScriptedOllama, ScriptedOpenAI

ASKED = Request("What was said?", about={"prompt": "curator@1", "turns": ["t1"]})


@pytest.fixture
def server():
    """A server whose model never answers alike."""
    answers = iter(range(1000))
    with ScriptedOllama({"qwen3": ScriptedChat(lambda _: f"answer {next(answers)}")}) as running:
        yield running


@pytest.fixture
def settings(tmp_path, server):
    """Settings by mode."""

    def make(mode="replay", url=server.url, **llm):
        cassette = tmp_path / "a.jsonl"
        return Settings(ollama_url=url, llm={"mode": mode, "cassette": cassette, **llm})

    return make


def test_what_is_recorded_is_replayed(settings):
    """The same answer with what it took, marked as recorded; it is counted as such."""
    with make_language_model(settings("record")) as model:
        live = model.answer(ASKED)
        assert (live.text, live.recorded) == ("answer 0", False)
        assert model.calls.recorded == 0
    with make_language_model(settings()) as model:
        replayed = model.answer(ASKED)
        assert (replayed.text, replayed.finish, replayed.recorded) == ("answer 0", "stop", True)
        assert (replayed.prompt_tokens, replayed.answer_tokens) == (live.prompt_tokens, live.answer_tokens)
        assert (model.calls.ok, model.calls.recorded) == (1, 1)


def test_recording_asks_only_what_is_missing(server, settings):
    """A second recording of the same asks nobody, not even what the model can."""
    for _ in range(2):
        with make_language_model(settings("record")) as model:
            assert model.answer(ASKED).text == "answer 0"
    assert len(server.asked("/api/chat")) == 1
    assert len(server.asked("/api/show")) == 1


def test_replay_opens_no_connection(settings, monkeypatch):
    """Nor does it need an address."""
    with make_language_model(settings("record")) as model:
        model.answer(ASKED)
    monkeypatch.setattr(socket, "socket", None)
    with make_language_model(settings(url=None)) as model:
        assert model.answer(ASKED).text == "answer 0"
        assert model.context_tokens == 8192


def test_a_miss_says_how_to_record(settings, tmp_path):
    """And what the cassette holds; it is counted as failed."""
    with make_language_model(settings("record")) as model:
        model.answer(ASKED)
    with make_language_model(settings(seed=1)) as model:
        with pytest.raises(CassetteMissError) as raised:
            model.answer(ASKED)
        assert model.calls.failed == 1
    said = str(raised.value)
    assert "(curator@1)" in said
    assert "1 of qwen3" in said
    assert f"--set llm.mode=record --set llm.cassette={tmp_path / 'a.jsonl'}" in said
    assert "--set openai_url=http" in said


def test_an_answer_that_was_cut_off_is_replayed_as_such(settings):
    """It ends where it ended."""
    for mode in ("record", "replay"):
        with make_language_model(settings(mode)) as model:
            cut = model.answer(Request("hi", max_tokens=1))
            assert (cut.text, cut.finish) == ("answ", "length")
            assert model.calls.length == 1


def test_a_prompt_that_was_cut_is_replayed_as_an_overflow(server, settings):
    """Whoever then asked with less does so again."""
    server.script("/api/chat", [OllamaReply({"message": {"role": "assistant"}, "prompt_eval_count": 2})])
    for mode in ("record", "replay"):
        with make_language_model(settings(mode)) as model:
            with pytest.raises(ContextOverflowError):
                model.answer(ASKED)
            assert model.calls.overflow == 1
    assert len(server.asked("/api/chat")) == 1


def test_what_does_not_fit_is_refused_without_a_server(settings):
    """By the setting, so that it is refused alike when it is recorded and replayed."""
    for mode in ("record", "replay"):
        with make_language_model(settings(mode)) as model, pytest.raises(ContextOverflowError, match="8192"):
            model.answer(Request("x" * 40_000))


def test_a_server_with_less_context_is_not_recorded(server, settings):
    """Prompts would be as long as it allows, and nothing would be found again without it."""
    server.context_length = 4096
    said = r"4096 tokens.*less than llm\.num_ctx = 8192; set llm\.num_ctx = 4096"
    with make_language_model(settings("record")) as model, pytest.raises(SettingsError, match=said):
        model.answer(ASKED)
    with make_language_model(settings("record", num_ctx=4096)) as model:
        assert model.answer(ASKED).text == "answer 0"


def test_a_failure_is_not_recorded(server, settings):
    """It is asked again the next time."""
    server.script("/api/chat", [OllamaReply.error("out of memory")])
    with make_language_model(settings("record")) as model:
        with pytest.raises(MissingPartError, match="out of memory"):
            model.answer(ASKED)
        assert model.answer(ASKED).text == "answer 0"
        assert (model.calls.failed, model.calls.ok) == (1, 1)


def test_settings_name_the_model(server):
    """`ollama_url` says where and `gem_model` which; `openai_url` wins; without either the error says what to set."""
    with make_language_model(Settings(ollama_url=server.url)) as model:
        assert (model.name, model.answer(ASKED).text) == ("qwen3", "answer 0")
    with ScriptedOpenAI({"other": ScriptedChat("there")}, api_key="k") as openai:
        settings = Settings(ollama_url=server.url, openai_url=openai.url, openai_api_key="k", gem_model="other")
        with make_language_model(settings) as model:
            assert model.answer(ASKED).text == "there"
    with pytest.raises(MissingPartError, match="set ollama_url"):
        make_language_model(Settings())
