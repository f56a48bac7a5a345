"""`cassette`: recorded answers of language models."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, command, group
from neuralstream.cli.output import note

__all__ = ["add_to"]

commands = group("Recorded answers of language models.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands, name="cassette")


@command(commands, "merge")
def merge(
    _call: Call,
    paths: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Cassettes; of two answers the first counts.")],
    out: Annotated[Path, typer.Option(help="File to write; may be one of them.")],
) -> None:
    """Join cassettes into one, ordered by key."""
    from neuralstream.llm.cassette import merge as join

    note(f"{out} holds {join(paths, out)} answers")
