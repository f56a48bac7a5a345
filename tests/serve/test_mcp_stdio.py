"""`neuralstream mcp` as a host runs it: a process that is spoken to over its standard input and output."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
import uvicorn
from mcp import Client, StdioServerParameters

from neuralstream import NeuralStream, Settings, Turn
from neuralstream.cli import main
from neuralstream.serve.http import create_app
from neuralstream.testing import FakeEmbedder

TOKEN = "t" * 32


def command(*arguments, **variables):
    """The process that a host starts."""
    return StdioServerParameters(
        command=sys.executable, args=["-m", "neuralstream", "mcp", *arguments], env={**os.environ, **variables}
    )


@contextmanager
def serving(memory):
    """The service of a memory, on a free port; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # It listens already: a client that is early waits for the service.
        server = uvicorn.Server(uvicorn.Config(create_app(memory), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def memory(tmp_path):
    """A memory that this process holds."""
    settings = Settings(
        home=tmp_path / "home", cache_dir=tmp_path / "cache", worker="inline", serve={"tokens": {"me": TOKEN}}
    )
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        opened.capture(Turn.exchange("Move redis to port 6381", "Done.", session_id="s1", user_id="me"))
        yield opened


def test_a_host_reaches_a_running_service_through_it(memory):
    """With an address and a token, every tool answers as the service's user, in a process that holds no store."""

    async def talk(url):
        async with Client(command("--url", url, NEURALSTREAM_TOKEN=TOKEN)) as client:
            calls = [
                ("recent_conversations", {}),
                ("search_memory", {"query": "redis"}),
                ("semantic_search", {"query": "redis"}),
                ("recall", {"query": "redis"}),
                ("conversation_thread", {"session_id": "s1"}),
                ("themes", {}),
                ("remember", {"text": "Tea is at four."}),
            ]
            answers = {name: await client.call_tool(name, arguments) for name, arguments in calls}
            kept = answers["remember"].structured_content["gem_id"]
            answers["forget"] = await client.call_tool("forget", {"gem_id": kept})
            wrong = await client.call_tool("conversation_thread", {"session_id": "nope"})
            return answers, wrong

    with serving(memory) as url:
        answers, wrong = asyncio.run(talk(url))
    assert not [answer.content for answer in answers.values() if answer.is_error]
    assert answers["recent_conversations"].structured_content["exchanges"][0]["q"] == "Move redis to port 6381"
    assert answers["forget"].structured_content["proved"]
    assert wrong.is_error
    assert "there is no conversation 'nope'" in wrong.content[0].text


def test_a_service_that_is_down_is_an_error_of_the_call_not_of_the_process(unused_port):
    """The host keeps its tools; the model reads what to start."""

    async def talk():
        async with Client(command("--url", f"http://127.0.0.1:{unused_port}")) as client:
            return await client.call_tool("recent_conversations", {})

    result = asyncio.run(talk())
    assert result.is_error
    assert "`neuralstream serve` starts it" in result.content[0].text


@pytest.fixture
def unused_port():
    """A port nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def test_a_store_that_is_held_says_how_to_share_it(memory, capsys, monkeypatch):
    """Who holds it, and the command that asks the service instead."""
    monkeypatch.setenv("NEURALSTREAM_HOME", str(memory.settings.home))
    assert main(["mcp"]) == 3
    said = capsys.readouterr()
    assert f"process {os.getpid()}" in said.err
    assert "neuralstream mcp --url http://127.0.0.1:7711" in said.err
    assert said.out == ""


@pytest.mark.slow
def test_it_serves_the_memory_of_this_machine(tmp_path):
    """Real parts, in a process of its own: what is remembered in one run is found in the next, and by nobody else."""
    places = {"NEURALSTREAM_HOME": str(tmp_path / "home"), "NEURALSTREAM_CACHE_DIR": str(tmp_path / "cache")}

    async def ask(name, *options, **arguments):
        async with Client(command(*options, **places)) as client:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return result.structured_content

    kept = asyncio.run(ask("remember", "--user", "ann", text="Redis listens on port 6381."))
    found = asyncio.run(ask("search_memory", "--user", "ann", query="redis port"))
    assert kept["gem_id"] in [hit["id"] for hit in found["hits"]]
    assert not asyncio.run(ask("search_memory", query="redis port"))["hits"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_it_closes_memory_when_it_is_told_to_end(tmp_path, name):
    """With the input still open: nothing on stdout but the protocol, and the embedded server does not stay behind."""
    greeting = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    started = command(NEURALSTREAM_HOME=str(tmp_path / "home"), NEURALSTREAM_CACHE_DIR=str(tmp_path / "cache"))
    with subprocess.Popen(
        [started.command, *started.args], env=started.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdin.write(json.dumps(greeting).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "neuralstream"
        assert (tmp_path / "home" / "buffer" / "valkey.sock").exists()
        process.send_signal(getattr(signal, name))
        assert process.wait(60) == 0
        assert process.stdout.read() == b""
    assert not (tmp_path / "home" / "buffer" / "valkey.sock").exists()
