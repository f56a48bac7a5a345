"""`worker`: index and distil what other processes capture."""

import signal
import threading

import typer

from neuralstream.cli.options import Call, command
from neuralstream.cli.output import note
from neuralstream.errors import InputError

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "worker")
def worker(call: Call) -> None:
    """Index and distil for others, beside Redis and Qdrant, until Ctrl-C or SIGTERM.

    Processes whose setting `worker` is "none" leave their work to any number of these, on any number of machines, with
    the same redis_url and qdrant_url. A batch is one worker's; that of a killed one is taken by another.
    """
    from neuralstream.stream import NeuralStream

    settings = call.settings()
    if settings.qdrant_url is None:
        raise InputError(
            "a worker shares the store with other processes, and one owns the embedded one: set qdrant_url"
        )
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    with NeuralStream(settings.model_copy(update={"worker": "thread"})) as memory:
        note(f"working on the buffer at {memory.parts.buffer.where}")
        stop.wait()
    note("stopped")
