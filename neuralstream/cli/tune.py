"""The command that fits hybrid's weights. The workbench loads on first use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from neuralstream.cli.options import Call, JsonOption, command
from neuralstream.cli.output import note, print_json, print_table, print_text, progress
from neuralstream.errors import InputError

__all__ = ["add_to"]

commands = typer.Typer()


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(commands)


@command(commands, "tune")
def tune(
    call: Call,
    *,
    dataset: Annotated[
        list[str],
        typer.Option("--dataset", metavar="SPEC", help="Labelled logs: [FORMAT:]NAME-OR-PATH[@SPLIT]; repeatable."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Settings file (TOML) to write.", dir_okay=False)],
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write all tables as Markdown.", dir_okay=False)
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option("--tables", metavar="DIR", help="Keep what was indexed there, and use it again.", file_okay=False),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="FEATURE", help="Give it no weight; repeatable.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="KIND=SPEC", help="Fit a kind on a data set of another kind too; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the folds that conversations are dealt to.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write weights that the rule refuses.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit hybrid's weights to labelled logs, and say what they are worth on others.

    Nothing is written, and the exit code is 1, where the fit ranks a data set worse than its best single signal.
    """
    from neuralstream.ranking import FEATURES, GROUPS, SIGNALS, Kind
    from neuralstream.workbench import tune_report
    from neuralstream.workbench.tables import collect_all
    from neuralstream.workbench.tune import tune as fit

    unknown = sorted(set(without or ()) - set(FEATURES))
    if unknown:
        raise InputError(f"--without {', '.join(unknown)}: use one of {', '.join(FEATURES)}")
    features = [name for name in FEATURES if name not in (without or ())]
    lent = _lent(also or (), dataset)
    settings = call.settings()
    in_force = {kind: getattr(settings.retrieval, kind).weights for kind in get_args(Kind)}
    with progress() as shown:
        collected = collect_all(dataset, settings, tables, features=features, progress=shown)
        by_spec = dict(zip(dataset, (one.name for one in collected), strict=True))
        borrowed = {kind: [by_spec[spec] for spec in specs] for kind, specs in lent.items()}
        tuning = fit(collected, in_force, SIGNALS, groups=GROUPS, seed=seed, also=borrowed, progress=shown)
    if as_json:
        print_json(tune_report.as_json(tuning))
    else:
        for rows in (tune_report.result_rows, tune_report.verdict_rows, tune_report.weight_rows):
            columns, *lines = rows(tuning)
            print_table(columns, lines)
            print_text("")
    for warning in tuning.warnings:
        note(f"warning: {warning}")
    for refusal in tuning.refusals:
        note(f"REFUSED: {refusal}")
    if report:
        report.write_text(tune_report.markdown(tuning), encoding="utf-8")
        note(f"report written to {report}")
    if tuning.refusals and not force:
        note(f"{out} was not written; --force writes it all the same")
        raise typer.Exit(1)
    tune_report.write_settings(tuning, settings, out)
    note(f"weights written to {out}")


def _lent(also: Sequence[str], dataset: Sequence[str]) -> dict[str, list[str]]:
    """The SPECs by kind that `--also` names.

    Raises:
        InputError: one is not KIND=SPEC, or no SPEC of a `--dataset`.
    """
    from neuralstream.ranking import Kind

    lent: dict[str, list[str]] = {}
    for text in also:
        kind, _, spec = text.partition("=")
        if kind not in get_args(Kind) or spec not in dataset:
            raise InputError(
                f"--also {text}: write KIND=SPEC; a kind is {', '.join(get_args(Kind))}, SPEC one of --dataset"
            )
        lent.setdefault(kind, []).append(spec)
    return lent
