"""The schedule: short lives that end at random, a long one whose memory is watched, and one that tells what is left."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from benchmarks.soak.checks import (
    Check,
    Known,
    Promised,
    as_metrics,
    check_memory,
    check_what_is_known,
    metrics_differences,
)
from benchmarks.soak.host import Actor, Browser, Connection, Host, Ledger, Phase, Talker, ToolUser
from benchmarks.soak.service import Ending, Life, Model, Sample, Service, Tally, memory_of

__all__ = ["Planned", "Soak", "plan"]

USERS = ("ada", "ben", "cleo", "dora")

_SHORT_LIVES = 0.3
"""Share of the time; the rest is the long life's, which talks, searches, and replaces."""

_LONG_LIFE: tuple[tuple[Phase, float], ...] = (("talk", 0.1), ("search", 0.4), ("replace", 0.5))
_LIFE_SECONDS = 24.0
_ENDINGS: tuple[Ending, ...] = ("SIGKILL", "SIGTERM", "SIGKILL, Valkey's too", "SIGKILL while it starts")
_SAMPLE_SECONDS = 0.5
_START_SECONDS = 120.0
_SETTLE_SECONDS = 180.0
_POLL_SECONDS = 0.05
_PAUSE = 0.01
"""Seconds that an actor waits between two steps."""

_MOST = 1000
"""Hits, the most that one question may ask for."""

_FORGOTTEN_ASKED = 10
"""Forgotten sessions of each user, the last ones, that are looked for at the end."""


class Planned(NamedTuple):
    """How long a life listens, in seconds, and how it ends; one that is killed while it starts never listens."""

    seconds: float
    ending: Ending


def plan(seconds: float, seed: int) -> list[Planned]:
    """The short lives: every ending as often as every other, in random order, lengths apart by a factor of up to 3.

    Args:
        seconds: that all of them listen, together.
        seed: the same one gives the same lives.
    """
    chance = random.Random(seed)  # noqa: S311 - for repetition
    number = max(1, round(seconds / _LIFE_SECONDS / (len(_ENDINGS) - 1))) * len(_ENDINGS)
    endings = [_ENDINGS[at % len(_ENDINGS)] for at in range(number)]
    chance.shuffle(endings)
    weights = [0.0 if ending == "SIGKILL while it starts" else chance.uniform(0.5, 1.5) for ending in endings]
    return [Planned(seconds * weight / sum(weights), ending) for weight, ending in zip(weights, endings, strict=True)]


@dataclass
class Soak:
    """A soak and what it found.

    Args:
        seconds: that the service listens, all lives together.
        seed: of the schedule and of what the host does.
    """

    service: Service
    model: Model
    seconds: float
    seed: int
    lives: list[Life] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def run(self) -> None:
        """Go through all lives, then check."""
        self._host = Host(self.service)
        self._connections = {user: Connection(self._host, user) for user in USERS}
        self._chance = random.Random(self.seed)  # noqa: S311 - for repetition
        actors: list[Actor] = [Talker(self._host, user, self.seed, pause=_PAUSE) for user in USERS]
        actors += [Browser(self._host, USERS[0], self.seed, pause=_PAUSE)]
        actors += [ToolUser(self._host, USERS[1], self.seed, pause=_PAUSE)]
        for actor in actors:
            actor.start()
        try:
            for planned in plan(self.seconds * _SHORT_LIVES, self.seed):
                self._short_life(planned)
            self._long_life()
            self._last_life()
        finally:
            self._host.over.set()
        for actor in actors:
            actor.join()
        for connection in self._connections.values():
            connection.close()
        self._check_the_lives()

    def _short_life(self, planned: Planned) -> None:
        life = self._begin(planned.ending)
        if planned.ending == "SIGKILL while it starts":
            # Somewhere on the way: before it takes over the Valkey, while it opens the store, before it listens.
            self._host.over.wait(self._chance.uniform(0.5, 4))
        else:
            with self._listening(life):
                audit = self._chance.uniform(0.3, 0.9) * planned.seconds
                self._go_on(audit)
                self._audit(life)
                self._go_on(planned.seconds - audit)
        self._end(life)

    def _long_life(self) -> None:
        life = self._begin("SIGTERM")
        share = self.seconds * (1 - _SHORT_LIVES)
        with self._listening(life):
            for phase, part in _LONG_LIFE:
                if phase == "search":
                    self._find_everything()
                before = self._at_rest(life)
                began = len(life.samples)
                self._host.phase = phase
                self._go_on(share * part)
                samples = life.samples[began:]
                after = self._at_rest(life)
                if phase != "talk":
                    self.checks += check_memory(f"{phase} only", samples)
                    wrong = [
                        f"{one}: {before[one]:,}, then {after[one]:,}" for one in before if before[one] != after[one]
                    ]
                    told = ", ".join(f"{value:,} {name}" for name, value in after.items())
                    self.checks.append(Check.that(f"{phase} only: as much is stored as before", wrong, told))
            self._host.phase = "talk"
            self._go_on(self._chance.uniform(0.1, 0.5))
        self._end(life)

    def _last_life(self) -> None:
        """Distil everything, audit, and ask what is known."""
        self._host.phase = "rest"
        life = self._begin("SIGTERM")
        with self._listening(life):
            self._go_on(_SAMPLE_SECONDS)
            with self._host.paused():
                known = {}
                for user, ledger in self._host.ledgers.items():
                    self._end_sessions(user)
                    self._settle()
                    known[user] = _what_is_known(self._connections[user], ledger)
            self._audit(life)
        promised = {
            user: Promised(one.sessions, one.forgotten, one.planted, one.uncited)
            for user, one in self._host.ledgers.items()
        }
        self.checks = check_what_is_known(promised, known) + self.checks
        self._end(life)

    # Parts of a life.

    def _begin(self, ending: Ending) -> Life:
        life = Life(len(self.lives) + 1, ending)
        self.lives.append(life)
        self.model.reset()
        self._host.tally = life.tally
        self.service.start()
        return life

    @contextmanager
    def _listening(self, life: Life) -> Iterator[None]:
        """Wait until the service listens; sample it meanwhile; then say that it is not up any more."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self.service.has_ended() or time.monotonic() > deadline:
                raise RuntimeError(f"life {life.number} did not listen; {self.service.log} says why")
            time.sleep(_POLL_SECONDS)
        self._host.up.set()
        began, done = time.monotonic(), threading.Event()
        sampler = threading.Thread(target=self._sample, args=(life, began, done), daemon=True)
        sampler.start()
        try:
            yield
        finally:
            self._host.up.clear()
            done.set()
            sampler.join()
            life.seconds = time.monotonic() - began

    def _end(self, life: Life) -> None:
        life.code = self.service.end(life.ending)

    def _go_on(self, seconds: float) -> None:
        self._host.over.wait(seconds)
        if self._host.broken:
            raise RuntimeError(f"the host failed: {self._host.broken[0]}")
        if self.service.has_ended():
            raise RuntimeError(f"the service ended by itself; {self.service.log} says why")

    def _answers(self) -> bool:
        """Whether the port is taken; nothing is asked, for the answer would have to be counted."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.service.port)) == 0

    def _sample(self, life: Life, began: float, done: threading.Event) -> None:
        valkey = self.service.buffered().pid
        while not done.wait(_SAMPLE_SECONDS):
            own, buffer = memory_of(self.service.pid), memory_of(valkey)
            if own is not None and buffer is not None:
                answers = sum(life.tally.answers.values())
                life.samples.append(Sample(time.monotonic() - began, self._host.phase, answers, own, buffer))

    # What is asked while the host rests.

    def _audit(self, life: Life) -> dict[str, float]:
        """Hold `/metrics` against what the host counted."""
        with self._host.paused():
            samples, tally = self._settle()
            ledgers = self._host.ledgers.values()
            held = {
                'neuralstream_stored{kind="turns"}': sum(len(s) for one in ledgers for s in one.sessions.values()),
                "neuralstream_sessions": sum(len(one.sessions) for one in ledgers),
                "neuralstream_dead_letters": sum(len(one.planted) for one in ledgers),
                "neuralstream_model_calls_total": self.model.calls,
                "neuralstream_ready": 1,
            }
            life.audits += 1
            life.differences += metrics_differences(samples, tally, held)
            return samples

    def _at_rest(self, life: Life) -> dict[str, int]:
        """Distil what sessions have left, which could be due at any time, and audit; how much is stored then."""
        with self._host.paused():
            for user in USERS:
                self._end_sessions(user)
        samples = self._audit(life)
        with self._host.paused():
            stored = {kind: int(samples[f'neuralstream_stored{{kind="{kind}"}}']) for kind in ("turns", "gems")}
            return stored | {"keys in the buffer": self.service.buffered().keys}

    def _find_everything(self) -> None:
        """Have all that is stored found once: what a service remembers of that is bounded by it, and no leak."""
        with self._host.paused():
            for user, ledger in self._host.ledgers.items():
                for lane in ("turns", "gems"):
                    body = {"query": ledger.said[-1], "mode": "semantic", "lane": lane, "k": _MOST}
                    self._connections[user].ask("POST", "/v1/search", body)

    def _end_sessions(self, user: str) -> None:
        for session in self._host.ledgers[user].sessions:
            self._connections[user].ask("POST", f"/v1/sessions/{quote(session, safe='')}/end")

    def _settle(self) -> tuple[dict[str, float], Tally]:
        """Wait until nothing is due any more: `/metrics` then, and what the host had counted before it asked."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            counted = Tally(self._host.tally.answers.copy())
            for name in ("captures", "new", "queries"):
                setattr(counted, name, getattr(self._host.tally, name))
            samples = as_metrics(self._connections[USERS[0]].ask("GET", "/metrics").text)
            if not samples["neuralstream_batches_waiting"] and not samples['neuralstream_lag_turns{stage="index"}']:
                return samples, counted
            if time.monotonic() > deadline:
                raise RuntimeError(f"work is left after {_SETTLE_SECONDS:g} s; {self.service.log} says why")
            time.sleep(_POLL_SECONDS)

    # The verdict over all lives.

    def _check_the_lives(self) -> None:
        tallies = [life.tally for life in self.lives]
        answers = sum(sum(tally.answers.values()) for tally in tallies)
        lives = len(self.lives)
        termed = [life for life in self.lives if life.ending == "SIGTERM"]
        audits = sum(life.audits for life in self.lives)
        log = self.service.log.read_text(encoding="utf-8")
        self.checks += [
            Check.that(
                "nobody was told anything of another user",
                [line for tally in tallies for line in tally.told_of_others],
                f"{answers:,} answers read",
            ),
            Check.that(
                "every request to a service that was up was answered as documented",
                [f"life {life.number}: {line}" for life in self.lives for line in life.tally.wrong],
                f"{answers:,} requests",
            ),
            Check.that(
                "/metrics adds up",
                [f"life {life.number}: {line}" for life in self.lives for line in life.differences],
                f"{audits} audits in {lives} lives",
            ),
            Check.that(
                "SIGTERM ends with exit code 0",
                [f"life {life.number}: {life.code}" for life in termed if life.code != 0],
                f"{len(termed)} lives",
            ),
            Check.that("the service logged no crash", _crashes(log), f"{len(log.splitlines()):,} lines"),
            Check.that("the host did not fail", self._host.broken, f"{lives} lives"),
        ]


def _what_is_known(connection: Connection, ledger: Ledger) -> Known:
    sessions, gems = {}, []
    for one in connection.ask("GET", "/v1/sessions", limit=1000).json()["sessions"]:
        session = one["session_id"]
        thread = connection.ask("GET", f"/v1/sessions/{quote(session, safe='')}").json()
        sessions[session] = [turn["turn_id"] for turn in thread["turns"]]
        gems += connection.ask("GET", "/v1/gems", session_id=session, status="any", limit=1000).json()["gems"]
    letters = connection.ask("GET", "/v1/deadletters").json()["dead_letters"]
    found = []
    for session, turns in list(ledger.forgotten.items())[-_FORGOTTEN_ASKED:]:
        if connection.ask("GET", f"/v1/sessions/{quote(session, safe='')}", also=(404,)).status_code != 404:
            found.append(f"session {session} is there")
        body = {"query": " ".join(turns), "session_id": session, "k": 10}
        found += [f"{hit['id']} is found" for hit in connection.ask("POST", "/v1/search", body).json()["hits"]]
    return Known(sessions, gems, [[turn["turn_id"] for turn in one["turns"]] for one in letters], found)


def _crashes(log: str) -> Sequence[str]:
    """The last line of each traceback."""
    return [part.strip().splitlines()[-1][:300] for part in log.split("Traceback (most recent call last):")[1:]]
