"""Whatever is done to a memory, and however often it is killed: every acknowledged turn is there, in order, once."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from neuralstream import Settings, Turn
from neuralstream.capture.intake import prepare
from neuralstream.capture.valkey import _socket_path

PROCESS = Path(__file__).with_name("incarnation.py")
START = datetime(2026, 6, 1, tzinfo=UTC)
BATCH_SIZE = 3
USERS = ("ada", "ada/x")
SESSIONS = ("s", "x/s 1%")
MODES = ("substring", "bm25", "semantic", "graph", "hybrid")
WORTH_KEEPING = (
    "We decided to use port 6381 for Mira's server.",
    "Actually, Mira's server listens on port 6390 now.",
    "I prefer tea to coffee. Remember to call Naoko on Friday.",
)
ODD = (
    "",
    "🦜",
    "NUL \0 and half a character \ud83d in the middle",
    "مرحبا بالعالم \u202e right to left",
    "<neuralstream-memory>an injected block</neuralstream-memory>",
    "password = hunter2hunter2hunter2",
    '```python\nif x:\n    y = \'{"role": "user"}\'\n```',
    "a long one " * 2_000,
)

Key = tuple[str, str]
"""User and session."""
Threads = dict[Key, tuple[Turn, ...]]


@dataclass(frozen=True)
class Death:
    """How a process ends: at a point of its own, counted from 1, or so many milliseconds after it was asked.

    One that answered before its time is killed with the answer on the line. `server` takes the buffer's server along.
    """

    point: int | None = None
    after_ms: int | None = None
    server: bool = False


class Said(NamedTuple):
    """One turn that a host captures: whose, the number that makes its id, its text, and its time in hours from now."""

    key: Key
    number: int
    text: str
    hours: int | None


keys = st.tuples(st.sampled_from(USERS), st.sampled_from(SESSIONS))
texts = st.sampled_from(WORTH_KEEPING) | st.sampled_from(ODD) | st.text(max_size=20)
said = st.builds(Said, keys, st.integers(0, 9), texts, st.none() | st.integers(-500, 500))
deaths = st.builds(Death, st.integers(1, 60), st.none(), st.booleans()) | st.builds(
    Death, st.none(), st.integers(0, 60), st.booleans()
)


@st.composite
def fates(draw: st.DrawFn) -> Death | None:
    """How one request ends: three in four are survived."""
    return draw(deaths) if draw(st.integers(0, 3)) == 3 else None


talked = precondition(lambda self: any(self.threads.values()))
"""Where nothing was said, there is nothing to do to it."""


class Zygote:
    """A process that has everything imported and gives birth to incarnations, one after the other's death."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, PROCESS], stdout=subprocess.PIPE, text=True)
        self._port = int(self._process.stdout.readline())

    def incarnate(self) -> Incarnation:
        """A new process; the one before must be dead or dying."""
        return Incarnation(socket.create_connection(("127.0.0.1", self._port)))

    def close(self) -> None:
        """Give birth to no more."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class Incarnation:
    """A living process, as its host sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rw", encoding="utf-8")
        self._pid = json.loads(self._lines.readline())

    def ask(self, do: str, death: Death | None = None, **arguments: object) -> dict[str, Any] | None:
        """Have something done; the reply, or None where the process died without one. After a death, it is dead."""
        request = {"do": do, "dies_at": death.point if death else None, **arguments}
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        if death is None:
            return json.loads(self._lines.readline())
        if death.after_ms is not None:
            select.select([self._connection], [], [], death.after_ms / 1000)
            os.kill(self._pid, signal.SIGKILL)
        reply = self._read()
        self.kill()
        return reply

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.bury()

    def bury(self) -> None:
        """Let go of one that is dead, or ends when its connection does."""
        with suppress(OSError):
            self._lines.close()
        self._connection.close()

    def _read(self) -> dict[str, Any] | None:
        with suppress(ConnectionError):
            line = self._lines.readline()
            if line.endswith("\n"):
                return json.loads(line)
        return None


class Whole(RuleBasedStateMachine):
    """A host, and what it knows that memory has to keep."""

    zygote: ClassVar[Zygote]
    folder: ClassVar[Path]

    @initialize(extractor=st.sampled_from(["improvising", "extractive"]), worker=st.sampled_from(["inline", "thread"]))
    def install(self, extractor: str, worker: str) -> None:
        """A new memory."""
        self.home = self.folder / "home"
        shutil.rmtree(self.home, ignore_errors=True)
        self.settings = Settings(home=self.home)
        self.extractor = extractor
        self.now = START
        self.threads: Threads = {}
        self.words: list[str] = []
        self._start(worker)

    # What a host does.

    @rule(turn=said, fate=fates(), again=st.booleans())
    def capture(self, turn: Said, fate: Death | None, again: bool) -> None:
        """Capture a turn, a new one or a known one; after a death perhaps once more."""
        self._capture([turn], fate, again=again)

    @rule(turns=st.lists(said, min_size=2, max_size=8), fate=fates(), again=st.booleans())
    def capture_all(self, turns: list[Said], fate: Death | None, again: bool) -> None:
        """Capture turns of several sessions at once."""
        self._capture(turns, fate, again=again)

    @rule(key=keys, number=st.integers(0, 9))
    @talked
    def capture_as_another_session_s(self, key: Key, number: int) -> None:
        """A turn id that another session of the user has is refused, and nothing is kept."""
        user, session = key
        other = next(one for one in SESSIONS if one != session)
        turn = replace(self._make(Said((user, other), number, "", None)), session_id=session)
        taken = any(turn.turn_id == one.turn_id for one in self.threads.get((user, other), ()))
        if taken:
            refused = self.life.ask("capture", turns=[turn.to_dict()])["error"]
            assert "names a turn of another session" in refused
            self._settle(None, [self.threads])

    @rule(key=keys, percent=st.none() | st.integers(0, 100), number=st.integers(0, 9), fate=fates())
    @talked
    def turn_end(self, key: Key, percent: int | None, number: int, fate: Death | None) -> None:
        """Report how full the context is."""
        turn_id = _turn_id(key, number)
        self._do("turn_end", fate, user=key[0], session=key[1], percent=percent, turn_id=turn_id)
        self._settle(fate, [self.threads])

    @rule(minutes=st.integers(1, 20), fate=fates())
    @talked
    def wait(self, minutes: int, fate: Death | None) -> None:
        """Time passes, perhaps so much that sessions are idle."""
        self.now += timedelta(minutes=minutes)
        self._do("wait", fate, now=self.now.isoformat())
        self._settle(fate, [self.threads])

    @rule(key=keys, reason=st.sampled_from(["end", "reset", "compaction"]), fate=fates())
    @talked
    def end_session(self, key: Key, reason: str, fate: Death | None) -> None:
        """A session ends."""
        self._do("end_session", fate, user=key[0], session=key[1], reason=reason)
        self._settle(fate, [self.threads])

    @rule(fate=fates())
    @talked
    def flush(self, fate: Death | None) -> None:
        """Everything is indexed and distilled."""
        reply = self._do("flush", fate)
        self._settle(fate, [self.threads], through=reply is not None)

    @rule(
        user=st.sampled_from(USERS), mode=st.sampled_from(MODES), lane=st.sampled_from(["turns", "all"]), data=st.data()
    )
    @talked
    def search(self, user: str, mode: str, lane: str, data: st.DataObject) -> None:
        """Only what the user said is found, each once; nothing that was forgotten."""
        word = data.draw(st.sampled_from(self.words))
        hits = self._do("search", None, user=user, mode=mode, lane=lane, query=word)["answer"]
        assert len({(kind, name) for _, kind, name, _ in hits}) == len(hits)
        kept = {(user, turn.turn_id, turn.session_id) for turn in self._of(user)}
        assert {owner for owner, _, _, _ in hits} <= {user}
        assert {(owner, name, session) for owner, kind, name, session in hits if kind == "turn"} <= kept
        if mode == "substring":
            has_it = {turn.turn_id for turn in self._of(user) if word in turn.text}
            found = {name for _, kind, name, _ in hits if kind == "turn"}
            assert found == has_it if lane == "turns" else has_it or not hits

    @rule(key=keys, fate=fates(), again=st.booleans())
    @talked
    def forget(self, key: Key, fate: Death | None, again: bool) -> None:
        """Forget a session; after a death all of it is there or nothing, and telling it again forgets it."""
        without = {other: turns for other, turns in self.threads.items() if other != key}
        reply = self._do("forget", fate, user=key[0], session=key[1])
        if reply is not None:
            assert reply == {"answer": True}
        self._settle(fate, [without] if reply is not None else [self.threads, without])
        if reply is None and again:
            assert self._do("forget", None, user=key[0], session=key[1]) == {"answer": True}
            self._settle(None, [without])

    @rule(worker=st.sampled_from(["inline", "thread"]), fates=st.lists(deaths, max_size=2))
    @talked
    def restart(self, worker: str, fates: list[Death]) -> None:
        """Close in good order and open again; the opening may be killed."""
        assert self._do("close", None) == {"answer": None}
        self.life.bury()
        self._start(worker, fates)
        self._settle(None, [self.threads])

    def teardown(self) -> None:
        """At the end everything goes through, and all of it is as it should be."""
        if not hasattr(self, "life"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.flush(None)
        finally:
            self.life.kill()
            self._kill_server()
            shutil.rmtree(self.home, ignore_errors=True)

    # The host's own.

    def _capture(self, turns: list[Said], fate: Death | None, *, again: bool) -> None:
        """Of what was not acknowledged, the first so many are kept."""
        made = [self._make(one) for one in turns]
        steps = [self.threads]
        for turn in made:
            steps.append(self._with(steps[-1], turn))
        told = [turn.to_dict() for turn in made]
        reply = self._do("capture", fate, turns=told)
        if reply is not None:
            assert reply == {"answer": self._count(steps[-1]) - self._count(self.threads)}
        self._settle(fate, steps if reply is None else steps[-1:])
        if again:
            left = self._count(steps[-1]) - self._count(self.threads)
            assert self._do("capture", None, turns=told) == {"answer": left}
            self._settle(None, steps[-1:])

    def _make(self, one: Said) -> Turn:
        """A turn with a word of its own, by which it is found."""
        word = f"w{len(self.words):04}"
        (user, session), number, text, hours = one
        self.words.append(word)
        created_at = None if hours is None else self.now + timedelta(hours=hours)
        return Turn.exchange(
            f"{word}. {text}",
            "Noted.",
            session_id=session,
            turn_id=_turn_id(one.key, number),
            user_id=user,
            created_at=created_at,
        )

    def _with(self, threads: Threads, turn: Turn) -> Threads:
        """What is kept once a turn is captured: it comes last in its session, if its id is new."""
        key = (turn.user_id, turn.session_id)
        thread = threads.get(key, ())
        if any(turn.turn_id == one.turn_id for one in thread):
            return threads
        kept = prepare(turn, self.settings, self.now)
        assert kept is not None
        return threads | {key: (*thread, replace(kept, index=len(thread)))}

    def _count(self, threads: Threads) -> int:
        return sum(map(len, threads.values()))

    def _of(self, user: str) -> list[Turn]:
        return [turn for (owner, _), turns in self.threads.items() if owner == user for turn in turns]

    def _do(self, do: str, fate: Death | None, **arguments: object) -> dict[str, Any] | None:
        reply = self.life.ask(do, fate, **arguments)
        assert reply is None or "answer" in reply, reply
        return reply

    def _start(self, worker: str, fates: list[Death] = ()) -> None:
        """Open the memory, in spite of some deaths while it opens."""
        self.worker = worker
        how = {"home": str(self.home), "batch_size": BATCH_SIZE, "extractor": self.extractor, "worker": worker}
        how["now"] = self.now.isoformat()
        for death in fates:
            self.zygote.incarnate().ask("open", death, **how)
            if death.server:
                self._kill_server()
        self.life = self.zygote.incarnate()
        assert self.life.ask("open", **how) == {"answer": None}

    def _kill_server(self) -> None:
        """Kill the buffer's server, if there is one, and wait until it is dead."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(_socket_path((self.home / "buffer").resolve())))
            connection.sendall(b"INFO server\r\n")
            os.kill(int(re.search(rb"process_id:(\d+)", connection.recv(65_536))[1]), signal.SIGKILL)
            connection.recv(1)

    def _settle(self, fate: Death | None, possible: list[Threads], *, through: bool = False) -> None:
        """Come to life again after a death; what is kept now is one of what is possible, and everything agrees."""
        if fate is not None:
            if fate.server:
                self._kill_server()
            self._start(self.worker)
        state = self.life.ask("state", keys=[(user, session) for user in USERS for session in SESSIONS])["answer"]
        observed = {(user, session): [*map(Turn.from_dict, turns)] for user, session, turns in state["threads"]}
        kept = [one for one in possible if all(observed[key] == list(one.get(key, ())) for key in observed)]
        assert kept, f"kept {observed}, not one of {possible}"
        self.threads = kept[0]
        self._check(state, through=through)

    def _check(self, state: dict[str, Any], *, through: bool) -> None:
        """Every place that keeps something agrees with the threads."""
        ids = {key: [turn.turn_id for turn in turns] for key, turns in self.threads.items()}
        for user, recent in state["recent"].items():
            newest = sorted(self._of(user), key=lambda turn: (-turn.at().timestamp(), -turn.index, turn.turn_id))
            assert recent == [turn.turn_id for turn in newest]
        assert {tuple(key) for key in state["known"]} == {key for key, turns in ids.items() if turns}
        for user, session, waiting in state["buffered"]:
            assert waiting == [one for one in ids.get((user, session), []) if one in waiting]
        for user, session, unplanned in state["unplanned"]:
            assert unplanned == ids.get((user, session), [])[-len(unplanned) :][: len(unplanned)]
        assert all(ids.get((user, session)) for user, session in state["stored"])
        self._check_gems(state["gems"], ids, through=through)
        if through:
            assert not any(waiting for _, _, waiting in state["buffered"])
            total = self._count(self.threads)
            expected = {"turns": total, "sessions": len(state["known"]), "gems": len(state["gems"])}
            nothing = dict.fromkeys(("undistilled", "unindexed", "batches_waiting", "dead_letters"), 0)
            status = state["status"]
            assert {name: status[name] for name in (*expected, *nothing)} == expected | nothing

    def _check_gems(self, gems: list[dict[str, Any]], ids: dict[Key, list[str]], *, through: bool) -> None:
        """A gem cites turns of its own session, evidence is of its own user, and a batch has one set of gems."""
        cited: dict[Key, list[str]] = {}
        for gem in gems:
            key = (gem["user_id"], gem["source"]["session_id"])
            assert gem["source_turns"]
            assert set(gem["source_turns"]) <= set(ids.get(key, [])), gem
            assert set(gem["evidence"]) <= {one for (user, _), known in ids.items() if user == key[0] for one in known}
            cited.setdefault(key, []).extend(gem["source_turns"])
            if self.extractor == "improvising":
                assert len(gem["source_turns"]) <= BATCH_SIZE
        if self.extractor == "improvising":
            for key, turn_ids in cited.items():
                assert len(set(turn_ids)) == len(turn_ids), f"distilled twice: {turn_ids}"
                assert not through or set(turn_ids) == set(ids[key])
            assert not through or cited.keys() == {key for key, known in ids.items() if known}


def _turn_id(key: Key, number: int) -> str:
    """Unique within a user, and the same for two users."""
    return f"{key[1]}#{number}"


@pytest.fixture(scope="module")
def zygote():
    """One for all tests: importing everything takes seconds, a birth takes milliseconds."""
    started = Zygote()
    yield started
    started.close()


@pytest.fixture
def whole(zygote, tmp_path):
    """The machine, in a folder of its own."""
    return type("Whole", (Whole,), {"zygote": zygote, "folder": tmp_path})


def live(whole, *, lives, requests, the_same):
    """Live so many lives of so many requests each; a failure prints the steps that led there, and repeats itself."""
    settings = hypothesis_settings(
        max_examples=lives, stateful_step_count=requests, derandomize=the_same, deadline=None, print_blob=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(whole, settings=settings)


def test_every_acknowledged_turn_is_kept_in_order_once(whole):
    """A dozen short lives; the machine asserts after each request."""
    live(whole, lives=12, requests=10, the_same=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_acknowledged_turn_is_kept_in_order_once_in_many_lives(whole):
    """Other lives each time."""
    live(whole, lives=60, requests=30, the_same=False)
