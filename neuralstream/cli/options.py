"""The options that every command shares, and how a command opens memory.

`command` registers a function under a group and adds `--config`, `--home`, `--user` and `--set` to it. The same options
may stand before the command's name; those after it win. The function receives them as its first argument, a `Call`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, ParamSpec

import typer

from neuralstream.cli.output import answering
from neuralstream.clock import parse_time
from neuralstream.config import Settings, assignments
from neuralstream.errors import StoreLockedError

if TYPE_CHECKING:
    from neuralstream.stream import NeuralStream

__all__ = [
    "Call",
    "FormatOption",
    "JsonOption",
    "SinceOption",
    "UnitOption",
    "UntilOption",
    "command",
    "group",
    "open_or_share",
    "when",
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Nothing older (ISO 8601, UTC).")]
FormatOption = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="Format of the logs; auto tells it from the content.")
]
UnitOption = Annotated[
    Literal["exchange", "utterance"] | None,
    typer.Option("--unit", metavar="exchange|utterance", help="What one turn is; default: the format's own."),
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Nothing newer (ISO 8601, UTC).")]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Call:
    """The shared options of one call, as given.

    Attributes:
        config: settings file; None takes the usual one.
        home: data folder; None takes the settings'.
        user: whose memory; None takes the settings'.
        overrides: `name=value` texts.
    """

    config: Path | None = None
    home: Path | None = None
    user: str | None = None
    overrides: tuple[str, ...] = ()

    def over(self, lower: "Call | None") -> "Call":
        """These options, and those of `lower` where none is given here."""
        lower = lower or Call()
        return Call(
            config=self.config or lower.config,
            home=self.home or lower.home,
            user=lower.user if self.user is None else self.user,
            overrides=lower.overrides + self.overrides,
        )

    def arguments(self) -> dict[str, Any]:
        """The settings that the command line gives."""
        named = {"home": self.home, "user_id": self.user}
        return assignments(self.overrides) | {name: value for name, value in named.items() if value is not None}

    def settings(self) -> Settings:
        """Settings from defaults < file < environment < this command line."""
        return Settings.load(self.config, **self.arguments())

    def open(self) -> "NeuralStream":
        """Memory that works inside the call: a command has no time for a background thread."""
        from neuralstream.stream import NeuralStream

        return NeuralStream(Settings.load(self.config, **self.arguments() | {"worker": "inline"}))


def open_or_share(settings: Settings, instead: str) -> "NeuralStream":
    """Memory as the settings have it.

    Args:
        settings: which memory.
        instead: what to run where another process holds it, with `URL` for the address of its service.

    Raises:
        StoreLockedError: another process holds it; says how to share.
    """
    from neuralstream.stream import NeuralStream

    try:
        return NeuralStream(settings)
    except StoreLockedError as error:
        shared = instead.replace("URL", f"http://127.0.0.1:{settings.serve.port}")
        raise StoreLockedError(f"{error}\nwhere that is `neuralstream serve`, or would be: run {shared}") from error


def group(summary: str, function: Callable[..., None] | None = None) -> typer.Typer:
    """A group of commands; `function` adds options of its own to the shared ones."""
    created = typer.Typer(help=summary, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    created.callback()(_with_shared(function or _no_more_options))
    return created


def command(parent: typer.Typer, name: str) -> Callable[[Callable[Concatenate[Call, P], None]], Callable[..., None]]:
    """Register a function as a command that takes the shared options after its own."""

    def register(function: Callable[Concatenate[Call, P], None]) -> Callable[..., None]:
        parent.command(name, help=inspect.getdoc(function))(_with_shared(function))
        return function

    return register


def when(text: str | None) -> datetime | None:
    """A time given on the command line.

    Raises:
        InputError: it is not ISO 8601.
    """
    return None if text is None else parse_time(text)


def _shared(
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file (TOML).")] = None,
    home: Annotated[Path | None, typer.Option("--home", metavar="DIR", help="Data folder.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Whose memory.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Override a setting; repeatable.")
    ] = None,
) -> Call:
    return Call(config, home, user, tuple(overrides or ()))


def _no_more_options(_call: Call) -> None:
    """A group's callback has nothing to do but take the shared options."""


def _with_shared(function: Callable[..., None]) -> Callable[..., None]:
    """`function` as typer is to see it: its own options, then the shared ones in place of its first argument."""
    shared = inspect.signature(_shared).parameters
    _, *own = inspect.signature(function).parameters.values()

    def run(ctx: typer.Context, **values: Any) -> None:
        ctx.obj = _shared(**{name: values.pop(name) for name in shared}).over(ctx.obj)
        with answering(as_json=bool(values.get("as_json"))):
            function(ctx.obj, **values)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [part.replace(kind=context.kind) for part in (context, *own, *shared.values())]
    shown: Any = run
    shown.__signature__ = inspect.Signature(parameters)
    shown.__annotations__ = {part.name: part.annotation for part in parameters}
    return run
