"""`watch`: follow session logs and run the triggers."""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuralstream.cli.options import Call, command
from neuralstream.cli.output import note, print_text
from neuralstream.errors import MissingPartError, StoreError

if TYPE_CHECKING:
    from neuralstream.serve.watch import Watcher
    from neuralstream.stream import NeuralStream
    from neuralstream.types import Status

__all__ = ["add_to"]

commands = typer.Typer()

_POSITIONS = "watch.sqlite"
_LOOK_SECONDS = 1.0
"""Longest time between two looks at the logs; a change of a file in a watched folder is seen sooner."""

_STATUS_SECONDS = 5.0
_AFTER_ERROR_SECONDS = 5.0


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
    once: Annotated[bool, typer.Option("--once", help="Read what is there, distil what is due, and stop.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Read everything again; memory takes in what it does not have.")
    ] = False,
) -> None:
    """Follow session logs of OpenClaw, pi, Claude Code and Codex, and run the triggers.

    At the first start everything there is read; later starts go on where the last one stopped. An exchange is captured
    when it is over. Prints a line for what was captured and a line for what was distilled; ends on Ctrl-C or SIGTERM,
    and distils what the watched sessions have left.
    """
    from neuralstream.serve.positions import Positions
    from neuralstream.serve.watch import Watcher
    from neuralstream.stream import NeuralStream

    settings = call.settings()
    stop = threading.Event()
    if not once:
        changes = _changes(paths, stop)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
    with NeuralStream(settings) as memory, Positions(settings.home / _POSITIONS) as positions:
        if again:
            positions.forget()
        follower = _Follower(memory, Watcher(memory, paths, positions))
        if once:
            follower.look()
            memory.flush()
            follower.say_distilled()
            return
        for _ in changes:
            try:
                follower.look()
            except (MissingPartError, StoreError) as error:
                _say(f"trying again in {_AFTER_ERROR_SECONDS:g} s: {error}")
                stop.wait(_AFTER_ERROR_SECONDS)
    _say("stopped")


class _Follower:
    """Looks at the logs, runs what depends on time, and says what came of it."""

    def __init__(self, memory: "NeuralStream", watcher: "Watcher") -> None:
        self._memory = memory
        self._watcher = watcher
        self._before: Status = memory.status()
        self._asked_at = time.monotonic()
        self._logs = -1

    def look(self) -> None:
        """One look at everything."""
        polled = self._watcher.poll()
        for problem in polled.problems:
            note(problem)
        if polled.logs != self._logs:
            self._logs = polled.logs
            _say(f"{polled.logs} logs")
        if polled.captured:
            sessions = ", ".join(f"{session} +{count}" for session, count in sorted(polled.captured.items()))
            _say(f"{polled.captured.total()} turns captured: {sessions}")
        if self._memory.settings.worker != "thread":
            self._memory.tick()
        if time.monotonic() - self._asked_at >= _STATUS_SECONDS:
            self.say_distilled()

    def say_distilled(self) -> None:
        """A line where batches were distilled, or given up, since the last one."""
        now, before = self._memory.status(), self._before
        self._before, self._asked_at = now, time.monotonic()
        if (now.batches_done, now.dead_letters) != (before.batches_done, before.dead_letters):
            _say(
                f"{now.batches_done - before.batches_done} batches distilled, {now.gems - before.gems:+d} gems; "
                f"{now.batches_waiting} batches waiting, {now.undistilled} turns not due yet, "
                f"{now.dead_letters} dead letters"
            )


def _say(line: str) -> None:
    print_text(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {line}")


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
