"""The command that sweeps configurations. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, progress

__all__ = ["add_to"]

commands = typer.Typer()

_SHOWN = 20
"""Cells in the printed table; every one is in the files."""


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "sweep")
def sweep(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to sweep (YAML).", dir_okay=False)],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the runs.", file_okay=False)],
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Processes; default: one a processor.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Run on a Dask scheduler's workers instead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate many configurations; running it again runs only what is missing.

    A configuration that fails stops no other: it is reported at the end, with exit code 1, and tried again next time.
    """
    from neuralstream.workbench import sweep as workbench
    from neuralstream.workbench.sweep_report import brief_rows, report

    with progress() as shown:

        def told(done: int, total: int, left: float | None) -> None:
            shown("sweep" if not left else f"sweep, about {_duration(left)} left", done, total)

        done = workbench.sweep(file, out, call.settings(), jobs=jobs, dask=dask, told=told)
    found = report(done)
    if as_json:
        print_json(found)
    else:
        columns, *rows = brief_rows(found)
        print_table(columns, rows[:_SHOWN])
        more = f"{len(rows) - _SHOWN} more cells, " if len(rows) > _SHOWN else ""
        note(f"{more}every measure and mode: {out / 'summary.md'}")
    for name, waits in done.passed_over.items():
        note(f"sweep {name} was passed over: {waits} is not there")
    note(f"{len(done.cells)} cells in {out}, {done.ran} run just now, in {_duration(done.seconds)}")
    for digest, error in done.failed.items():
        note(f"FAILED {digest}: {error}")
    if done.failed:
        cells = "1 cell" if len(done.failed) == 1 else f"{len(done.failed)} cells"
        note(f"{cells} failed; {out / 'failed'} says more, and the next run tries again")
        raise typer.Exit(1)


def _duration(seconds: float) -> str:
    """For people: "3 min", "42 s"."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
