"""`mcp`: memory as tools for a model, over standard input and output."""

import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from neuralstream.cli.options import Call, command, open_or_share
from neuralstream.config import TOKEN_VARIABLE, service_token

if TYPE_CHECKING:
    from neuralstream.client import NeuralStreamClient
    from neuralstream.stream import NeuralStream

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "mcp")
def mcp(
    call: Call,
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help=f"Ask the `neuralstream serve` at this address; its token, if it needs one, in {TOKEN_VARIABLE}.",
        ),
    ] = None,
) -> None:
    """Serve memory to an MCP host over standard input and output; the host starts this command itself.

    One process owns an embedded store: where `neuralstream serve` runs, or several hosts share memory, give `--url`.
    """
    from neuralstream.serve.mcp import make_server

    instead = "`neuralstream mcp --url URL`, which asks it"
    with _remote(url, call) if url else open_or_share(call.settings(), instead) as memory:
        _end_when_told(memory)
        make_server(memory).run("stdio")


def _end_when_told(memory: "NeuralStream | NeuralStreamClient") -> None:
    """Close memory on SIGTERM and Ctrl-C too, not only at the end of the input."""

    def end(*_: object) -> None:
        memory.close()
        # A thread that waits for input cannot be woken, and an orderly exit would wait for it.
        os._exit(0)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, end)


def _remote(url: str, call: Call) -> "NeuralStreamClient":
    """The memory of a service; `--user` is honoured where the service asks for no token."""
    from neuralstream.client import NeuralStreamClient

    return NeuralStreamClient(url, token=service_token(), user_id=call.user)
