"""The command that scores themes. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, progress

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.add_typer(commands)


@command(commands, "eval-themes")
def evaluate_themes(
    call: Call,
    *,
    dataset: Annotated[
        str, typer.Option("--dataset", metavar="SPEC", help="Labelled logs: [FORMAT:]NAME-OR-PATH[@SPLIT].")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write a Markdown page.", dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Score themes on the thematic questions of labelled logs, beside plain k-means."""
    from neuralstream.workbench import thematic

    with progress() as report:
        run = thematic.evaluate_themes(dataset, call.settings(), progress=report)
    if out:
        thematic.write_markdown(run, out)
        note(f"page written to {out}")
    if as_json:
        print_json(run.to_dict())
    else:
        columns, *rows = thematic.rows(run)
        print_table(columns, rows)
