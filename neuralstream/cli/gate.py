"""The command that holds a run against a baseline, for a CI. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.compare import RunArgument
from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, print_text
from neuralstream.errors import RefusedError

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.add_typer(commands)


@command(commands, "gate")
def gate(
    _call: Call,
    run: RunArgument,
    *,
    baseline: Annotated[
        Path, typer.Option("--baseline", metavar="FILE", help="What was accepted before.", dir_okay=False)
    ] = Path("reports/baseline.json"),
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Accept this run: write it, and the floors, as the baseline.")
    ] = False,
    floor: Annotated[
        list[str] | None,
        typer.Option("--floor", metavar="[LANE/]MEASURE=VALUE", help="The least that a mean may be; repeatable."),
    ] = None,
    md: Annotated[
        Path | None, typer.Option("--md", metavar="FILE", help="Also write it as Markdown.", dir_okay=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse, with exit code 4, a run that is below a floor or worse than a baseline by more than chance.

    Says which rule it breaks and which questions lost most. Runs on other data than the baseline's exit with 2.
    """
    from neuralstream.workbench import gate as workbench
    from neuralstream.workbench.baseline import baseline_of, read_baseline, write_baseline
    from neuralstream.workbench.run_folders import open_run
    from neuralstream.workbench.runs import write_text

    opened = open_run(run)
    floors = workbench.parse_floors(floor or (), opened.lanes[0])
    if update_baseline:
        kept = read_baseline(baseline).floors if baseline.exists() else {}
        accepted = baseline_of(opened, workbench.joined(kept, floors))
    else:
        accepted = read_baseline(baseline)
    gated = workbench.gate(opened, accepted, floors)
    if md:
        write_text(md, workbench.markdown(gated))
    if as_json:
        print_json(workbench.as_json(gated))
    else:
        columns, *rows = workbench.measure_rows(gated)
        print_table(columns, rows)
        for lane in workbench.refused_lanes(gated):
            print_text(f"\nquestions of lane {lane} that lost most")
            columns, *rows = workbench.question_rows(gated, lane)
            print_table(columns, rows)
    for one in gated.broken:
        note(f"REFUSED ({one.rule}): {one.said}")
    if gated.passed and update_baseline:
        write_baseline(accepted, baseline)
        note(f"baseline written to {baseline}")
    if not gated.passed:
        raise typer.Exit(RefusedError.exit_code)
