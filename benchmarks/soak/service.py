"""The service that is soaked: its configuration, its process, its lives, and its model server.

What runs is `neuralstream serve` as it is installed, with the embedded Valkey and Qdrant's engine. Vectors and gems
come from a scripted Ollama in the host's process: the service's memory is then its own and not a model's, a turn costs
no second of a processor, and answers differ from call to call, so that a batch distilled twice would show.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import redis
import tomlkit

from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.config import Settings
from neuralstream.testing import FakeEmbedder, ScriptedChat, ScriptedOllama

__all__ = ["UNREADABLE", "Buffered", "Ending", "Life", "Memory", "Model", "Sample", "Service", "Tally", "memory_of"]

UNREADABLE = "zzunreadable"
"""What a turn says that the model cannot distil: a planted dead letter."""

Ending = Literal["SIGTERM", "SIGKILL", "SIGKILL, Valkey's too", "SIGKILL while it starts"]

_IDLE = "3s"
_END_SECONDS = 180.0
_NUMBERS = re.compile(r"gems of turns ([\d, ]+) as JSON")


class Memory(NamedTuple):
    """What a process takes: kB of its own (`RssAnon`), kB of mapped files, open file descriptors, threads."""

    anonymous: int
    mapped: int
    files: int
    threads: int


class Sample(NamedTuple):
    """A look at a life: seconds since it listened, what the host did, answers so far, the service and its Valkey."""

    seconds: float
    phase: str
    answers: int
    service: Memory
    valkey: Memory


class Buffered(NamedTuple):
    """What the embedded Valkey says of itself."""

    pid: int
    keys: int


@dataclass
class Tally:
    """What the host was told during one life.

    Attributes:
        answers: by method and status.
        failures: requests without an answer, by what the client says of them.
        wrong: failures while the service was up, and answers that nobody should get.
        told_of_others: answers with something of another user.
        captures: answered requests that capture, with one turn each.
        new: turns of them that the service did not know yet.
        queries: answered requests that search or ask for context.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    told_of_others: list[str] = field(default_factory=list)
    captures: int = 0
    new: int = 0
    queries: int = 0


@dataclass
class Life:
    """One process of the service, from its start to its end.

    Attributes:
        seconds: how long it listened.
        differences: what `/metrics` and the host counted differently, over all audits.
        code: its exit code.
    """

    number: int
    ending: Ending
    tally: Tally = field(default_factory=Tally)
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0
    audits: int = 0
    differences: list[str] = field(default_factory=list)
    code: int | None = None


class Model(ScriptedOllama):
    """Ollama with an embedder and a model that makes one gem for each turn, never the same one twice.

    Attributes:
        calls: chats since the last `reset`.
    """

    def __init__(self) -> None:
        self.calls = 0
        models: dict[str, FakeEmbedder | ScriptedChat] = {
            "snowflake-arctic-embed2": FakeEmbedder(),
            "qwen3": ScriptedChat(self._distil),
        }
        super().__init__(models)

    def behave(self, request: Any) -> Any:
        """What Ollama would do. What was asked is not kept: a soak asks for ever."""
        self.requests.clear()
        return super().behave(request)

    def reset(self) -> None:
        """Count from 0."""
        self.calls = 0

    def _distil(self, prompt: str) -> str:
        self.calls += 1
        if UNREADABLE in prompt:
            return "I would rather talk about the weather."
        *_, numbers = _NUMBERS.findall(prompt)
        gems = [
            {"source_turns": [int(number)], "content": f"{uuid.uuid4().hex} {uuid.uuid4().hex}", "tags": ["fact"]}
            for number in numbers.split(",")
        ]
        return json.dumps({"gems": gems})


class Service:
    """`neuralstream serve` on one folder and one port, started and ended as often as you like.

    Args:
        work: a folder for its configuration, its data and its log.
        model_url: the Ollama server.
        users: who has a token.
        embedding: the setting of this name; None leaves it to the model server.
    """

    def __init__(self, work: Path, model_url: str, users: tuple[str, ...], embedding: str | None = None) -> None:
        self.tokens = {user: secrets.token_hex(16) for user in users}
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = work / "service.log"
        self._home = work / "home"
        self._config = work / "neuralstream.toml"
        self._process: subprocess.Popen[bytes] | None = None
        settings: dict[str, Any] = {
            "home": str(self._home),
            "cache_dir": str(work / "cache"),
            "idle_timeout": _IDLE,
            "ollama_url": model_url,
            "serve": {"port": self.port, "tokens": self.tokens},
        }
        if embedding is not None:
            settings["embedding"] = embedding
        self._config.write_text(tomlkit.dumps(settings), encoding="utf-8")

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None, "start it first"
        return self._process.pid

    def start(self) -> None:
        """Start a process; it listens later."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NEURALSTREAM_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "neuralstream", "--config", str(self._config), "serve"],
                stdout=log, stderr=log, env=environment,
            )  # fmt: skip

    def has_ended(self) -> bool:
        """Whether the process ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def end(self, ending: Ending) -> int:
        """End the process; returns its exit code, negative where it is a signal's."""
        assert self._process is not None, "start it first"
        valkey = self.buffered().pid if ending == "SIGKILL, Valkey's too" else None
        self._process.send_signal(signal.SIGTERM if ending == "SIGTERM" else signal.SIGKILL)
        if valkey is not None:
            os.kill(valkey, signal.SIGKILL)
        code = self._process.wait(_END_SECONDS)
        self._process = None
        return code

    def buffered(self) -> Buffered:
        """What the running service's Valkey says; do not ask where none runs, for that would start one."""
        with (
            closing(EmbeddedValkey(Settings(home=self._home))) as valkey,
            closing(redis.Redis.from_url(valkey.url, socket_timeout=10)) as client,
        ):
            told: Any = client.info("server")
            keys: Any = client.dbsize()
            return Buffered(int(told["process_id"]), int(keys))

    @contextmanager
    def cleaned_up(self) -> Iterator[None]:
        """Leave no process behind: neither the service nor a Valkey whose service was killed."""
        try:
            yield
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            if (self._home / "buffer").exists():
                # Who leaves last stops it.
                EmbeddedValkey(Settings(home=self._home)).close()


def memory_of(pid: int) -> Memory | None:
    """What a process takes now; None where it is gone."""
    folder = Path(f"/proc/{pid}")
    with suppress(FileNotFoundError, ProcessLookupError):
        told = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        if "RssAnon" in told:
            anonymous, mapped = (int(told[name].split()[0]) for name in ("RssAnon", "RssFile"))
            return Memory(anonymous, mapped, len(list((folder / "fd").iterdir())), int(told["Threads"]))
    return None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])
