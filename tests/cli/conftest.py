"""The command line as a user meets it: arguments in; exit code, stdout and stderr out."""

import json
import os
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest

from neuralstream.cli import main
from neuralstream.cli.options import Call
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
    isolate(monkeypatch, tmp_path)

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def log(tmp_path):
    """An agent's session log of seven exchanges, a minute apart; its fourth line cannot be read."""
    file = tmp_path / "session.jsonl"
    file.write_text(session_log())
    return file


@pytest.fixture
def memory(cli, replayed, monkeypatch):
    """The command line, on a memory of the log that all tests share: for commands that change nothing."""
    monkeypatch.setenv("NEURALSTREAM_HOME", str(replayed / "home"))
    return cli


@pytest.fixture
def own_memory(cli, log):
    """The command line, on a memory of the log that is this test's own."""
    assert cli("replay", log).code == 0
    return cli


@pytest.fixture(scope="session")
def replayed(tmp_path_factory):
    """A folder whose `home` holds the log's memory."""
    folder = tmp_path_factory.mktemp("replayed")
    (folder / "session.jsonl").write_text(session_log())
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, folder)
        assert main(["replay", "session.jsonl"]) == 0
    return folder


def isolate(monkeypatch, folder):
    """No setting of the machine reaches the commands, and what they write lies in `folder`."""
    for name in os.environ:
        if name.startswith("NEURALSTREAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NEURALSTREAM_HOME", str(folder / "home"))
    monkeypatch.setenv("NEURALSTREAM_CACHE_DIR", str(folder / "cache"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr("neuralstream.embed.make_embedder", lambda _settings: FakeEmbedder())


def session_log():
    """The log's text."""
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
    return "\n".join(written) + "\n"


class Recorder:
    """Stands in for an open memory where only what a command asks of it matters."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
        self.user: str | None = None
        self.answers: dict[str, object] = {}

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            answer = self.answers.get(name, [])
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return call


@pytest.fixture
def recorder(monkeypatch):
    """Commands open this instead of a memory."""
    recorder = Recorder()

    def open_recorder(call):
        recorder.user = call.settings().user_id
        return nullcontext(recorder)

    monkeypatch.setattr(Call, "open", open_recorder)
    return recorder
