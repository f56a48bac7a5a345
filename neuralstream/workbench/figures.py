"""Pictures of a run: labelled, in colours that colour-blind readers can tell apart, and with markers for print."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from neuralstream.workbench import require
from neuralstream.workbench.metrics import HEADLINE

if TYPE_CHECKING:
    from neuralstream.workbench.runs import Run

__all__ = ["by_category", "overall", "svg"]

# Okabe and Ito, "Color universal design", 2008.
_STYLES = {
    "substring": ("#7f7f7f", "x"),
    "bm25": ("#0072b2", "o"),
    "graph": ("#e69f00", "^"),
    "semantic": ("#009e73", "s"),
    "hybrid": ("#d55e00", "D"),
    "okapi": ("#56b4e9", "v"),
    "whitespace-bm25": ("#cc79a7", "P"),
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
    figure, axes = _figure(1.1 + 0.34 * len(modes))
    for row, mode in enumerate(reversed(modes)):
        found = run.metrics["lanes"][lane][mode]
        colour, marker = _STYLES[mode]
        if found["ci"][measure]:
            axes.plot(found["ci"][measure], [row, row], color=colour, linewidth=2)
        axes.plot(found["overall"][measure], row, marker, color=colour, markersize=7)
    axes.set_yticks(range(len(modes)), list(reversed(modes)))
    axes.set_ylim(-0.6, len(modes) - 0.4)
    clusters, unit = run.metrics["dataset"]["conversations"], run.manifest["dataset"]["cluster"]
    _finish(axes, measure, f"{run.metrics['dataset']['name']}, {lane}: mean and 95 % interval over {clusters} {unit}s")
    return figure


def by_category(run: Run, lane: str, measure: str | None = None) -> Any:
    """A matplotlib figure: each mode's mean in each category, with how many questions the category has."""
    measure = measure or HEADLINE[lane]
    modes = run.manifest["arguments"]["modes"]
    lanes = run.metrics["lanes"][lane]
    categories = sorted(lanes[modes[0]]["by_category"], reverse=True)
    figure, axes = _figure(1.2 + 0.5 * len(categories))
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
        axes.axhline(row + 0.5, color="#dddddd", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    _finish(axes, measure, f"{run.metrics['dataset']['name']}, {lane}: by category (number of questions)")
    return figure


def svg(figure: Any) -> str:
    """A figure as an SVG document, the same bytes for the same picture."""
    matplotlib = require("matplotlib")
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "neuralstream"}):
        figure.savefig(drawn, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def _figure(height: float) -> Any:
    """A figure outside pyplot, which keeps figures alive and picks a window system."""
    figure = require("matplotlib.figure").Figure(figsize=(8, height), layout="constrained")
    return figure, figure.subplots()


def _finish(axes: Any, measure: str, title: str) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel(_AXES.get(measure, f"{measure} (0 to 1)"))
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
