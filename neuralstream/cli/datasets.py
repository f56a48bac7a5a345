"""Commands about labelled conversation logs. The workbench loads on first use."""

from pathlib import Path
from typing import Annotated

import typer

from neuralstream.cli import label
from neuralstream.cli.options import Call, JsonOption, command, group
from neuralstream.cli.output import note, print_json, print_table, print_text, progress
from neuralstream.errors import InputError

__all__ = ["add_to"]

SpecArgument = Annotated[str, typer.Argument(metavar="SPEC", help="[FORMAT:]NAME-OR-PATH[@SPLIT]")]

data_sets = group("Labelled conversation logs.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    label.add_to(data_sets)
    app.add_typer(data_sets, name="datasets")


@data_sets.command("list")
def list_sets(as_json: JsonOption = False) -> None:
    """List the shipped sets, our own labelled one first."""
    from neuralstream.workbench.datasets import list_datasets

    sets = list_datasets()
    if as_json:
        print_json(sets)
    else:
        print_table(
            ("name", "licence", "splits", "description"),
            [(one["name"], one["licence"], ", ".join(one["splits"]), one["description"]) for one in sets],
        )


@data_sets.command("stats")
def show_stats(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Show what a set holds."""
    from neuralstream.workbench.datasets import stats

    found = stats(spec)
    if as_json:
        print_json(found)
        return
    categories = found.pop("by_category")
    counts = [(f"questions: {name}", count) for name, count in categories.items()]
    print_table(("fact", "value"), [*found.items(), *counts])


@data_sets.command("validate")
def validate_set(spec: SpecArgument, as_json: JsonOption = False) -> None:
    """Check a set against the rules it has to meet; exit 1 where one is broken."""
    from neuralstream.workbench.validate import validate

    checks = validate(spec)
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        print_table(
            ("result", "check", "value", "rule"),
            [("pass" if check.passed else "FAIL", check.name, check.value, check.rule) for check in checks],
        )
    if not all(check.passed for check in checks):
        raise typer.Exit(1)


@data_sets.command("split")
def split_set(
    spec: SpecArgument,
    *,
    parts: Annotated[
        str, typer.Option("--parts", metavar="NAME=SHARE,...", help="The splits, and which share each gets.")
    ] = "dev=0.5,test=0.5",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Another one deals otherwise.")] = 0,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of splits that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Deal a native set's conversations to splits, large and small ones evenly; its dataset.json says which."""
    from neuralstream.workbench.splitting import split

    splits = split(spec, _shares(parts), seed=seed, replace=replace)
    if as_json:
        print_json(splits)
    else:
        print_table(
            ("split", "conversations", "names"), [(name, len(of), ", ".join(of)) for name, of in splits.items()]
        )


@command(data_sets, "pull")
def pull_set(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="locomo or longmemeval.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder; default: datasets in the data folder.", file_okay=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept its licence.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Download a public set, once its licence is accepted; print the SPEC that `eval` takes."""
    from neuralstream.workbench.pulling import public_set, pull

    public = public_set(name)
    note(f"{public.name}: {public.cite}\nfrom {public.url}\nlicence {public.licence}: {public.terms}")
    if not yes and not typer.confirm("Accept the licence?", err=True):
        raise InputError(f"{name} was not downloaded, because its licence was not accepted; --yes accepts it")
    with progress() as report:
        pulled = pull(public, out or call.settings().home / "datasets", report)
    note(f"SHA-256 {pulled.sha256}" + ("" if pulled.downloaded else ", here already"))
    if as_json:
        print_json(pulled._asdict())
    else:
        print_text(pulled.spec)


def _shares(parts: str) -> dict[str, float]:
    try:
        pairs = [part.split("=") for part in parts.split(",")]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError as error:
        raise InputError(f"write splits as dev=0.5,test=0.5, got {parts!r}") from error
