"""A host of agents, made up: users who talk in several sessions at once, one with the page open, one with MCP tools.

Whatever is not answered is sent again until it is, as a host does while the service is down. What was acknowledged is
written in the user's ledger, which the checks hold against what the service still knows at the end.
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

import httpx

from benchmarks import corpus
from benchmarks.soak.service import UNREADABLE, Service, Tally

__all__ = ["Actor", "Browser", "Connection", "Host", "Ledger", "Phase", "Talker", "ToolUser", "mark"]

Phase = Literal["talk", "search", "replace", "rest"]
"""What the host does: all a host does; ask only; keep and forget the same amount; nothing."""

_RETRY_SECONDS = 0.1
_ANSWER_SECONDS = 300.0
_OPEN_SESSIONS = 4
_TURNS_REPLACED = 10
_MODES = ("substring", "bm25", "semantic", "graph", "hybrid", None)
_LANES = ("turns", "gems", "all", None)
_PAGE_FILES = ("/", "/page/app.js", "/page/api.js", "/page/style.css", "/page/icon.svg")


class Over(Exception):  # noqa: N818 - it ends a thread, and nothing is wrong
    """The soak is over, and what waits for an answer need not."""


def mark(user: str) -> str:
    """How every session, and with it every turn, of a user begins: no answer to another user may hold it."""
    return f"of-{user}-"


@dataclass
class Ledger:
    """What a user was promised.

    Attributes:
        sessions: acknowledged turns by session, in the order they were sent.
        forgotten: the same of sessions that were forgotten.
        planted: turns that cannot be distilled.
        uncited: turns whose gem was deleted.
        said: what was said lately, to ask about.
    """

    user: str
    sessions: dict[str, list[str]] = field(default_factory=dict)
    forgotten: dict[str, list[str]] = field(default_factory=dict)
    planted: list[str] = field(default_factory=list)
    uncited: set[str] = field(default_factory=set)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=500))


class Host:
    """All users, and what they share.

    Attributes:
        phase: what they do now.
        up: set while the service listens and nobody has ended it.
        over: set when they are to stop.
        tally: of the life that is going on.
        broken: tracebacks of actors that failed.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.ledgers = {user: Ledger(user) for user in service.tokens}
        self.phase: Phase = "talk"
        self.up = threading.Event()
        self.over = threading.Event()
        self.tally = Tally()
        self.lock = threading.Lock()
        self.broken: list[str] = []
        self._texts = corpus.turns(10**9)
        self._steps = 0
        self._may_step = True
        self._changed = threading.Condition()

    @contextmanager
    def step(self) -> Iterator[None]:
        """One thing an actor does, with all its requests; none is begun while `paused`."""
        with self._changed:
            while not self._may_step:
                self._changed.wait()
            self._steps += 1
        try:
            yield
        finally:
            with self._changed:
                self._steps -= 1
                self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait until every step is done, and let none begin meanwhile; only while the service is up."""
        with self._changed:
            self._may_step = False
            while self._steps:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._may_step = True
                self._changed.notify_all()

    def text(self) -> tuple[str, str]:
        """A question and a reply that nobody said yet."""
        with self.lock:
            user, assistant = next(self._texts).parts
        return user.text, assistant.text


class Connection:
    """A user's connection to the service, which goes on through its ends and starts."""

    def __init__(self, host: Host, user: str) -> None:
        self._host = host
        self._user = user
        self._others = [mark(other) for other in host.ledgers if other != user]
        headers = {
            "Authorization": f"Bearer {host.service.tokens[user]}",
            "Accept": "application/json, text/event-stream",
        }
        self._http = httpx.Client(base_url=host.service.url, headers=headers, timeout=_ANSWER_SECONDS)

    def ask(
        self, method: str, path: str, body: Any = None, *, also: tuple[int, ...] = (), **params: object
    ) -> httpx.Response:
        """The answer, however often it has to be asked for; statuses but 200 and those of `also` are noted as wrong."""
        host = self._host
        asked = {name: str(value) for name, value in params.items()}
        while True:
            if host.over.is_set():
                raise Over
            # Noted before it is sent: a life that had ended by then cannot answer, nor one that is not begun.
            tally, was_up = host.tally, host.up.is_set()
            try:
                answer = self._http.request(method, path, json=body, params=asked)
            except httpx.HTTPError as error:
                told = f"{method} {path}: {type(error).__name__} {error}"
                with host.lock:
                    tally.failures[type(error).__name__] += 1
                    if was_up and host.up.is_set():
                        tally.wrong.append(told)
                host.over.wait(_RETRY_SECONDS)
                continue
            self._note(tally, method, path, answer, also)
            return answer

    def close(self) -> None:
        """Let go of the sockets."""
        self._http.close()

    def _note(self, tally: Tally, method: str, path: str, answer: httpx.Response, also: tuple[int, ...]) -> None:
        text = answer.text
        with self._host.lock:
            tally.answers[method, answer.status_code] += 1
            if answer.status_code not in (200, *also):
                tally.wrong.append(f"{method} {path}: {answer.status_code} {text[:200]}")
            elif answer.status_code == 200:
                if path == "/v1/turns":
                    tally.captures += 1
                    tally.new += answer.json()["new"]
                tally.queries += path in ("/v1/search", "/v1/context")
            if any(other in text for other in self._others):
                tally.told_of_others.append(f"{self._user} asked {method} {path}: {text[:200]}")


class Actor(threading.Thread):
    """A thread that takes steps until the soak is over. A subclass says which, by phase."""

    def __init__(self, host: Host, user: str, seed: int, *, pause: float) -> None:
        super().__init__(name=f"{type(self).__name__} {user}", daemon=True)
        self.host = host
        self.ledger = host.ledgers[user]
        self.random = random.Random(f"{seed} {self.name}")  # noqa: S311 - for repetition, not for secrets
        self.connection = Connection(host, user)
        self._pause = pause

    def run(self) -> None:
        """Step after step."""
        try:
            while not self.host.over.is_set():
                with self.host.step():
                    self.act(self.host.phase)
                self.host.over.wait(self._pause)
        except Over:
            pass
        except Exception:  # noqa: BLE001 - the thread's boundary: a check tells it
            self.host.broken.append(f"{self.name}: {traceback.format_exc()}")
        finally:
            self.connection.close()

    def act(self, phase: Phase) -> None:
        """One step."""
        raise NotImplementedError

    def query(self) -> str:
        """Some words of what was said lately, never asked together before."""
        words = self.random.choice(list(self.ledger.said) or ["nothing was said yet"]).split()
        return " ".join(self.random.sample(words, min(6, len(words)))) + f" {self.random.getrandbits(32)}?"


class Talker(Actor):
    """A user who talks to agents: context, turn, usage, and now and then all else that a host reports."""

    def __init__(self, host: Host, user: str, seed: int, *, pause: float) -> None:
        super().__init__(host, user, seed, pause=pause)
        self._open: list[str] = []
        self._fill: dict[str, float] = {}
        self._numbers = 0

    def act(self, phase: Phase) -> None:
        """See Actor."""
        if phase == "talk":
            self._talk()
        elif phase == "search":
            self._ask()
        elif phase == "replace":
            self._replace()

    def _talk(self) -> None:
        while len(self._open) < _OPEN_SESSIONS:
            self._open.append(self._new_session())
        # The first are spoken in far more often than the last, which fall silent and are idle.
        session = self._open[min(int(self.random.expovariate(1.2)), _OPEN_SESSIONS - 1)]
        self._context(session)
        self._say(session)
        chance = self.random.random()
        if chance < 0.15:
            self._ask()
        elif chance < 0.18:
            self._leave(session, "reset")
        elif chance < 0.20:
            # Left without a word, as when a terminal is closed.
            self._open.remove(session)
        elif chance < 0.205:
            self._plant()
        elif chance < 0.212:
            self._forget(self.random.choice(list(self.ledger.sessions)))

    def _say(self, session: str) -> None:
        question, reply = self.host.text()
        turn = self._capture(session, question, reply)
        self.ledger.said.append(question)
        fill = self._fill.get(session, 10) + self.random.uniform(2, 12)
        usage = self.random.choice(
            [{"percent": fill}, {"tokens": int(fill * 2000), "context_window": 200_000}, {"percent": None}, None]
        )
        body = {"session_id": session, "usage": usage, "turn_id": turn}
        self.connection.ask("POST", "/v1/turn_end", body)
        if fill >= 90:
            self._end(session, "compaction")
            fill = 20.0
        self._fill[session] = fill

    def _capture(self, session: str, question: str, reply: str) -> str:
        turns = self.ledger.sessions.get(session, [])
        turn_id = f"{session}-{len(turns)}"
        body = {"session_id": session, "turn_id": turn_id, "user": question, "assistant": reply}
        self.connection.ask("POST", "/v1/turns", {"turns": [body]})
        self.ledger.sessions.setdefault(session, turns).append(turn_id)
        return turn_id

    def _ask(self) -> None:
        chance = self.random.random()
        if chance < 0.6:
            body = {
                "query": self.query(), "mode": self.random.choice(_MODES), "lane": self.random.choice(_LANES), "k": 10,
                "explain": chance < 0.1,
            }  # fmt: skip
            self.connection.ask("POST", "/v1/search", body)
        elif chance < 0.8:
            self._context(self._open[0] if self._open else None)
        elif chance < 0.95:
            self.connection.ask("GET", "/v1/recent", limit=20, kind=self.random.choice(("turn", "gem")))
        elif self.ledger.sessions:
            session = self.random.choice(list(self.ledger.sessions))
            self.connection.ask("GET", f"/v1/sessions/{quote(session, safe='')}")

    def _context(self, session: str | None) -> None:
        self.connection.ask("POST", "/v1/context", {"query": self.query(), "session_id": session})

    def _leave(self, session: str, reason: str) -> None:
        self._end(session, reason)
        self._open.remove(session)

    def _plant(self) -> None:
        session = f"{self._new_session()}-planted"
        self.ledger.planted.append(self._capture(session, f"This is {UNREADABLE}.", "It is."))
        self._end(session, "end")

    def _replace(self) -> None:
        """Keep a session and forget it: afterwards there is as much as before."""
        session = self._new_session()
        for _ in range(_TURNS_REPLACED):
            self._say(session)
        self._ask()
        self._end(session, "end")
        self._forget(session)

    def _forget(self, session: str) -> None:
        if session.endswith("-planted"):
            return
        if session in self._open:
            self._open.remove(session)
        # Sent again after a kill, it may be gone already.
        answer = self.connection.ask("POST", "/v1/forget", {"session_id": session}, also=(404,))
        with self.host.lock:
            if answer.status_code == 200 and not answer.json()["proved"]:
                self.host.tally.wrong.append(f"forgetting {session} was not proved: {answer.text[:500]}")
            self.ledger.forgotten[session] = self.ledger.sessions.pop(session)
            self._fill.pop(session, None)

    def _end(self, session: str, reason: str) -> None:
        self.connection.ask("POST", f"/v1/sessions/{quote(session, safe='')}/end", {"reason": reason})

    def _new_session(self) -> str:
        self._numbers += 1
        return f"{mark(self.ledger.user)}{self._numbers}"


class Browser(Actor):
    """Somebody who has the page open, looks at all of it, and corrects and deletes a gem now and then."""

    def act(self, phase: Phase) -> None:
        """See Actor."""
        if phase == "rest":
            return
        chance, ask = self.random.random(), self.connection.ask
        if chance < 0.2:
            ask("GET", self.random.choice(_PAGE_FILES))
        elif chance < 0.4:
            ask("GET", "/v1/status")
            ask("GET", "/v1/gems", limit=8)
            ask("GET", "/v1/sessions", limit=8)
        elif chance < 0.6:
            self._look_at_a_session()
        elif chance < 0.8:
            self._look_at_a_gem(may_change=phase == "talk")
        elif chance < 0.95:
            ask("GET", self.random.choice(("/healthz", "/readyz", "/metrics", "/v1/deadletters", "/openapi.json")))
        elif chance < 0.96:
            ask("POST", "/v1/deadletters/retry")
        else:
            ask("GET", "/v1/themes", limit=5)

    def _look_at_a_session(self) -> None:
        sessions = self.connection.ask("GET", "/v1/sessions", limit=8).json()["sessions"]
        if sessions:
            session = quote(self.random.choice(sessions)["session_id"], safe="")
            self.connection.ask("GET", f"/v1/timeline/{session}", also=(404,))
        word = self.query().split()[0]
        self.connection.ask("GET", f"/v1/entities/{word}", also=(404,))

    def _look_at_a_gem(self, *, may_change: bool) -> None:
        gems = self.connection.ask("GET", "/v1/gems", limit=8).json()["gems"]
        if not gems:
            return
        gem = self.random.choice(gems)
        # Its session may be forgotten meanwhile.
        self.connection.ask("GET", f"/v1/gems/{gem['gem_id']}", also=(404,), history=True)
        chance = self.random.random()
        if may_change and chance < 0.1:
            body = {"content": f"{gem['content']} {self.random.getrandbits(32)}"}
            # Sent again after a kill, it has been replaced already.
            self.connection.ask("PATCH", f"/v1/gems/{gem['gem_id']}", body, also=(404, 422))
        elif may_change and chance < 0.15:
            if gem["model"] != "correct":
                self.ledger.uncited.update(gem["source_turns"])
            self.connection.ask("DELETE", f"/v1/gems/{gem['gem_id']}", also=(404,))


class ToolUser(Actor):
    """An MCP client that calls tools over HTTP, one after the other."""

    def act(self, phase: Phase) -> None:
        """See Actor."""
        if phase == "rest":
            return
        name, arguments = self.random.choice(
            [
                ("recent_conversations", {"limit": 10}),
                ("search_memory", {"query": self.query(), "limit": 5}),
                ("semantic_search", {"query": self.query(), "limit": 5}),
                ("recall", {"query": self.query()}),
                ("conversation_thread", {"session_id": self.random.choice(list(self.ledger.sessions) or ["none"])}),
            ]
        )
        call = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": time.monotonic_ns(), "method": "tools/call", "params": call}
        answer = self.connection.ask("POST", "/mcp", body).json()
        # A session that was forgotten meanwhile, or none yet, is no fault.
        if "result" not in answer or (answer["result"]["isError"] and name != "conversation_thread"):
            with self.host.lock:
                self.host.tally.wrong.append(f"MCP {name}: {str(answer)[:300]}")
