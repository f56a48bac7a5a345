"""`replay`: capture and distil conversation logs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import Progress, note, print_json, print_table, progress

if TYPE_CHECKING:
    from neuralstream.logs import Log
    from neuralstream.stream import NeuralStream

__all__ = ["add_to"]

commands = typer.Typer()


class LogReport(NamedTuple):
    """What became of one log: turns new to memory and turns it knew, sessions, batches distilled, gems, problems."""

    log: str
    new: int
    known: int
    sessions: int
    batches: int
    gems: int
    problems: int


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "replay")
def replay(
    call: Call,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files or folders of logs.")],
    log_format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of the logs; auto tells it from the content.")
    ] = "auto",
    unit: Annotated[
        Literal["exchange", "utterance"] | None,
        typer.Option("--unit", metavar="exchange|utterance", help="What one turn is; default: the format's own."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Capture and distil conversation logs into the data folder.

    A log that was replayed before adds only what is new in it. Lines that cannot be read are counted, named on stderr,
    and passed over.
    """
    from neuralstream.logs import read_log

    settings = call.settings()
    opened = [
        read_log(log, log_format, user_id=settings.user_id, unit=unit, max_tool_chars=settings.max_tool_chars)
        for log in logs
    ]
    with call.open() as memory, progress() as report:
        done = [_replay(memory, log, report) for log in opened]
    if as_json:
        print_json([one._asdict() for one in done])
    else:
        print_table(LogReport._fields, done)


def _replay(memory: "NeuralStream", log: "Log", report: Progress) -> LogReport:
    from neuralstream.workbench.replay import replay as replay_turns

    before = memory.status()
    done = replay_turns(memory, log, log.usage, lambda turns: report(log.path.name, turns, None))
    after = memory.status()
    for problem in log.problems:
        note(f"{log.path / problem.file}:{problem.line}: {problem.reason}")
    return LogReport(
        str(log.path),
        *done,
        batches=after.batches_done - before.batches_done,
        gems=after.gems - before.gems,
        problems=len(log.problems),
    )
