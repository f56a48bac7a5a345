"""`import`: chat exports, session logs and buffers of other tools."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from neuralstream.cli.options import Call, FormatOption, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, progress

if TYPE_CHECKING:
    from neuralstream.logs import Log
    from neuralstream.logs.sources import Found

__all__ = ["add_to"]

commands = typer.Typer()


class FoundRow(NamedTuple):
    """Turns of one session on one day (UTC), in one format."""

    format: str
    user: str
    session: str
    date: str
    turns: int


class ImportRow(NamedTuple):
    """What became of one log."""

    log: str
    format: str
    new: int
    known: int
    sessions: int
    refused: int
    problems: int


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "import")
def import_logs(
    call: Call,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A file, a chat export's .zip, a folder, or redis://… with mem-redis lists."
        ),
    ],
    log_format: FormatOption = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is there, and import nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Capture and distil chat exports, session logs and buffers of other tools.

    A folder may hold logs of several formats. What was imported before is known: a newer export of the same chats adds
    only what is new in it. A dry run lists the turns by format, user, session and day.
    """
    from neuralstream.logs.sources import find_logs

    settings = call.settings()
    found = find_logs(path, log_format, user_id=settings.user_id, max_tool_chars=settings.max_tool_chars)
    for file, reason in found.unknown.items():
        note(f"{file}: passed over: {reason}")
    if dry_run:
        _show(found, as_json=as_json)
    else:
        _import(call, found, as_json=as_json)


def _show(found: "Found", *, as_json: bool) -> None:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for log in found.logs:
        for turn in log:
            counts[log.format, turn.user_id, turn.session_id, f"{turn.at():%Y-%m-%d}"] += 1
        _note_problems(log)
    rows = [FoundRow(*key, turns) for key, turns in sorted(counts.items())]
    if not as_json:
        print_table(FoundRow._fields, rows)
    totals = []
    for name in sorted({log.format for log in found.logs}):
        logs, mine = [log for log in found.logs if log.format == name], [row for row in rows if row.format == name]
        total = {
            "format": name,
            "logs": len(logs),
            "sessions": len({(row.user, row.session) for row in mine}),
            "turns": sum(row.turns for row in mine),
            "problems": sum(len(log.problems) for log in logs),
            "first": min((row.date for row in mine), default=None),
            "last": max((row.date for row in mine), default=None),
        }
        totals.append(total)
        if not as_json:
            note("{format}: {turns} turns in {sessions} sessions of {logs} logs, {first} to {last}".format(**total))
    if as_json:
        found_rows = [row._asdict() for row in rows]
        print_json({"formats": totals, "found": found_rows, "unknown": [str(file) for file in found.unknown]})


def _import(call: Call, found: "Found", *, as_json: bool) -> None:
    from neuralstream.importing import import_turns

    rows = []
    with call.open() as memory, progress() as report:
        for log in found.logs:
            done = import_turns(memory, log, lambda turns, name=log.path.name: report(name, turns, None))  # type: ignore[misc]
            _note_problems(log)
            for reason in done.refused.values():
                note(f"{log.path}: {reason}")
            rows.append(
                ImportRow(
                    str(log.path), log.format, done.new, done.known, done.sessions, len(done.refused), len(log.problems)
                )
            )
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print_table(ImportRow._fields, rows)


def _note_problems(log: "Log") -> None:
    for problem in log.problems:
        note(f"{log.path / problem.file}:{problem.line}: {problem.reason}")
