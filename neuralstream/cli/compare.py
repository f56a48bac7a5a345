"""Commands that read runs: what a change gained, and why a question was answered as it was.

The workbench loads on first use.
"""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, print_text

__all__ = ["RunArgument", "add_to"]

_RUN = "A run's folder, or SWEEP/DIGEST with the beginning of its digest."
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help=_RUN)]
OldArgument = Annotated[Path, typer.Argument(metavar="OLD", help=_RUN)]
NewArgument = Annotated[Path, typer.Argument(metavar="NEW", help="The same, after a change.")]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands)


@command(commands, "compare")
def compare(
    _call: Call,
    old: OldArgument,
    new: NewArgument,
    *,
    md: Annotated[bool, typer.Option("--md", help="Print Markdown, for a pull request.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what the second run gained over the first on the same questions, and whether that may be chance.

    Then what differs between them, and which questions were lost to, or gained for, the first five hits.
    """
    from neuralstream.workbench import comparing
    from neuralstream.workbench.run_folders import open_run

    before, after = open_run(old), open_run(new)
    if as_json:
        print_json(comparing.as_json(before, after))
        return
    if md:
        print_text(comparing.markdown(before, after))
        return
    paired, flipped = comparing.compare_runs(before, after), comparing.flips(before, after)
    for rows in (comparing.paired_rows(paired), comparing.change_rows(comparing.changes(before, after))):
        print_table(rows[0], rows[1:])
        print_text("")
    for lane, found in flipped.items():
        print_text(comparing.counted(lane, found))
        if found:
            columns, *lines = comparing.flip_rows(after, flipped, lane)
            print_table(columns, lines)
        print_text(comparing.said(paired, lane))


@command(commands, "explain")
def explain(
    _call: Call,
    run: RunArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY_ID", help="A question's id, or CONVERSATION/ID.")],
    *,
    lane: Annotated[str | None, typer.Option("--lane", metavar="LANE", help="Default: the run's first.")] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="MODE", help="Default: the one that would be served.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a question of a run: what should have been found, and what was, with every signal's score."""
    from neuralstream.workbench import explaining
    from neuralstream.workbench.run_folders import open_run

    explained = explaining.explain(open_run(run), query, lane=lane, mode=mode)
    if explained.note:
        note(explained.note)
    if as_json:
        print_json(explaining.as_json(explained))
        return
    result = explained.result
    print_text(
        f"{result.text}\n{result.category}, {result.conversation}/{result.query_id}, {result.lane}/{result.mode}\n"
    )
    for rows in (explaining.wanted_rows(explained), explaining.hit_rows(explained)):
        print_table(rows[0], rows[1:])
        print_text("")
    print_text(", ".join(f"{name} {value:.3f}" for name, value in result.scores.items()))
