"""`watch`: follow session logs, for the memory of this process or for a running service."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuralstream.cli.options import Call, command, open_or_share
from neuralstream.cli.output import note, print_text
from neuralstream.clock import iso_time, utc_now
from neuralstream.config import TOKEN_VARIABLE, service_token
from neuralstream.errors import MissingPartError, NeuralStreamError, SettingsError
from neuralstream.types import DEFAULT_USER, Status

if TYPE_CHECKING:
    from neuralstream.client import NeuralStreamClient, UserStatus
    from neuralstream.serve.positions import Positions
    from neuralstream.serve.watch import Watcher
    from neuralstream.stream import NeuralStream

__all__ = ["add_to"]

commands = typer.Typer()

_INSTEAD = "`neuralstream watch --url URL PATH...`, which sends it what it reads"
_POSITIONS = "watch.sqlite"
_LOOK_SECONDS = 1.0
"""Longest time between two looks at the logs; a change of a file in a watched folder is seen sooner."""

_STATUS_SECONDS = 5.0
_AFTER_ERROR_SECONDS = (1.0, 60.0)
"""Wait after a failure, doubled after each further one, and the longest one."""


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "watch")
def watch(
    call: Call,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Session logs, folders of them, or redis://… with mem-redis lists; may come later."
        ),
    ],
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help=f"Send it to the `neuralstream serve` at this address; a token, if it needs one, in {TOKEN_VARIABLE}.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, distil what is due, and stop.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Read everything again; memory takes in what it does not have.")
    ] = False,
) -> None:
    """Follow session logs of OpenClaw, pi, Claude Code and Codex, and run the triggers.

    At the first start everything there is read; later starts go on where the last one stopped. An exchange is captured
    when it is over. Prints a line for what was captured and a line for what was distilled; ends on Ctrl-C or SIGTERM,
    and distils what the watched sessions have left.

    One process owns an embedded store: where `neuralstream serve` runs, give `--url`. The service then distils; while
    it is down, this waits for it. How far the logs were read is in this machine's data folder either way.
    """
    from neuralstream.serve.positions import Positions
    from neuralstream.serve.watch import Watcher

    settings = call.settings()
    stop = threading.Event()
    if not once:
        changes = _changes(paths, stop)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
    with ExitStack() as opened:
        memory: NeuralStream | NeuralStreamClient
        local: NeuralStream | None = None
        status: Callable[[], Status | UserStatus]
        if url:
            memory = remote = opened.enter_context(_remote(url))
            user = None if settings.user_id == DEFAULT_USER else settings.user_id
            status = partial(remote.user_status, user_id=user)
        else:
            memory = local = opened.enter_context(open_or_share(settings, _INSTEAD))
            status = local.status
        positions = opened.enter_context(Positions(settings.home / _POSITIONS))
        _say_where(positions, url or str(settings.home), again=again)
        _say_what_is_missing(paths, once=once)
        watcher = Watcher(memory, settings, paths, positions)
        follower = _Follower(watcher, local, status)
        if once:
            follower.look()
            follower.finish()
            return
        _follow(follower, changes)
        try:
            watcher.end_sessions("shutdown")
        except NeuralStreamError as error:
            note(f"what is left is distilled later: {error}")
    _say("stopped")


def _remote(url: str) -> "NeuralStreamClient":
    """The memory of a service."""
    from neuralstream.client import NeuralStreamClient

    return NeuralStreamClient(url, token=service_token())


def _say_where(positions: "Positions", place: str, *, again: bool) -> None:
    """Whose positions they are from now on; another memory may lack what was read before."""
    before = positions.for_memory(place)
    if again:
        positions.forget()
    elif before:
        note(f"what was read for {before} is not sent to {place}; if that is another memory, give --again once")


def _say_what_is_missing(paths: Sequence[str], *, once: bool) -> None:
    """A misspelt path would look like one without logs."""
    from neuralstream.logs.sources import is_server

    for path in paths:
        if not is_server(path) and not Path(path).expanduser().exists():
            note(f"there is no {path}" + ("" if once else " yet; it is followed from when it is there"))


def _follow(follower: "_Follower", changes: Iterable[object]) -> None:
    """Look at every change; after a failure that may mend itself, logs are only read for a while."""
    first, longest = _AFTER_ERROR_SECONDS
    wait, due = first, 0.0
    for _ in changes:
        send = time.monotonic() >= due
        try:
            follower.look(send=send)
            if send:
                wait = first
        except NeuralStreamError as error:
            if error.exit_code == SettingsError.exit_code:
                raise
            if send:
                _say(f"trying again in {wait:g} s: {error}")
                due = time.monotonic() + wait
                wait = min(2 * wait, longest)


class _Follower:
    """Looks at the logs and says what came of it.

    Args:
        watcher: what looks.
        memory: the memory of this process, whose work is run too; None where a service does it.
        status: how much is where, in that memory or for the user of the service.
    """

    def __init__(
        self, watcher: "Watcher", memory: "NeuralStream | None", status: "Callable[[], Status | UserStatus]"
    ) -> None:
        self._watcher = watcher
        self._memory = memory
        self._status = status
        self._before: Status | UserStatus | None = None
        with suppress(MissingPartError):  # a service that is down is waited for
            self._before = status()
        self._asked_at = time.monotonic()
        self._logs = -1

    def look(self, *, send: bool = True) -> None:
        """One look at everything; without `send` nothing is captured yet."""
        polled = self._watcher.poll(send=send)
        for problem in polled.problems:
            note(problem)
        if polled.logs != self._logs:
            self._logs = polled.logs
            _say(f"{polled.logs} logs")
            if not polled.logs:
                from neuralstream.logs.files import SESSION_FILES

                note(f"no session logs are there yet; in folders they are called {', '.join(SESSION_FILES)}")
        if polled.captured:
            sessions = ", ".join(f"{session} +{count}" for session, count in sorted(polled.captured.items()))
            _say(f"{polled.captured.total()} turns captured: {sessions}")
        if self._memory is not None and self._memory.settings.worker != "thread":
            self._memory.tick()
        if send and time.monotonic() - self._asked_at >= _STATUS_SECONDS:
            self._say_distilled()

    def finish(self) -> None:
        """Distil what the sessions have left."""
        self._watcher.end_sessions("end")
        if self._memory is not None:
            self._memory.flush()
            self._say_distilled()

    def _say_distilled(self) -> None:
        """A line where something was distilled, or given up, since the last one."""
        before, self._before = self._before, self._status()
        self._asked_at = time.monotonic()
        if before is not None and (told := _distilled(before, self._before)):
            _say(told)


def _distilled(before: "Status | UserStatus", now: "Status | UserStatus") -> str | None:
    """What came of distilling; None: nothing. Of a service's user no batches are counted."""
    gems, letters = f"{now.gems - before.gems:+d} gems", f"{now.dead_letters} dead letters"
    if isinstance(now, Status) and isinstance(before, Status):
        if (now.batches_done, now.dead_letters) == (before.batches_done, before.dead_letters):
            return None
        done = f"{now.batches_done - before.batches_done} batches distilled"
        return f"{done}, {gems}; {now.batches_waiting} batches waiting, {now.undistilled} turns not due yet, {letters}"
    if (now.gems, now.dead_letters) == (before.gems, before.dead_letters):
        return None
    return f"the service distilled: {gems}; {now.undistilled} turns wait, {letters}"


def _say(line: str) -> None:
    print_text(f"{iso_time(utc_now().replace(microsecond=0))} {line}")


def _changes(paths: Sequence[str], stop: threading.Event) -> Iterator[object]:
    """Something at every change of a watched folder, and at least every `_LOOK_SECONDS`, until `stop` is set.

    Raises:
        MissingPartError: watchfiles is not installed.
    """
    try:
        from watchfiles import watch as watch_files
    except ImportError as error:
        raise MissingPartError("watching needs watchfiles: pip install 'neuralstream[serve]'") from error
    folders = [path for path in (Path(path).expanduser() for path in paths) if path.is_dir()]
    return _looks(
        watch_files(
            *folders,
            watch_filter=None,
            debounce=500,
            stop_event=stop,
            rust_timeout=int(1000 * _LOOK_SECONDS),
            yield_on_timeout=True,
            raise_interrupt=False,
        )
        if folders
        else iter(()),
        stop,
    )


def _looks(changes: Iterator[object], stop: threading.Event) -> Iterator[object]:
    yield None
    yield from changes
    while not stop.wait(_LOOK_SECONDS):
        yield None
