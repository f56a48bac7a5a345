"""The command line as a user meets it: arguments in; exit code, stdout and stderr out."""

import json
import os
from typing import Any, NamedTuple

import pytest

from neuralstream.cli import main
from neuralstream.testing import FakeEmbedder

EXCHANGES = [
    ("Move redis to port 6381", "Done, redis listens on 6381. Port 6379 stays for staging."),
    ("Which editor do I prefer?", "You said that you prefer Helix over Vim."),
    ("I decided to deploy on Fridays", "Noted: the decision is to deploy on Fridays."),
    ("Remind me to rotate the certificates", "I will remind you to rotate the certificates in June."),
    ("The backup runs at 03:00", "Understood, the backup runs at 03:00 UTC."),
    ("What is the staging host?", "The staging host is stage.example.org."),
    ("Thanks", "You are welcome."),
]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The plain table, a mapping per line."""
        head, *lines = [line.split("\t") for line in self.out.splitlines()]
        return [dict(zip(head, line, strict=True)) for line in lines]


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    """Run commands in this process, on a data folder of their own, with a small deterministic embedder."""
    for name in os.environ:
        if name.startswith("NEURALSTREAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NEURALSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NEURALSTREAM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("neuralstream.embed.make_embedder", lambda _settings: FakeEmbedder())

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def log(tmp_path):
    """An agent's session log of seven exchanges, a minute apart, with one unreadable line."""
    file = tmp_path / "session.jsonl"
    lines = [{"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-23T10:00:00.000Z", "cwd": "/w"}]
    parent = None
    for minute, exchange in enumerate(EXCHANGES):
        for second, (role, text) in enumerate(zip(("user", "assistant"), exchange, strict=True)):
            entry = f"e{minute}{role[0]}"
            time = f"2026-02-23T10:{minute:02}:{second:02}.000Z"
            content = text if role == "user" else [{"type": "text", "text": text}]
            message = {"role": role, "content": content}
            lines.append({"type": "message", "id": entry, "parentId": parent, "timestamp": time, "message": message})
            parent = entry
    written = [json.dumps(line) for line in lines]
    written.insert(3, '{"type": "message", "id": "torn')
    file.write_text("\n".join(written) + "\n")
    return file


@pytest.fixture
def memory(cli, log):
    """The command line, with the log replayed."""
    assert cli("replay", log).code == 0
    return cli
