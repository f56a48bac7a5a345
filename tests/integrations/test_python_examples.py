"""The examples of `integrations/python/`, run as a user runs them."""

import runpy
from pathlib import Path

import pytest

from neuralstream.testing import FakeEmbedder, ScriptedChat, ScriptedOllama, ScriptedOpenAI

EXAMPLES = Path(__file__).parents[2] / "integrations" / "python"
SAID = "Done, redis listens on 6381."


@pytest.fixture
def ollama(monkeypatch):
    """An Ollama server that embeds, and that chats as "talker"."""
    with ScriptedOllama({"snowflake-arctic-embed2": FakeEmbedder(), "talker": ScriptedChat(SAID)}) as server:
        monkeypatch.setenv("NEURALSTREAM_OLLAMA_URL", server.url)
        monkeypatch.setenv("NEURALSTREAM_EXTRACT__EXTRACTOR", "extractive")
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setenv("MODEL", "talker")
        yield server


@pytest.fixture
def openai(monkeypatch):
    """An OpenAI-compatible server that chats as "talker"."""
    with ScriptedOpenAI({"talker": ScriptedChat(SAID)}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server


@pytest.fixture
def run(monkeypatch):
    """Run an example, typing lines; an empty one ends it."""

    def run(name, *lines):
        typed = iter([*lines, ""])
        monkeypatch.setattr("builtins.input", lambda _: next(typed))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    return run


def assert_it_remembers(requests):
    """The first run's model calls are told nothing; the second run's is told what the first said."""
    first, second, third = (request.body["messages"] for request in requests)
    assert [message["role"] for message in first] == ["user"]
    assert [message["content"] for message in second] == ["Move redis to 6381.", SAID, "Thanks!"]
    system, user = third
    assert system["role"] == "system"
    assert system["content"].startswith("<neuralstream-memory")
    assert "Move redis to 6381." in system["content"]
    assert user["content"] == "Which port does redis use?"


def test_a_chat_with_ollama_remembers_the_one_before(ollama, run, capsys):
    """A second run of the Ollama example is reminded of the first, and what was injected is no message of its own."""
    run("ollama_chat.py", "Move redis to 6381.", "Thanks!")
    run("ollama_chat.py", "Which port does redis use?")
    assert_it_remembers(ollama.asked("/api/chat"))
    assert capsys.readouterr().out == f"{SAID}\n" * 3


@pytest.mark.usefixtures("ollama")
def test_a_loop_over_an_openai_server_remembers_the_one_before(openai, run, capsys):
    """A second run of the OpenAI example is reminded of the first."""
    run("openai_loop.py", "Move redis to 6381.", "Thanks!")
    run("openai_loop.py", "Which port does redis use?")
    assert_it_remembers(openai.asked("/v1/chat/completions"))
    assert capsys.readouterr().out == f"{SAID}\n" * 3


@pytest.mark.slow
@pytest.mark.usefixtures("ollama")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ChatOpenAI closes no connection
def test_a_langgraph_thread_remembers_the_one_before(openai, run, capsys):
    """A second thread of the LangGraph example is reminded of the first."""
    run("langgraph_agent.py", "Move redis to 6381.", "Thanks!")
    run("langgraph_agent.py", "Which port does redis use?")
    assert_it_remembers(openai.asked("/v1/chat/completions"))
    assert capsys.readouterr().out == f"{SAID}\n" * 3
