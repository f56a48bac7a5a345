"""The command line: `neuralstream COMMAND`, or `python -m neuralstream COMMAND`.

Thin: every command calls NeuralStream or the workbench and prints what it answers. Exit codes: 0 good, 1 failed,
2 wrong use, 3 a part is missing or down, 4 `promote` or `gate` refused, 130 interrupted.
"""

import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from neuralstream import __version__
from neuralstream.cli import (
    cassette,
    doctor,
    gems,
    importing,
    logs,
    mcp,
    memory,
    serve,
    thematic,
    upkeep,
    watch,
    workbench,
    worker,
)
from neuralstream.cli.options import Call, group
from neuralstream.cli.output import note, note_warnings, print_text
from neuralstream.config import wants_tracebacks
from neuralstream.errors import NeuralStreamError

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what follows `neuralstream`; None takes the process's own.

    Returns:
        The exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A text that the terminal's encoding cannot show must not end the command.
            stream.reconfigure(errors="backslashreplace")
    note_warnings()
    try:
        app(args=arguments, prog_name="neuralstream")
    except (NeuralStreamError, OSError) as error:
        if wants_tracebacks():
            traceback.print_exc()
        for line in str(error).splitlines():
            note(f"error: {line}")
        return error.exit_code if isinstance(error, NeuralStreamError) else NeuralStreamError.exit_code
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        print_text(__version__)
        raise typer.Exit


def _root(
    _call: Call,
    version: Annotated[  # the callback does it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nothing to do before a command."""


app = group("Memory without end for language-model agents, and a workbench that measures it.", _root)
for part in (doctor, logs, importing, watch, worker, serve, mcp, memory, gems, upkeep, workbench, thematic, cassette):
    part.add_to(app)
