"""`replay`: capture and distil conversation logs."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from neuralstream.cli.options import Call, FormatOption, JsonOption, UnitOption, command
from neuralstream.cli.output import Progress, note, print_json, print_table, progress
from neuralstream.clock import iso_time

if TYPE_CHECKING:
    from neuralstream.logs import Log
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.replay import Replayed
    from neuralstream.workbench.timeline import Recorder, Timeline
    from neuralstream.workbench.virtual_clock import VirtualClock

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
    *,
    log_format: FormatOption = "auto",
    unit: UnitOption = None,
    timeline: Annotated[
        Path | None,
        typer.Option(
            "--timeline", metavar="FILE", help="Write every turn and batch, one JSON line each.", dir_okay=False
        ),
    ] = None,
    batches: Annotated[bool, typer.Option("--batches", help="Print a row per batch, not per log.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Capture and distil conversation logs into the data folder, under a clock that shows the logs' own times.

    A log that was replayed before adds only what is new in it. Lines that cannot be read are counted, named on stderr,
    and passed over.
    """
    from neuralstream.extract import make_extractor
    from neuralstream.logs import read_log
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.policy import policy_metrics
    from neuralstream.workbench.timeline import Recorder, Timeline
    from neuralstream.workbench.virtual_clock import VirtualClock

    # What is past when a log is replayed is not yet old by the log's clock: forgetting is left to whoever serves.
    settings = call.settings().model_copy(update={"worker": "inline", "retention": None})
    opened = [
        read_log(log, log_format, user_id=settings.user_id, unit=unit, max_tool_chars=settings.max_tool_chars)
        for log in logs
    ]
    clock = VirtualClock()
    recorder = Recorder(make_extractor(settings), clock)
    with (
        closing(recorder),
        NeuralStream(settings, clock=clock, extractor=recorder) as memory,
        progress() as report,
    ):
        done = [_replay(memory, log, clock, recorder, report) for log in opened]
    told = Timeline.joined(replayed.timeline for _, replayed in done)
    if timeline:
        timeline.write_text("".join(f"{line}\n" for line in told.json_lines()), encoding="utf-8")
    if batches:
        _print_batches(told, as_json=as_json)
    elif as_json:
        print_json([one._asdict() | {"policy": policy_metrics(replayed.timeline)} for one, replayed in done])
    else:
        print_table(LogReport._fields, [one for one, _ in done])


def _replay(
    memory: "NeuralStream", log: "Log", clock: "VirtualClock", recorder: "Recorder", report: Progress
) -> tuple[LogReport, "Replayed"]:
    from neuralstream.workbench.replay import replay as replay_turns

    before = memory.status()
    done = replay_turns(
        memory, log, log.usage, clock=clock, recorder=recorder,
        progress=lambda turns, total: report(log.path.name, turns, total),
    )  # fmt: skip
    after = memory.status()
    for problem in log.problems:
        note(f"{log.path / problem.file}:{problem.line}: {problem.reason}")
    counts = LogReport(
        str(log.path),
        done.new,
        done.known,
        done.sessions,
        batches=after.batches_done - before.batches_done,
        gems=after.gems - before.gems,
        problems=len(log.problems),
    )
    return counts, done


def _print_batches(timeline: "Timeline", *, as_json: bool) -> None:
    rows = timeline.rows()
    if as_json:
        print_json([row | {"at": iso_time(row["at"])} for row in rows])
    else:
        columns = ("at", "cause", "user", "session", "first", "last", "turns", "gems", "calls", "tokens")
        print_table(columns, [[row[name] for name in columns] for row in rows])
