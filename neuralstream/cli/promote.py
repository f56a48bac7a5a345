"""The command that lets a run's settings be served. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.compare import RunArgument
from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, progress
from neuralstream.config import CONFIG_NAME
from neuralstream.errors import InputError

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add this command to the application."""
    app.add_typer(commands)


@command(commands, "promote")
def promote(
    call: Call,
    run: RunArgument,
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="Settings file (TOML); it need not exist.", dir_okay=False)
    ] = Path(CONFIG_NAME),
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="LANE", help="What is served, where the run measured several lanes.")
    ] = None,
    new_data: Annotated[
        bool, typer.Option("--new-data", help="The run is on other data: measure what is served now on them first.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Promote what a rule refuses; needs --why.")] = False,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="The reason, which is recorded.")] = None,
    max_latency_ms: Annotated[
        float | None,
        typer.Option("--max-latency-ms", min=0, help="Of 95 % of questions. Default: twice the incumbent's."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=0, help="Of an injected block. Default: the incumbent's.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who promotes. Default: the user.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a run's settings, with the evidence for them, into the file that is served from.

    Refuses, with exit code 4, a gain over what is served now that may be chance, an overrun of latency or tokens, and a
    file that was changed by hand since its last promotion. A run on other data than the incumbent's exits with 2.
    """
    from neuralstream.workbench import promote as workbench
    from neuralstream.workbench.run_folders import open_run

    if force != bool(why):
        raise InputError("--force and --why TEXT belong together: a forced promotion records its reason")
    with progress() as report:
        done = workbench.promote(
            open_run(run),
            to,
            lane=lane,
            new_data=new_data,
            why=why,
            limits=workbench.Limits(max_latency_ms, max_tokens),
            by=by,
            machine=call.settings(),
            progress=report,
        )
    for one in done.notes:
        note(one)
    note(f"promoted to {done.file}")
    if as_json:
        changed = [one._asdict() for one in done.changed]
        print_json({"promoted": done.record.model_dump(mode="json"), "changed": changed})
    else:
        print_table(("setting", "before", "now"), done.changed)
