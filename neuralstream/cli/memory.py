"""Commands that ask memory, and add to it: search, recent, thread, themes, context, remember."""

from datetime import datetime
from typing import Annotated, Literal, get_args

import typer

from neuralstream.cli.gems import TAGS, SessionOption, TagOption, read_tags, short
from neuralstream.cli.options import Call, JsonOption, SinceOption, UntilOption, command, when
from neuralstream.cli.output import note, print_json, print_table, print_text
from neuralstream.types import Hit, Lane, Mode, Turn

__all__ = ["add_to"]

QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.add_typer(commands)


@command(commands, "search")
def search(
    call: Call,
    query: QueryArgument,
    *,
    mode: Annotated[
        Mode | None, typer.Option("--mode", metavar="|".join(get_args(Mode)), help="Ranking; default: retrieval.mode.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", min=1, metavar="N", help="Hits; default: retrieval.k.")] = None,
    lane: Annotated[
        Lane | None,
        typer.Option("--lane", metavar="|".join(get_args(Lane)), help="What is searched; default: retrieval.lane."),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    session: SessionOption = None,
    tag: TagOption = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help="Search as memory stood then (ISO 8601, UTC).")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the score of every signal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find turns and gems, best first."""
    tags, first, last, seen_from = read_tags(tag), when(since), when(until), when(as_of)
    with call.open() as memory:
        hits = memory.search(
            query,
            mode=mode,
            k=k,
            lane=lane,
            since=first,
            until=last,
            session_id=session,
            tags=tags,
            as_of=seen_from,
            explain=explain,
        )
    if as_json:
        print_json([hit.to_dict() for hit in hits])
        return
    if not hits:
        note("nothing was found; `neuralstream recent` shows what memory holds")
    signals = sorted({name for hit in hits for name in hit.signals}) if explain else []
    print_table(
        ("score", *signals, "kind", "time", "session", "id", "text"),
        [(hit.score, *map(hit.signals.get, signals), hit.kind, *_place(hit), hit.id, short(hit.text)) for hit in hits],
    )


@command(commands, "recent")
def recent(
    call: Call,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, metavar="N", help="How many.")] = 20,
    since: SinceOption = None,
    until: UntilOption = None,
    session: SessionOption = None,
    kind: Annotated[Literal["turn", "gem"], typer.Option("--kind", metavar="turn|gem", help="Turns or gems.")] = "turn",
    as_json: JsonOption = False,
) -> None:
    """Show the newest turns or gems, newest first."""
    first, last = when(since), when(until)
    with call.open() as memory:
        hits = memory.recent(limit, since=first, until=last, session_id=session, kind=kind)
    if as_json:
        print_json([hit.to_dict() for hit in hits])
    else:
        if not hits:
            note(f"memory holds no such {kind}; `neuralstream watch`, `import` and `replay` fill it from logs")
        print_table(("time", "session", "id", "text"), [(*_place(hit), hit.id, short(hit.text)) for hit in hits])


@command(commands, "thread")
def thread(
    call: Call,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id.")],
    as_json: JsonOption = False,
) -> None:
    """Show a session from its first turn to its last."""
    with call.open() as memory:
        turns = memory.thread(session)
    if as_json:
        print_json([turn.to_dict() for turn in turns])
    else:
        if not turns:
            note(f"there is no session {session!r}; `neuralstream recent` shows their ids")
        print_table(
            ("turn", "time", "speaker", "text"),
            [(turn.index, turn.created_at, part.label, part.text) for turn in turns for part in turn.parts],
        )


@command(commands, "themes")
def themes(
    call: Call,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, metavar="N", help="How many.")] = 10,
    *,
    summary: Annotated[bool, typer.Option("--summary", help="Have the language model tell them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is talked about again and again, largest first."""
    first, last = when(since), when(until)
    with call.open() as memory:
        told = memory.summary(since=first, until=last, limit=limit) if summary else None
        found = told.themes if told else memory.themes(since=first, until=last, limit=limit)
    if as_json:
        print_json(told.to_dict() if told else [theme.to_dict() for theme in found])
        return
    if told and told.text:
        print_text(told.text + "\n")
    print_table(
        ("turns", "first", "last", "theme", "summary" if told else "example"),
        [
            (
                *(theme.size, theme.first_at, theme.last_at, theme.name),
                theme.summary if told else short(theme.exemplars[0].transcript),
            )
            for theme in found
        ],
    )


@command(commands, "context")
def context(
    call: Call,
    query: QueryArgument,
    budget: Annotated[
        int | None, typer.Option("--budget", min=0, metavar="TOKENS", help="Most tokens; default: context_budget.")
    ] = None,
    session: SessionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the block that would be put into a model's context."""
    with call.open() as memory:
        block = memory.context(query, session_id=session, budget_tokens=budget)
    if as_json:
        print_json({"text": block.text, "tokens": block.tokens, "hits": [hit.to_dict() for hit in block.hits]})
    elif block.text:
        print_text(block.text)
    else:
        note("nothing in memory fits the query and the budget")


@command(commands, "remember")
def remember(
    call: Call,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One self-contained statement.")],
    *,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar=TAGS, help="What it is; default: fact; repeatable.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", metavar="WORD", help="Its topic; repeatable.")] = None,
    importance: Annotated[float, typer.Option("--importance", min=0, max=1, metavar="NUMBER", help="0 to 1.")] = 0.8,
    as_json: JsonOption = False,
) -> None:
    """Keep a statement as a gem, and print the gem's id."""
    tags = read_tags(tag) or ("fact",)
    with call.open() as memory:
        gem = memory.remember(text, tags=tags, topics=tuple(topic or ()), importance=importance)
    if as_json:
        print_json(gem.to_dict())
    else:
        print_text(gem.gem_id)


def _place(hit: Hit) -> tuple[datetime | None, str]:
    """When and in which session a hit lies."""
    session = hit.item.session_id if isinstance(hit.item, Turn) else hit.item.source.session_id
    return hit.item.created_at, session
