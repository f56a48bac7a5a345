"""Pictures of a sweep over capture policies: what a policy finds, how soon, and how often it calls an extractor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.errors import NeuralStreamError
from neuralstream.workbench.figures import COLOURS, axis_text, dress, new_figure
from neuralstream.workbench.report import candidate
from neuralstream.workbench.runs import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.workbench.sweep import Sweep

__all__ = ["Point", "frontier", "heat_map", "pareto", "points", "rows"]

EVIDENCE = "evidence@1000"


class Point(NamedTuple):
    """What a cell measured, of the mode it would serve on the lane of gems.

    Attributes:
        digest: of its run.
        varied: what the sweep varied.
        evidence: share of the evidence within 1,000 injected tokens.
        batches: per 100 turns: how often an extractor is called.
        lag: turns until a gem says what was said, mean; None where no turn is cited.
        undistilled: share of turns that had left the host's context before anything had taken them.
    """

    digest: str
    varied: Mapping[str, Any]
    evidence: float
    batches: float
    lag: float | None
    undistilled: float


def points(done: Sweep) -> list[Point]:
    """The cells of a sweep that simulated a host and searched gems, in the file's order.

    Raises:
        NeuralStreamError: none has a run.
    """
    if not done.cells:
        why = "; ".join(sorted(set(done.failed.values()))) or "the file asks for none"
        raise NeuralStreamError(f"no cell of the sweep in {done.out} has a run: {why}")
    found = []
    for cell in done.cells:
        run = read_run(done.out / cell.digest)
        policy = run.metrics["policy"]
        found.append(
            Point(
                digest=cell.digest,
                varied=cell.varied,
                evidence=run.metrics["lanes"]["gems"][candidate(run, "gems")]["overall"][EVIDENCE],
                batches=100 * policy["batches"] / policy["turns"],
                lag=policy["lag_turns"]["mean"],
                undistilled=policy["left_undistilled"],
            )
        )
    return found


def rows(found: Sequence[Point]) -> list[list[Any]]:
    """As a table: a header, then a row per cell; the frontier's have a mark."""
    best = {one.digest for one in frontier(found)}
    names = list(dict.fromkeys(name for one in found for name in one.varied))
    head = [*names, EVIDENCE, "batches per 100 turns", "lag in turns, mean", "left undistilled", "on the frontier"]
    return [head] + [
        [
            *(one.varied.get(name) for name in names),
            *(one.evidence, one.batches, one.lag, one.undistilled, "yes" if one.digest in best else ""),
        ]
        for one in found
    ]


def frontier(found: Sequence[Point]) -> list[Point]:
    """Those that no other beats: more evidence costs more calls. The fewest calls come first."""
    kept: list[Point] = []
    for one in sorted(found, key=lambda point: (point.batches, -point.evidence, point.digest)):
        if not kept or one.evidence > kept[-1].evidence:
            kept.append(one)
    return kept


def heat_map(found: Sequence[Point], values: Sequence[float | None], *, across: str, along: str, title: str) -> Any:
    """A matplotlib figure: a value a cell, written into it, darker where it is higher.

    Args:
        found: the cells.
        values: one a cell; None stays blank.
        across, along: the settings that columns and rows stand for.
        title: what the values are, with their unit.
    """
    by_cell = {
        (one.varied[across], one.varied[along]): value
        for one, value in zip(found, values, strict=True)
        if value is not None
    }
    columns = sorted({one.varied[across] for one in found})
    lines = sorted({one.varied[along] for one in found})
    grid = [[by_cell.get((column, line), float("nan")) for column in columns] for line in lines]
    figure, axes = new_figure(max(2.2, 1.2 + 0.5 * len(lines)), width=3 + 0.9 * len(columns))
    shown = axes.imshow(grid, cmap="cividis_r", aspect="auto", origin="lower")
    middle = (shown.norm.vmin + shown.norm.vmax) / 2 if by_cell else 0.0
    for column, x in enumerate(columns):
        for line, y in enumerate(lines):
            value = by_cell.get((x, y))
            if value is not None:
                colour = "white" if value > middle else "black"
                axes.text(column, line, f"{value:.3g}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), [str(value) for value in columns])
    axes.set_yticks(range(len(lines)), [str(value) for value in lines])
    figure.colorbar(shown, ax=axes)
    axes.set_xlabel(_named(across))
    axes.set_ylabel(_named(along))
    axes.set_title(title, loc="left", fontsize=10)
    return figure


def pareto(found: Sequence[Point]) -> Any:
    """A matplotlib figure: evidence per injected token against calls of an extractor, with the frontier."""
    best = frontier(found)
    figure, axes = new_figure(3.8)
    axes.plot(
        [one.batches for one in found], [one.evidence for one in found], "o", color=COLOURS["grey"], label="a cell"
    )
    axes.step(
        [one.batches for one in best], [one.evidence for one in best], "D-", where="post",
        color=COLOURS["vermilion"], label="frontier: no cell finds more with fewer calls",
    )  # fmt: skip
    for one in best:
        words = ", ".join(f"{name} {value}" for name, value in one.varied.items())
        axes.annotate(words, (one.batches, one.evidence), xytext=(4, 6), textcoords="offset points", fontsize=8)
    axes.margins(x=0.2, y=0.15)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    dress(
        axes, "What calls buy",
        across="calls of an extractor per 100 turns (count)", along=axis_text(EVIDENCE).replace(" within", "\nwithin"),
    )  # fmt: skip
    return figure


def _named(setting: str) -> str:
    units = {"batch_size": "turns", "context_threshold": "percent of the window"}
    return f"{setting}\n({units[setting]})" if setting in units else setting
