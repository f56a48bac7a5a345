"""The agent engineer's journey: one memory by the core, HTTP, MCP and a watched log folder, as the README shows it."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from mcp import Client, StdioServerParameters

from neuralstream import NeuralStreamClient, Turn

README = Path(__file__).parents[2] / "README.md"
OURS = [sys.executable, "-m", "neuralstream"]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Run one command to its end."""
    monkeypatch.setenv("NEURALSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NEURALSTREAM_CACHE_DIR", str(tmp_path / "cache"))

    def run(*command):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    return run


@contextmanager
def running(*command):
    """A command that goes on until it is told to end; its process, and its lines of both outputs."""
    merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen([*OURS, *command], text=True, **merged) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 0


def line_with(process, pattern):
    """The first line from now on that has this, as a match."""
    lines = iter(process.stdout)
    return next(found for line in lines if (found := re.search(pattern, line)))


def messages(session, *exchanges):
    """Claude Code's lines of a session, exchange by exchange."""
    parent = None
    for number, (asked, answered) in enumerate(exchanges):
        lines = []
        for role, text in (("user", asked), ("assistant", answered)):
            uuid = f"{session}-{number}-{role}"
            message = {"role": role, "content": [{"type": "text", "text": text}]}
            if role == "assistant":
                message |= {"id": uuid, "stop_reason": "end_turn"}
            line = {
                "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": session, "isSidechain": False,
                "cwd": "/w", "timestamp": f"2026-03-01T09:{number:02}:00.000Z", "message": message,
            }  # fmt: skip
            parent = uuid
            lines.append(json.dumps(line) + "\n")
        yield "".join(lines)


async def asked_over_mcp(server):
    """What a model sees: the newest exchanges, what a search finds, and an error it can act on."""
    async with Client(server) as model:
        newest = await model.call_tool("recent_conversations", {"limit": 1})
        found = await model.call_tool("search_memory", {"query": "who owns billing?"})
        wrong = await model.call_tool("search_memory", {"query": "redis", "k": 3})
    assert wrong.is_error
    assert "it takes query, limit," in wrong.content[0].text
    (exchange,) = newest.structured_content["exchanges"]
    return exchange["q"], " ".join(hit["text"] for hit in found.structured_content["hits"])


@pytest.mark.slow
def test_one_memory_by_the_core_http_mcp_and_watch(ran, tmp_path):
    """What one way keeps every other way finds; a second owner is told how to share; nothing is left undone."""
    # The core: the README's ten lines, as they stand.
    (lines,) = re.findall(
        r"^### You have an agent\n+```python\n(.+?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    ten = ran(sys.executable, "-c", lines)
    assert ten.returncode == 0, ten.stderr
    assert "Move redis to 6381" in ten.stdout
    assert "untrusted history" in ten.stdout

    with running("serve", "--port", "0") as service:
        url = line_with(service, r"listening on (http://\S+)")[1]

        # HTTP, and the Python client: what the core kept is there.
        kept = httpx.post(
            f"{url}/v1/turns",
            json={"turns": [{"session_id": "s2", "turn_id": "t1", "user": "Who owns billing?", "assistant": "Mira."}]},
        )
        assert kept.json() == {"new": 1, "turns": [{"turn_id": "t1", "new": True}]}
        with NeuralStreamClient(url, timeout=120) as client:
            assert "6381" in client.context("which port does redis use?", budget_tokens=400).text
            assert not client.capture(Turn.exchange("Who owns billing?", "Mira.", session_id="s2", turn_id="t1"))

        # A second owner is refused, and told what to do.
        second = ran(*OURS, "watch", str(tmp_path))
        assert second.returncode == 3
        assert "neuralstream watch --url" in second.stderr

        # MCP: a process of the host's, and the service itself.
        stdio = StdioServerParameters(command=sys.executable, args=[*OURS[1:], "mcp", "--url", url], env={**os.environ})
        for server in (stdio, f"{url}/mcp"):
            newest, found = asyncio.run(asked_over_mcp(server))
            assert newest == "Who owns billing?"
            assert "Mira." in found

        # A folder of session logs, one of which grows while it is watched.
        said = [("Which editor do I use?", "Helix."), ("And which shell?", "Fish.")]
        first, second = messages("c1", *said)
        folder = tmp_path / "projects" / "-w"
        folder.mkdir(parents=True)
        log = folder / "c1.jsonl"
        log.write_text(first)
        os.utime(log, (1, 1))
        with running("watch", "--url", url, str(folder.parent)) as watching:
            line_with(watching, r"1 turns captured: c1 \+1")
            with log.open("a") as growing:
                growing.write(second)
            line_with(watching, r"1 turns captured: c1 \+1")
        with NeuralStreamClient(url, timeout=120) as client:
            assert [turn.parts[0].text for turn in client.thread("c1")] == [asked for asked, _ in said]
            assert "Helix" in client.search("my editor", k=1)[0].text
            sessions = client.user_status().sessions

        # What became of it, as a monitor sees it.
        told = httpx.get(f"{url}/metrics").text
        assert "neuralstream_ready 1.0" in told
        assert 'neuralstream_tool_seconds_count{tool="search_memory"} 1.0' in told

    # The service is gone, and another process owns the memory: it has all of it.
    left = ran(*OURS, "recent", "-n", "50", "--json")
    assert left.returncode == 0, left.stderr
    hits = json.loads(left.stdout)
    assert {hit["turn"]["session_id"] for hit in hits} == {"s1", "s2", "c1"}
    assert len({hit["id"] for hit in hits}) == len(hits)
    assert sessions == 3
