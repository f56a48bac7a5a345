"""Commands on gems: list, show, correct."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from neuralstream.cli.options import Call, JsonOption, command, group
from neuralstream.cli.output import print_json, print_table, print_text
from neuralstream.text import excerpt
from neuralstream.types import GemTag, checked_tags

if TYPE_CHECKING:
    from neuralstream.history import Version

__all__ = ["TAGS", "SessionOption", "TagOption", "add_to", "read_tags", "short"]

_SHOWN_CHARS = 240
"""Characters of a text in a table; `--json` has all of it."""

SessionOption = Annotated[str | None, typer.Option("--session", metavar="ID", help="Only this session.")]
TAGS = "|".join(get_args(GemTag))
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar=TAGS, help="Only gems with this tag; repeatable.")
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A gem's id.")]

gems = group("What was distilled.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(gems, name="gems")


@command(gems, "list")
def list_gems(
    call: Call,
    *,
    session: SessionOption = None,
    tag: TagOption = None,
    status: Annotated[
        Literal["active", "superseded", "any"],
        typer.Option("--status", metavar="active|superseded|any", help="Which gems."),
    ] = "active",
    limit: Annotated[int | None, typer.Option("-n", min=1, metavar="N", help="How many; default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List gems."""
    tags = read_tags(tag)
    with call.open() as memory:
        found = memory.gems(session_id=session, tags=tags, status=None if status == "any" else status, limit=limit)
    if as_json:
        print_json([gem.to_dict() for gem in found])
    else:
        print_table(
            ("time", "id", "tags", "session", "turns", "content"),
            [
                (
                    gem.created_at,
                    gem.gem_id,
                    ", ".join(gem.tags),
                    gem.source.session_id,
                    gem.source.turn_range,
                    short(gem.content),
                )
                for gem in found
            ],
        )


@command(gems, "show")
def show_gem(
    call: Call,
    gem_id: IdArgument,
    *,
    history: Annotated[
        bool, typer.Option("--history", help="Every version, oldest first, and the turns that say it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show everything about one gem."""
    with call.open() as memory:
        versions = memory.history(gem_id) if history else []
        gem = memory.gem(gem_id)
    if history:
        _show_history(versions, as_json=as_json)
    elif as_json:
        print_json(gem.to_dict())
    else:
        print_table(("field", "value"), [(name, _plain(value)) for name, value in gem.to_dict().items()])


@command(gems, "correct")
def correct(
    call: Call,
    gem_id: IdArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should say.")],
    as_json: JsonOption = False,
) -> None:
    """Replace what a gem says, and print the new gem's id; the old one stays on record."""
    with call.open() as memory:
        gem = memory.correct(gem_id, text)
    if as_json:
        print_json(gem.to_dict())
    else:
        print_text(gem.gem_id)


def read_tags(given: Sequence[str] | None) -> tuple[GemTag, ...]:
    """Tags given on the command line, each once."""
    return tuple(dict.fromkeys(checked_tags(given or ())))


def short(text: str) -> str:
    """As much of a text as a table shows."""
    return excerpt(text, _SHOWN_CHARS)


def _show_history(versions: "Sequence[Version]", *, as_json: bool) -> None:
    if as_json:
        print_json([version.to_dict() for version in versions])
        return
    rows: list[tuple[object, ...]] = []
    for version in versions:
        gem = version.gem
        rows.append((gem.valid_from or gem.created_at, gem.valid_until, gem.gem_id, _what(version), short(gem.content)))
        rows += [(turn.created_at, None, turn.turn_id, "said", short(turn.transcript)) for turn in version.evidence]
    print_table(("from", "until", "id", "what", "text"), rows)


def _what(version: "Version") -> str:
    gem = version.gem
    told: list[str] = [gem.status]
    told += [f"replaced by {', '.join(version.replaced_by)}"] if version.replaced_by else []
    told += [f"supersedes {', '.join(gem.supersedes)}"] if gem.supersedes else []
    told += [f"merged {', '.join(gem.merged)}"] if gem.merged else []
    return "; ".join(told)


def _plain(value: Any) -> object:
    """A field's value as one cell."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {entry}" for name, entry in value.items())
    return value
