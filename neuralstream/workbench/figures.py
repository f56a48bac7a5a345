"""Pictures of a run: labelled, in colours that colour-blind readers can tell apart, and with markers for print.

What `replay_figures`, `sweep_figures` and `tune_figures` draw is made with the same colours and the same frame.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from neuralstream.workbench import require
from neuralstream.workbench.metrics import HEADLINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuralstream.workbench.runs import Run

__all__ = ["COLOURS", "GRID", "axis_text", "by_category", "dress", "new_figure", "overall", "svg"]

COLOURS: Mapping[str, str] = {
    "blue": "#0072b2", "vermilion": "#d55e00", "green": "#009e73", "orange": "#e69f00", "sky": "#56b4e9",
    "purple": "#cc79a7", "grey": "#7f7f7f",
}  # fmt: skip
"""Okabe and Ito, "Color universal design", 2008."""

GRID = "#dddddd"

_STYLES = {
    "substring": (COLOURS["grey"], "x"),
    "bm25": (COLOURS["blue"], "o"),
    "graph": (COLOURS["orange"], "^"),
    "semantic": (COLOURS["green"], "s"),
    "hybrid": (COLOURS["vermilion"], "D"),
    "okapi": (COLOURS["sky"], "v"),
    "whitespace-bm25": (COLOURS["purple"], "P"),
}
_AXES = {
    "nDCG@10": "nDCG@10 (0 to 1)",
    "R@5": "R@5: share of the evidence in the first five hits (0 to 1)",
    "evidence@1000": "share of the evidence within 1,000 injected tokens (0 to 1)",
}


def overall(run: Run, lane: str, measure: str | None = None) -> Any:
    """A matplotlib figure: each mode's mean over questions with its 95 % interval over clusters.

    Args:
        run: what is shown.
        lane: one of its lanes.
        measure: None is the lane's headline measure.
    """
    measure = measure or HEADLINE[lane]
    modes = run.manifest["arguments"]["modes"]
    figure, axes = new_figure(1.1 + 0.34 * len(modes))
    for row, mode in enumerate(reversed(modes)):
        found = run.metrics["lanes"][lane][mode]
        colour, marker = _STYLES[mode]
        if found["ci"][measure]:
            axes.plot(found["ci"][measure], [row, row], color=colour, linewidth=2)
        axes.plot(found["overall"][measure], row, marker, color=colour, markersize=7)
    axes.set_yticks(range(len(modes)), list(reversed(modes)))
    axes.set_ylim(-0.6, len(modes) - 0.4)
    clusters, unit = run.metrics["dataset"]["conversations"], run.manifest["dataset"]["cluster"]
    axes.set_xlim(-0.02, 1.02)
    dress(
        axes,
        f"{run.metrics['dataset']['name']}, {lane}: mean and 95 % interval over {clusters} {unit}s",
        across=axis_text(measure),
    )
    return figure


def by_category(run: Run, lane: str, measure: str | None = None) -> Any:
    """A matplotlib figure: each mode's mean in each category, with how many questions the category has."""
    measure = measure or HEADLINE[lane]
    modes = run.manifest["arguments"]["modes"]
    lanes = run.metrics["lanes"][lane]
    categories = sorted(lanes[modes[0]]["by_category"], reverse=True)
    figure, axes = new_figure(1.2 + 0.5 * len(categories))
    for number, mode in enumerate(modes):
        colour, marker = _STYLES[mode]
        shift = 0.3 - 0.6 * number / max(1, len(modes) - 1)
        values = [lanes[mode]["by_category"][category][measure] for category in categories]
        axes.plot(
            values, [row + shift for row in range(len(categories))], marker, color=colour, markersize=6, label=mode
        )
    counts = [lanes[modes[0]]["by_category"][category]["queries"] for category in categories]
    labels = [f"{category} ({count})" for category, count in zip(categories, counts, strict=True)]
    axes.set_yticks(range(len(categories)), labels)
    for row in range(len(categories) - 1):
        axes.axhline(row + 0.5, color=GRID, linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    axes.set_xlim(-0.02, 1.02)
    dress(
        axes, f"{run.metrics['dataset']['name']}, {lane}: by category (number of questions)", across=axis_text(measure)
    )
    return figure


def svg(figure: Any) -> str:
    """A figure as an SVG document, the same bytes for the same picture."""
    matplotlib = require("matplotlib")
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "neuralstream"}):
        figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def axis_text(measure: str) -> str:
    """A measure with what it means and its range, for an axis."""
    return _AXES.get(measure, f"{measure} (0 to 1)")


def new_figure(height: float, width: float = 8) -> Any:
    """A figure and its axes, in inches, outside pyplot, which keeps figures alive and picks a window system."""
    figure = require("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def dress(axes: Any, title: str, *, across: str, along: str = "") -> None:
    """Give axes their title, their labels (x is `across`, y is `along`), a light grid, and no frame above and right."""
    axes.set_xlabel(across)
    if along:
        axes.set_ylabel(along)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="both" if along else "x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
