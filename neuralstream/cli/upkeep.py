"""Commands that look after memory: forgetting, carrying it elsewhere, filling it anew, what could not be distilled."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli.options import Call, JsonOption, command, group, when
from neuralstream.cli.output import note, print_json, print_table

__all__ = ["add_to"]

commands = typer.Typer()
dead_letters = group("Batches of turns that could not be distilled.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands)
    app.add_typer(dead_letters, name="deadletters")


@command(commands, "forget")
def forget(
    call: Call,
    *,
    gem: Annotated[str | None, typer.Option("--gem", metavar="ID", help="Forget this gem.")] = None,
    session: Annotated[str | None, typer.Option("--session", metavar="ID", help="Forget this session.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="TIME", help="Forget everything older (ISO 8601, UTC).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove a gem, a session, everything before a time, or (with --user alone) everything of a user.

    Prints what was removed, and what was asked again to prove it; exit 1 where anything was found again.
    """
    moment = when(before)
    named = [
        f"{name} {value}"
        for name, value in (("gem", gem), ("session", session), ("everything before", before))
        if value
    ]
    if named or call.user:
        _confirm(" and ".join(named or ["everything"]) + (f" of user {call.user}" if call.user else ""), yes=yes)
    with call.open() as memory:
        done = memory.forget(gem_id=gem, session_id=session, user_id=call.user, before=moment)
    if as_json:
        print_json(done.to_dict())
    else:
        facts = {name: value for name, value in done.to_dict().items() if name not in {"rewritten", "checks", "proved"}}
        checks = [
            (f"asked again: {place}", "nothing found" if gone else "FOUND") for place, gone in done.checks.items()
        ]
        print_table(("field", "value"), [*facts.items(), *(("on disk", how) for how in done.rewritten), *checks])
    if not done.proved:
        note("error: what was forgotten was found again; keep this output and ask for help")
        raise typer.Exit(1)


@command(commands, "export")
def export(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines file to write.", dir_okay=False)],
    as_json: JsonOption = False,
) -> None:
    """Write a user's memory to one file, and print how many records it has."""
    with call.open() as memory:
        _print_count("exported", memory.export(file), as_json=as_json)


@command(commands, "restore")
def restore(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `export` wrote.", dir_okay=False)],
    as_json: JsonOption = False,
) -> None:
    """Read a file that `export` wrote, under its own user or `--user`, and print how many records are new."""
    with call.open() as memory:
        _print_count("restored", memory.restore(file, user_id=call.user), as_json=as_json)


@command(commands, "reindex")
def reindex(call: Call, as_json: JsonOption = False) -> None:
    """Rebuild the store after a change of embedder, analyser or engine."""
    from neuralstream.stream import NeuralStream

    _print_count("reindexed", NeuralStream.reindex(call.settings()), as_json=as_json)


@command(dead_letters, "list")
def list_dead_letters(call: Call, as_json: JsonOption = False) -> None:
    """List the batches, each with its reason and what the model answered; `--json` has the turns too."""
    with call.open() as memory:
        letters = memory.dead_letters(user_id=call.user)
    if as_json:
        print_json([letter.to_dict() for letter in letters])
    else:
        print_table(
            ("batch", "session", "turns", "reason", "answer"),
            [
                (letter.batch_id, letter.session.session_id, len(letter.turns), letter.reason, letter.answer or "")
                for letter in letters
            ],
        )


@command(dead_letters, "retry")
def retry_dead_letters(call: Call, as_json: JsonOption = False) -> None:
    """Distil the batches again, and print how many there were."""
    with call.open() as memory:
        retried = memory.retry_dead_letters(user_id=call.user)
        left = len(memory.dead_letters(user_id=call.user))
    _print_count("retried", retried, as_json=as_json, failed_again=left)


def _confirm(what: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone, where there is somebody to ask."""
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Forget {what}? This cannot be undone.", abort=True, err=True)


def _print_count(what: str, count: int, *, as_json: bool, **more: int) -> None:
    if as_json:
        print_json({what: count, **more})
    else:
        print_table((what, *more), [(count, *more.values())])
