"""Commands of the workbench: evaluating, notebooks, and those of other modules. The workbench loads on first use."""

import re
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from neuralstream.cli import compare, datasets, gate, promote, sweep, tune
from neuralstream.cli.options import Call, JsonOption, command, group
from neuralstream.cli.output import note, print_json, print_table, print_text, progress
from neuralstream.errors import InputError

if TYPE_CHECKING:
    from neuralstream.types import Lane

__all__ = ["add_to"]

commands = typer.Typer()
notebooks = group("Notebooks of the workbench.")

_BAR = re.compile(r"(?<!\\)\|")
"""What divides cells; one that belongs to a text is escaped."""


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands)
    sweep.add_to(app)
    tune.add_to(app)
    compare.add_to(app)
    promote.add_to(app)
    gate.add_to(app)
    datasets.add_to(app)
    app.add_typer(notebooks, name="notebook")


@command(commands, "eval")
def evaluate(
    call: Call,
    *,
    dataset: Annotated[
        str, typer.Option("--dataset", metavar="SPEC", help="Labelled logs: [FORMAT:]NAME-OR-PATH[@SPLIT].")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run.", file_okay=False)],
    modes: Annotated[
        str | None, typer.Option("--modes", metavar="MODE,...", help="Rankings to compare; default: every one served.")
    ] = None,
    lane: Annotated[
        str,
        typer.Option("--lane", metavar="LANE,...", help="What is searched: turns, gems, all; turns are always beside."),
    ] = "turns",
    as_json: JsonOption = False,
) -> None:
    """Score retrieval on labelled logs, through the code that serves."""
    from neuralstream.workbench import evaluate as workbench
    from neuralstream.workbench.report import budget_rows, comparison_rows, gem_rows, write_markdown
    from neuralstream.workbench.runs import DEAD_LETTERS

    asked = cast("tuple[Lane, ...]", tuple(lane.split(",")))  # evaluate refuses others
    with progress() as report:
        run = workbench.evaluate(
            dataset,
            call.settings(),
            modes=tuple(modes.split(",")) if modes else workbench.MODES,
            lanes=workbench.beside_turns(asked),
            out=out,
            progress=report,
        )
    write_markdown(run, out / "summary.md")
    note(f"run written to {out}")
    if as_json:
        print_json(run.metrics)
    else:
        for columns, *rows in (comparison_rows(run), budget_rows(run), gem_rows(run)):
            if rows:
                print_table(columns, rows)
    lost = run.dead_letters
    if lost:
        note(f"batches that could not be distilled: {lost}; {out / DEAD_LETTERS} says why")


@notebooks.command("run")
def run_notebook(
    notebook: Annotated[
        Path, typer.Argument(metavar="NOTEBOOK", help="An .ipynb file, or a shipped one's name.", dir_okay=False)
    ],
    values: Annotated[list[str] | None, typer.Argument(metavar="VALUE", hidden=True)] = None,
    names: Annotated[
        list[str] | None, typer.Option("-p", metavar="NAME VALUE", help="Set a parameter; repeatable.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="DIR", help="Folder of the results, the parameter `out`.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a notebook with parameters; print its summary, and last where its report or results are."""
    from neuralstream.workbench import notebook as workbench

    # A repeatable option takes one value, so the parser leaves each parameter's value among the arguments.
    names, values = names or [], values or []
    if len(names) != len(values):
        raise InputError(f"{len(names)} names and {len(values)} values; write each parameter as -p NAME VALUE")
    parameters = dict(zip(names, values, strict=True)) | ({"out": out} if out else {})
    result = workbench.run_notebook(notebook, parameters)
    if as_json:
        print_json(result)
        return
    folder = Path(result["parameters"]["out"])
    summary, report = folder / "summary.md", folder / "report.html"
    if summary.is_file():
        _print_markdown(summary.read_text(encoding="utf-8"))
    print_text(str(report if report.is_file() else folder))


def _print_markdown(text: str) -> None:
    """Print a summary as it is; on a terminal, which is narrower than its tables, draw these."""
    if not sys.stdout.isatty():
        print_text(text)
        return
    for is_table, lines in groupby(text.splitlines(), lambda line: line.startswith("|")):
        if is_table:
            columns, _, *rows = [[cell.strip() for cell in _BAR.split(line)[1:-1]] for line in lines]
            print_table(columns, [[_value(cell) for cell in row] for row in rows])
        else:
            print_text("\n".join(line.lstrip("# ") for line in lines))


def _value(cell: str) -> object:
    """What a cell of a Markdown table stands for: a number, nothing, or its text."""
    cell = cell.replace("\\|", "|")
    if cell == "-":
        return None
    try:
        return float(cell) if "." in cell else int(cell)
    except ValueError:
        return cell
