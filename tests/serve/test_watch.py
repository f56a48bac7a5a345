"""Watching logs: complete exchanges are captured, each once, whatever happens to the files meanwhile."""

import json
import os
import random
import shutil
from collections import Counter
from contextlib import contextmanager

import pytest

from neuralstream import NeuralStream
from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.errors import MissingPartError
from neuralstream.serve.positions import Positions
from neuralstream.serve.watch import Watcher
from neuralstream.testing import FakeEmbedder

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-01T09:00:00Z"}


class Clock:
    """The time that files have, and as much later as a test says."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def memory(settings):
    """An embedded memory that works inside each call."""
    with NeuralStream(settings, embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def clock():
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def watching(memory, tmp_path, clock):
    """Start a watcher on the folder `logs`, as a new process would, and stop it."""

    @contextmanager
    def start(*sources):
        with Positions(tmp_path / "watch.sqlite") as positions:
            yield Watcher(memory, memory.settings, sources or (str(tmp_path / "logs"),), positions, clock)

    return start


class Session:
    """An agent that writes its session's log; its files' times are the clock's."""

    def __init__(self, file, clock, session_id="s1"):
        self.file, self._clock = file, clock
        self.count = 0
        self._parent = None
        self.said = []
        file.parent.mkdir(parents=True, exist_ok=True)
        self.write(json.dumps(HEADER | {"id": session_id}) + "\n")

    def line(self, role, stop=None):
        self.count += 1
        key, text = f"e{self.count}", f"{role} says {self.count} of {self.file.name.partition('.')[0]}"
        message = {"role": role, "content": text} | ({"stopReason": stop} if stop else {})
        entry = {"type": "message", "id": key, "parentId": self._parent, "timestamp": "2026-03-01T09:00:00Z"}
        self._parent = key
        self.said.append(text)
        return json.dumps(entry | {"message": message}) + "\n"

    def write(self, text):
        with self.file.open("a") as opened:
            opened.write(text)
        self.touch()

    def touch(self):
        state = self.file.stat()
        os.utime(self.file, ns=(state.st_atime_ns, int(self._clock.now * 1e9)))

    def say(self, role, stop=None):
        self.write(self.line(role, stop))


@pytest.fixture
def session(tmp_path, clock):
    """A session's log, with its header."""
    return Session(tmp_path / "logs" / "s1.jsonl", clock)


def _turns(memory, session_id="s1"):
    return [[part.text.split()[-3] for part in turn.parts] for turn in memory.thread(session_id)]


def test_an_exchange_is_captured_when_the_log_says_that_it_is_over(watching, memory, session):
    """Not when the user has spoken, nor after the first words of the reply; and then at once."""
    with watching() as watcher:
        session.say("user")
        session.say("assistant", "toolUse")
        assert watcher.poll().captured == {}
        session.say("assistant", "stop")
        assert watcher.poll().captured == {"s1": 1}
        assert watcher.poll().captured == {}
    assert _turns(memory) == [["1", "2", "3"]]


def test_an_exchange_is_over_when_the_next_one_begins(watching, memory, session):
    """Where the log gives no reason to stop, the next question does."""
    with watching() as watcher:
        for role in ("user", "assistant", "user"):
            session.say(role)
        assert watcher.poll().captured == {"s1": 1}
    assert _turns(memory) == [["1", "2"]]


def test_silence_ends_an_exchange(watching, memory, session, clock):
    """A reply is waited for as long as a session may be idle, the rest of a reply for a minute."""
    with watching() as watcher:
        session.say("user")
        watcher.poll()
        clock.now += 800
        assert watcher.poll().captured == {}
        session.say("assistant")
        assert watcher.poll().captured == {}
        clock.now += 61
        assert watcher.poll().captured == {"s1": 1}
        session.say("user")
        watcher.poll()
        clock.now += memory.settings.idle_timeout.total_seconds()
        assert watcher.poll().captured == {"s1": 1}
    assert _turns(memory) == [["1", "2"], ["3"]]


def test_what_joins_a_captured_exchange_is_kept_too(watching, memory, session, clock):
    """A reply after hours is a turn of its own, under the id of its message."""
    with watching() as watcher:
        session.say("user")
        clock.now += 3600
        watcher.poll()
        session.say("assistant", "stop")
        session.say("user")
        assert watcher.poll().captured == {"s1": 1}
        watcher.poll()
    assert _turns(memory) == [["1"], ["2"]]
    assert [turn.turn_id for turn in memory.thread("s1")] == ["s1:e1", "s1:e2"]


def test_the_first_start_reads_all_and_the_next_goes_on(watching, memory, session):
    """What was written before the first start, and between two, is captured; nothing is captured again."""
    for _ in range(2):
        session.say("user")
        session.say("assistant", "stop")
        with watching() as watcher:
            assert watcher.poll().captured == {"s1": 1}
    with watching() as watcher:
        assert watcher.poll().captured == {}
    assert _turns(memory) == [["1", "2"], ["3", "4"]]


def test_what_was_forgotten_does_not_come_back(watching, memory, session):
    """The watcher knows what it took, and a log that grows gives nothing twice."""
    with watching() as watcher:
        session.say("user")
        session.say("assistant", "stop")
        watcher.poll()
        memory.forget(session_id="s1")
        session.say("user")
        session.say("assistant", "stop")
        watcher.poll()
    assert _turns(memory) == [["3", "4"]]


def test_a_torn_line_is_waited_for(watching, memory, session):
    """Half a line is no reply."""
    with watching() as watcher:
        session.say("user")
        line = session.line("assistant", "stop")
        session.write(line[:40])
        assert watcher.poll().captured == {}
        session.write(line[40:])
        assert watcher.poll().captured == {"s1": 1}
    assert _turns(memory) == [["1", "2"]]


def test_new_sessions_and_paths_are_found(watching, memory, tmp_path, clock):
    """A folder need not exist yet, and may have folders."""
    with watching() as watcher:
        assert watcher.poll().logs == 0
        for place in range(3):
            session = Session(tmp_path / "logs" / f"--w{place}--" / f"t{place}.jsonl", clock, f"t{place}")
            session.say("user")
            session.say("assistant", "stop")
            assert watcher.poll().captured == {f"t{place}": 1}
    assert memory.status().turns == 3


def test_rotation_splits_no_exchange(watching, memory, session):
    """A reply in the new file belongs to the question in the old one, also when the old one goes away later."""
    with watching() as watcher:
        session.say("user")
        watcher.poll()
        old = session.file.rename(session.file.with_name("s1.jsonl.1"))
        session.say("assistant", "stop")
        assert watcher.poll().captured == {"s1": 1}
        old.unlink()
        session.say("user")
        session.say("assistant", "stop")
        assert watcher.poll().captured == {"s1": 1}
    assert _turns(memory) == [["1", "2"], ["3", "4"]]


def test_what_was_written_before_a_rotation_is_not_missed(watching, memory, session):
    """The end of the old file is read although it changed its name first, before the first start as well."""
    for suffix in ("1", "2"):
        session.say("user")
        session.say("assistant", "stop")
        session.file.rename(session.file.with_name(f"s1.jsonl.{suffix}"))
        session.write("")
        with watching() as watcher:
            assert watcher.poll().captured == {"s1": 1}
    assert _turns(memory) == [["1", "2"], ["3", "4"]]


@pytest.mark.parametrize("end", [lambda file: file.unlink(), lambda file: os.truncate(file, 0)])
def test_an_open_exchange_outlives_its_log(watching, memory, session, end):
    """When the log is removed or cut, what was seen of the exchange is captured as it is."""
    with watching() as watcher:
        session.say("user")
        watcher.poll()
        end(session.file)
        assert watcher.poll().captured == {"s1": 1}
        assert watcher.poll().captured == {}
    assert _turns(memory) == [["1"]]


def test_a_file_that_is_no_log_is_named_once(watching, tmp_path):
    """It is tried again when it changes."""
    file = tmp_path / "logs" / "x.jsonl"
    file.parent.mkdir()
    file.write_text("Dear diary\n")
    with watching() as watcher:
        assert len(watcher.poll().problems) == 1
        assert watcher.poll().problems == []


def test_context_use_fires_the_context_trigger(watching, memory, session):
    """The log's own figure is reported after what was captured."""
    memory.settings = memory.settings.model_copy(update={"context_window": 1000})
    reply = json.loads(session.line("assistant", "stop"))
    reply["message"]["usage"] = {"totalTokens": 600}
    with watching() as watcher:
        session.say("user")
        session.write(json.dumps(reply | {"id": "r", "parentId": "e2"}) + "\n")
        watcher.poll()
    assert memory.status().undistilled == 0
    assert memory.status().batches_done == 1


def test_memory_lists_are_followed(settings, tmp_path):
    """Lists of a Redis server are read as they grow, and stay as they are."""
    server = EmbeddedValkey(settings.model_copy(update={"home": tmp_path / "other"}))
    try:
        import redis

        client = redis.Redis.from_url(server.url)
        entry = {"user_message": "a", "ai_response": "b", "conversation_id": "c1", "timestamp": 1772355600}
        with NeuralStream(settings, embedder=FakeEmbedder()) as memory, Positions(tmp_path / "w.sqlite") as positions:
            watcher = Watcher(memory, settings, [server.url], positions)
            assert watcher.poll().logs == 0
            client.rpush("mem:ana", json.dumps(entry))
            assert watcher.poll().captured == {"c1": 1}
            client.rpush("mem:ana", json.dumps(entry | {"user_message": "c", "timestamp": 1772355700}))
            assert watcher.poll().captured == {"c1": 1}
            assert watcher.poll().captured == {}
            assert [turn.text for turn in memory.thread("c1", user_id="ana")] == ["a\nb", "c\nb"]
        assert client.llen("mem:ana") == 2
        client.close()
    finally:
        server.close()


def test_a_server_that_is_down_is_said(watching):
    """The message names no password."""
    with (
        watching("redis://:secret@127.0.0.1:1/0") as watcher,
        pytest.raises(MissingPartError, match="mem-redis") as caught,
    ):
        watcher.poll()
    assert "secret" not in str(caught.value)


class Turmoil:
    """What may happen to a log, while somebody watches it."""

    def __init__(self, seed, session, watching, clock):
        self.chance = random.Random(seed)
        self.session, self.watching, self.clock = session, watching, clock
        self.torn = ""
        self.rotated = 0
        self.start()

    def start(self):
        self.opened = self.watching()
        self.watcher = self.opened.__enter__()

    def restart(self):
        # What a watcher holds back is read again by the next one, unless the log was cut meanwhile.
        if not self.watcher._waiting:
            self.opened.__exit__(None, None, None)
            self.start()

    def poll(self):
        self.watcher.poll()

    def user(self):
        self.mend()
        self.session.say("user")

    def reply(self):
        self.mend()
        self.session.say("assistant", self.chance.choice(["stop", "toolUse", None]))

    def tear(self):
        self.mend()
        line = self.session.line(self.chance.choice(["user", "assistant"]), "stop")
        place = self.chance.randrange(len(line))
        self.session.write(line[:place])
        self.torn = line[place:]

    def mend(self):
        self.session.write(self.torn)
        self.torn = ""

    def rotate(self):
        self.mend()
        self.session.file.rename(self.older())
        self.session.write("")

    def copy(self):
        self.mend()
        shutil.copy2(self.session.file, self.older())
        if self.chance.random() < 0.5:
            self.watcher.poll()
        self.empty()

    def cut(self):
        # What nobody ever saw cannot be known.
        self.mend()
        self.watcher.poll()
        self.empty()

    def rewrite(self):
        self.mend()
        text = self.session.file.read_text()
        self.empty()
        self.session.write(text[: self.chance.randrange(len(text) + 1)])
        self.watcher.poll()
        self.session.file.write_text(text)
        self.session.touch()

    def empty(self):
        os.truncate(self.session.file, 0)
        self.session.touch()

    def older(self):
        self.rotated += 1
        return self.session.file.with_name(f"s1.jsonl.{self.rotated}")

    def run(self, rounds):
        often = [self.user, self.reply, self.poll] * 2
        for _ in range(rounds):
            self.clock.now += 0.01
            happens = [*often, self.tear, self.rotate, self.copy, self.cut, self.rewrite, self.restart]
            self.chance.choice(happens)()
        self.mend()
        self.clock.now += 1e6
        self.poll()
        self.opened.__exit__(None, None, None)


def _check_each_once(memory, session):
    said = Counter(part.text for turn in memory.thread("s1") for part in turn.parts)
    assert said == Counter(session.said)


@pytest.mark.parametrize("seed", range(3))
def test_each_turn_is_captured_once_whatever_happens(seed, session, watching, memory, clock):
    """A short turmoil; the long one runs with the slow tests."""
    Turmoil(seed, session, watching, clock).run(60)
    _check_each_once(memory, session)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 43))
def test_each_turn_is_captured_once_in_a_long_turmoil(seed, session, watching, memory, clock):
    """Forty logs of three hundred steps each."""
    Turmoil(seed, session, watching, clock).run(300)
    _check_each_once(memory, session)
