"""The command that holds a run against a baseline, for a CI. The workbench loads on first use."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuralstream.cli.compare import RunArgument
from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, print_text
from neuralstream.errors import InputError, RefusedError

if TYPE_CHECKING:
    from neuralstream.workbench.gate import Gated

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

    Says which rule it breaks, which questions lost most, and what to do. Exits with 2 where the run is on other data
    than the baseline, or did not measure what its settings serve.
    """
    from neuralstream.workbench import gate as workbench
    from neuralstream.workbench import gate_report
    from neuralstream.workbench.baseline import baseline_of, read_baseline, write_baseline
    from neuralstream.workbench.run_folders import open_run
    from neuralstream.workbench.runs import write_text

    if md:
        md.parent.mkdir(parents=True, exist_ok=True)
    try:
        opened = open_run(run)
        floors = workbench.parse_floors(floor or (), opened.lanes[0])
        old = None if update_baseline and not baseline.exists() else read_baseline(baseline)
        if update_baseline or old is None:
            accepted = baseline_of(opened, workbench.joined(old.floors if old else {}, floors))
        else:
            accepted = old
        gated = workbench.gate(opened, accepted, floors)
    except InputError as error:
        if md:
            write_text(md, gate_report.unjudged(error))
        raise
    if md:
        write_text(md, gate_report.markdown(gated, baseline))
    _show(gated, measured=not update_baseline, as_json=as_json)
    if not gated.passed:
        for step in gate_report.next_steps(gated, baseline):
            note(step)
        raise typer.Exit(RefusedError.exit_code)
    if update_baseline:
        write_baseline(accepted, baseline)
        note(f"baseline written to {baseline}; commit it")
    for line in gate_report.renewed(old, accepted) if update_baseline else gate_report.next_steps(gated, baseline):
        note(line)


def _show(gated: "Gated", *, measured: bool, as_json: bool) -> None:
    """What was measured, and the rules that are broken."""
    from neuralstream.workbench import gate_report

    if as_json:
        print_json(gate_report.as_json(gated))
    elif measured:
        columns, *rows = gate_report.measure_rows(gated)
        print_table(columns, rows)
        for lane in gate_report.refused_lanes(gated):
            print_text(f"\nquestions of lane {lane} that lost most")
            columns, *rows = gate_report.question_rows(gated, lane)
            print_table(columns, rows)
    for one in gated.broken:
        note(f"REFUSED ({one.rule}): {one.said}")
