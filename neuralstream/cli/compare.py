"""The command that compares two runs. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import print_json, print_table, print_text

__all__ = ["add_to"]

OldArgument = Annotated[Path, typer.Argument(metavar="OLD", help="Folder that `eval` wrote.", file_okay=False)]
NewArgument = Annotated[Path, typer.Argument(metavar="NEW", help="Folder of a run after a change.", file_okay=False)]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.add_typer(commands)


@command(commands, "compare")
def compare(
    _call: Call,
    old: OldArgument,
    new: NewArgument,
    *,
    md: Annotated[bool, typer.Option("--md", help="Print a Markdown table.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what the second run gained over the first on the same questions, and whether that may be chance."""
    from neuralstream.workbench.comparing import compare_runs, paired_rows
    from neuralstream.workbench.report import markdown_table
    from neuralstream.workbench.runs import read_run

    paired = compare_runs(read_run(old), read_run(new))
    columns, *rows = paired_rows(paired)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif md:
        print_text(markdown_table([columns, *rows]))
    else:
        print_table(columns, rows)
