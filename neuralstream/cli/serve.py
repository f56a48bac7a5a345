"""`serve`: the HTTP service."""

import logging
from dataclasses import replace
from typing import Annotated

import typer

from neuralstream.cli.options import Call, command
from neuralstream.cli.output import note

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "serve")
def serve(
    call: Call,
    *,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen; default: serve.host.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, metavar="PORT", help="Default: serve.port; 0: a free one."),
    ] = None,
) -> None:
    """Answer agents over HTTP, until Ctrl-C or SIGTERM.

    Listens on this machine only, unless tokens say who may ask. Captures survive a kill; what waits to be distilled
    when the service ends is distilled within close_timeout, or at the next start.
    """
    from neuralstream.serve.lifecycle import serve as run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "mcp"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    named = tuple(f"serve.{name}={value}" for name, value in (("host", host), ("port", port)) if value is not None)
    run(replace(call, overrides=call.overrides + named).settings(), say=note)
