"""`replay`: capture and distil conversation logs."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import Progress, note, print_json, print_table, progress

if TYPE_CHECKING:
    from neuralstream.logs import Log
    from neuralstream.stream import NeuralStream

__all__ = ["add_to"]

commands = typer.Typer()


@dataclass
class Replayed:
    """What became of one log: turns new to memory and turns it knew, sessions, batches distilled, gems, problems."""

    log: str
    new: int = 0
    known: int = 0
    sessions: int = 0
    batches: int = 0
    gems: int = 0
    problems: int = 0


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
        print_json([asdict(one) for one in done])
    else:
        print_table(tuple(asdict(done[0])), [tuple(asdict(one).values()) for one in done])


def _replay(memory: "NeuralStream", log: "Log", report: Progress) -> Replayed:
    before = memory.status()
    done = Replayed(str(log.path))
    sessions = set()
    for turn in log:
        if memory.capture(turn):
            done.new += 1
        else:
            done.known += 1
        sessions.add((turn.user_id, turn.session_id))
        report(log.path.name, done.new + done.known, None)
    for user_id, session_id in sorted(sessions):
        memory.end_session(session_id, user_id=user_id)
    memory.flush()
    after = memory.status()
    done.sessions = len(sessions)
    done.batches = after.batches_done - before.batches_done
    done.gems = after.gems - before.gems
    done.problems = len(log.problems)
    for problem in log.problems:
        note(f"{log.path / problem.file}:{problem.line}: {problem.reason}")
    return done
