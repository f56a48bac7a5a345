"""`replay`: capture and distil conversation logs."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import Progress, note, print_json, print_table, progress

if TYPE_CHECKING:
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
    with call.open() as memory, progress() as report:
        done = [_replay(memory, log, log_format, unit, report) for log in logs]
    if as_json:
        print_json([asdict(one) for one in done])
    else:
        print_table(tuple(asdict(done[0])), [tuple(asdict(one).values()) for one in done])


def _replay(
    memory: "NeuralStream",
    path: Path,
    log_format: str,
    unit: Literal["exchange", "utterance"] | None,
    report: Progress,
) -> Replayed:
    from neuralstream.logs import read_log

    log = read_log(
        path, log_format, user_id=memory.settings.user_id, unit=unit, max_tool_chars=memory.settings.max_tool_chars
    )
    before = memory.status()
    done = Replayed(str(path))
    sessions = set()
    for turn in log:
        if memory.capture(turn):
            done.new += 1
        else:
            done.known += 1
        sessions.add((turn.user_id, turn.session_id))
        report(path.name, done.new + done.known, None)
    for user_id, session_id in sorted(sessions):
        memory.end_session(session_id, user_id=user_id)
    memory.flush()
    after = memory.status()
    done.sessions = len(sessions)
    done.batches = after.batches_done - before.batches_done
    done.gems = after.gems - before.gems
    done.problems = len(log.problems)
    for problem in log.problems:
        note(f"{path / problem.file}:{problem.line}: {problem.reason}")
    return done
