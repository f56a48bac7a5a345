"""The connection to the buffer's server: keys, scripts, and errors that say which server does not answer."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neuralstream.capture import leases
from neuralstream.capture.records import SessionKey
from neuralstream.capture.valkey import EmbeddedValkey
from neuralstream.errors import InputError, MissingPartError, StoreError
from neuralstream.transport import Address

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["BufferClient"]

_REWRITE_SECONDS = 120.0
_POLL_SECONDS = 0.02


class BufferClient:
    """A connection that names keys and runs scripts. `Buffer` says what they mean.

    Args:
        url: the server's address.
        settings: `buffer`.
        sole_owner: no other live process can own a lease.
        server: the embedded server, closed with the connection.

    Raises:
        MissingPartError: the server does not answer.
    """

    def __init__(self, url: str, settings: Settings, *, sole_owner: bool, server: EmbeddedValkey | None = None) -> None:
        import redis

        seconds = settings.buffer.timeout.total_seconds()
        # Any: the client's types do not know that replies are decoded.
        self._redis: Any = redis.Redis.from_url(
            url, decode_responses=True, socket_timeout=seconds, socket_connect_timeout=seconds
        )
        self._unreachable = (redis.ConnectionError, redis.TimeoutError)
        self._refusal = redis.ResponseError
        self._not_owned = redis.exceptions.LockError
        self.where = "embedded Valkey" if server else Address.parse(url).url
        self._server = server
        self._settings = settings
        self._prefix = settings.buffer.prefix
        self._sole = "1" if sole_owner else "0"
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self._scripts: dict[str, Any] = {}
        self._closed = False
        self.version()

    def version(self) -> str:
        """The server's name and version; also proves that it answers."""
        with self._reaching():
            info = self._redis.info("server")
        if "valkey_version" in info:
            return f"Valkey {info['valkey_version']}"
        return f"Redis {info['redis_version']}"

    def close(self) -> None:
        """Disconnect, and stop the embedded server where nobody else uses it. Closing twice is fine."""
        self._closed = True
        self._redis.close()
        if self._server is not None:
            self._server.close()

    def claim(self, store: str) -> None:
        """Let this buffer feed one store only: two would each get some of the turns.

        Raises:
            InputError: it feeds another store already.
        """
        with self._reaching():
            self._redis.setnx(self._name("store"), store)
            fed = self._redis.get(self._name("store"))
        if fed != store:
            raise InputError(
                f"the buffer at {self.where} feeds the store {fed}, not {store}: "
                "give this memory a buffer.prefix of its own"
            )

    def purge(self) -> str:
        """Rewrite the append-only file, so that what was removed leaves the disk; says what was done."""
        with self._reaching():
            try:
                if self._redis.config_get("appendonly").get("appendonly") != "yes":
                    return "the buffer's server keeps no append-only file"
                # A rewrite that began earlier may still hold what was removed since: wait for it, then ask for ours.
                if not self._rewritten():
                    return f"the buffer's server is still busy with an earlier rewrite after {_REWRITE_SECONDS:g} s"
                self._redis.bgrewriteaof()
                if self._rewritten():
                    return "the buffer's append-only file was rewritten"
            except self._refusal as error:
                return f"the buffer's server refused to rewrite its append-only file: {error}"
        return f"the buffer's append-only file is still being rewritten after {_REWRITE_SECONDS:g} s"

    def _rewritten(self) -> bool:
        """Wait until no rewrite is running; False where it takes too long."""
        deadline = time.monotonic() + _REWRITE_SECONDS
        while time.monotonic() < deadline:
            state = self._redis.info("persistence")
            if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
                return True
            time.sleep(_POLL_SECONDS)
        return False

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Let only one process at a time do something; others wait.

        A killed one holds it up for `buffer.lease`, but not where no other live process can own a lease.

        Raises:
            MissingPartError: the server does not answer, or another process did not finish within a lease.
        """
        lease = self._settings.buffer.lease.total_seconds()
        name = self._name(f"alone:{what}")
        lock = self._redis.lock(name, timeout=lease, sleep=_POLL_SECONDS)
        if self._sole == "1":
            self._run(leases.BREAK, [name], [f"{self._owner}/"])
        with self._reaching():
            taken = lock.acquire(blocking_timeout=2 * lease, token=f"{self._owner}/{uuid4().hex}")
        if not taken:
            raise MissingPartError(f"another process did not finish {what!r} within {2 * lease:g} s; try again")
        try:
            yield
        finally:
            # Where it took longer than the lease it is another's by now.
            with self._reaching(), suppress(self._not_owned):
                lock.release()

    def _run(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        if script not in self._scripts:
            self._scripts[script] = self._redis.register_script(script)
        with self._reaching():
            return self._scripts[script](keys=list(keys), args=list(arguments))

    def _name(self, name: str) -> str:
        return f"{self._prefix}:{name}"

    def _key(self, name: str, session: SessionKey) -> str:
        return f"{self._prefix}:{name}:{session}"

    def _batch(self, batch_id: str) -> str:
        return self._name(f"batch:{batch_id}")

    @property
    def _lease_ms(self) -> int:
        return int(self._settings.buffer.lease.total_seconds() * 1000)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        if self._closed:
            raise InputError("this memory was closed; open it anew")
        try:
            yield
        except self._unreachable as error:
            why = str(error).rstrip(".")
            raise MissingPartError(
                f"the buffer at {self.where} does not answer: {why}. Start the server, or check redis_url"
            ) from error
        except self._refusal as error:
            raise StoreError(f"the buffer at {self.where} refused: {error}; nothing was changed") from error
