"""Watching for a service: nothing is lost and nothing doubled, whether it answers, refuses or is away."""

import json
import os
from contextlib import contextmanager

import pytest

from neuralstream import MissingPartError, NeuralStream, NeuralStreamClient, SettingsError
from neuralstream.serve.positions import Positions
from neuralstream.serve.watch import Watcher
from neuralstream.testing import FakeEmbedder, serving

TOKEN = "0123456789abcdef" * 4
START = 1_772_355_600


@pytest.fixture
def memory(settings):
    """The memory that a service holds."""
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def client(memory):
    """A client of its service."""
    with serving(memory) as url, NeuralStreamClient(url) as opened:
        yield opened


class Line:
    """A line to the service that can be cut, before a request or before its answer."""

    def __init__(self, client):
        self._client = client
        self.cut = None
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **named):
            self.calls.append(name)
            if self.cut == "before":
                raise MissingPartError("the line is cut")
            answer = getattr(self._client, name)(*arguments, **named)
            if self.cut == "after":
                raise MissingPartError("the line was cut")
            return answer

        return call


@pytest.fixture
def line(client):
    """A line to the service."""
    return Line(client)


@pytest.fixture
def watching(settings, tmp_path):
    """Start a watcher on the folder `logs`, as a new process would, and stop it."""

    @contextmanager
    def start(memory, now=START + 10_000, **changed):
        with Positions(tmp_path / "watch.sqlite") as positions:
            folder = str(tmp_path / "logs")
            yield Watcher(memory, settings.model_copy(update=changed), [folder], positions, lambda: now)

    return start


@pytest.fixture
def say(tmp_path):
    """Add messages to a session's log, written at START."""

    def add(*messages, session="s1", usage=None):
        file = tmp_path / "logs" / f"{session}.jsonl"
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps({"type": "session", "version": 3, "id": session}) + "\n")
        before = len(file.read_text().splitlines()) - 1
        with file.open("a") as opened:
            for place, (role, text) in enumerate(messages, before):
                message = {"role": role, "content": text} | ({"usage": usage} if usage and role == "assistant" else {})
                entry = {"type": "message", "id": f"e{place}", "timestamp": "2026-03-01T09:00:00Z", "message": message}
                opened.write(json.dumps(entry | {"parentId": f"e{place - 1}" if place else None}) + "\n")
        os.utime(file, (START, START + before))
        return file

    return add


def _texts(memory, session="s1", user=None):
    return [part.text for turn in memory.thread(session, user_id=user) for part in turn.parts]


def test_what_the_logs_hold_reaches_the_service(watching, client, memory, say):
    """Turns, how full the context is, and that the sessions are over; in a process that holds no store."""
    say(("user", "a"), ("assistant", "b"), usage={"totalTokens": 600})
    say(("user", "c"), ("assistant", "d"), session="s2")
    with watching(client, context_window=1000) as watcher:
        assert watcher.poll().captured == {"s1": 1, "s2": 1}
        assert memory.status().undistilled == 1
        assert watcher.poll().captured == {}
        watcher.end_sessions("shutdown")
    assert memory.status().undistilled == 0
    assert _texts(memory) == ["a", "b"]
    assert _texts(memory, "s2") == ["c", "d"]


def test_turns_are_those_of_the_token_s_user(settings, watching, say):
    """Logs name nobody: the turns, the usage and the end of the session all are the token's."""
    settings = settings.model_copy(
        update={"serve": type(settings.serve)(tokens={"mira": TOKEN}), "user_id": "somebody"}
    )
    say(("user", "a"), ("assistant", "b"), usage={"totalTokens": 10})
    with (
        NeuralStream(settings, embedder=FakeEmbedder()) as memory,
        serving(memory) as url,
        NeuralStreamClient(url, token=TOKEN) as client,
        watching(client) as watcher,
    ):
        assert watcher.poll().captured == {"s1": 1}
        watcher.end_sessions("end")
        assert _texts(memory, user="mira") == ["a", "b"]
        assert memory.status().undistilled == 0


def test_a_wrong_token_ends_it_and_loses_nothing(settings, watching, say):
    """It is no property of a turn, which would be refused once and left out."""
    settings = settings.model_copy(update={"serve": type(settings.serve)(tokens={"mira": TOKEN})})
    say(("user", "a"), ("assistant", "b"))
    with NeuralStream(settings, embedder=FakeEmbedder()) as memory, serving(memory) as url:
        with (
            NeuralStreamClient(url, token="x" * 64) as stranger,
            watching(stranger) as watcher,
            pytest.raises(SettingsError, match="known token"),
        ):
            watcher.poll()
        with NeuralStreamClient(url, token=TOKEN) as client, watching(client) as watcher:
            assert watcher.poll().captured == {"s1": 1}


@pytest.mark.parametrize("cut", ["before", "after"])
def test_what_was_not_answered_is_sent_again(watching, line, memory, say, cut):
    """By the same process or the next one; the service keeps it once."""
    for texts, again in ((("a", "b"), 1), (("c", "d"), 0)):
        say(*zip(("user", "assistant"), texts, strict=True))
        line.cut = cut
        with watching(line) as watcher:
            with pytest.raises(MissingPartError):
                watcher.poll()
            line.cut = None
            for _ in range(again):
                watcher.poll()
    with watching(line) as watcher:
        watcher.poll()
        line.calls.clear()
        watcher.poll()
    assert _texts(memory) == ["a", "b", "c", "d"]
    assert line.calls == []


def test_what_joins_an_exchange_whose_answer_was_lost_is_not(watching, line, memory, say):
    """The service has the exchange without it, and knows its id."""
    say(("user", "a"), ("assistant", "b"))
    line.cut = "after"
    with watching(line) as watcher:
        with pytest.raises(MissingPartError):
            watcher.poll()
        say(("assistant", "c"))
        line.cut = None
        watcher.poll()
        watcher.poll()
    assert _texts(memory) == ["a", "b", "c"]


@pytest.mark.parametrize("end", [lambda file: file.unlink(), lambda file: os.truncate(file, 0)])
def test_what_is_cut_off_a_log_while_the_service_is_away_was_read(watching, line, memory, say, end):
    """Also of the logs that come after the one whose turns could not be sent."""
    with watching(line) as watcher:
        say(("user", "a"), ("assistant", "b"))
        file = say(("user", "c"), ("assistant", "d"), session="s2")
        line.cut = "before"
        with pytest.raises(MissingPartError):
            watcher.poll()
        say(("user", "e"), ("assistant", "f"), session="s2")
        assert watcher.poll(send=False).captured == {}
        end(file)
        with pytest.raises(MissingPartError):
            watcher.poll()
        line.cut = None
        assert watcher.poll().captured == {"s1": 1, "s2": 2}
    assert _texts(memory, "s2") == ["c", "d", "e", "f"]


def test_no_more_is_held_than_fits(watching, line, memory, say, monkeypatch):
    """While the service is away a backlog stays in its logs, and follows when it is back."""
    monkeypatch.setattr("neuralstream.serve.watch._MOST_UNSENT", 2)
    for place in range(5):
        say(("user", "a"), ("assistant", "b"), session=f"s{place}")
    line.cut = "before"
    with watching(line) as watcher:
        for _ in range(2):
            with pytest.raises(MissingPartError):
                watcher.poll()
        assert len(watcher._unsent) == 2
        line.cut = None
        captured = watcher.poll().captured + watcher.poll().captured
    assert captured == {f"s{place}": 1 for place in range(5)}
    assert memory.status().turns == 5


def test_a_turn_that_the_service_refuses_holds_up_no_other(watching, client, memory, say):
    """It is named, once."""
    say(("user", "a" * 9_000_000), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    with watching(client) as watcher:
        polled = watcher.poll()
        assert polled.captured == {"s1": 1}
        assert [problem for problem in polled.problems if "max_request_mb" in problem]
        assert watcher.poll().problems == []
    assert _texts(memory) == ["c", "d"]


def test_positions_tell_whose_they_were(tmp_path):
    """The first time nobody's, then those of the place before, if it is another one."""
    for place, before in [("here", None), ("here", None), ("http://there", "here"), ("here", "http://there")]:
        with Positions(tmp_path / "watch.sqlite") as positions:
            assert positions.for_memory(place) == before
