"""Pictures of a tuning: what fitted weights are worth beside what else there is, the weights, what each group adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuralstream.workbench.figures import COLOURS, axis_text, dress, new_figure
from neuralstream.workbench.tune import DEVELOPMENT, EQUAL, HEADLINE, IN_FORCE, LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuralstream.workbench.tune import Outcome, Tuning

__all__ = ["ablations", "rankings", "weights"]


def rankings(outcome: Outcome) -> Any:
    """A matplotlib figure: nDCG@10 of the fitted weights beside the signals, with 95 % intervals over conversations.

    What was measured on the very questions that weights were fitted to is drawn hollow: it flatters.
    """
    systems = [outcome.best_signal, EQUAL, IN_FORCE, DEVELOPMENT, LEFT_OUT, *outcome.travelled]
    figure, axes = new_figure(1.2 + 0.36 * len(systems))
    for row, system in enumerate(reversed(systems)):
        fitted = system in {DEVELOPMENT, LEFT_OUT, *outcome.travelled}
        colour = COLOURS["vermilion"] if fitted else COLOURS["blue"]
        axes.plot(outcome.interval(system), [row, row], color=colour, linewidth=2)  # NaN ends draw nothing
        face = "white" if system == DEVELOPMENT else colour
        axes.plot(outcome.mean(system), row, "D" if fitted else "o", color=colour, markerfacecolor=face, markersize=7)
    names = [f"best single signal: {name}" if name == outcome.best_signal else name for name in systems]
    axes.set_yticks(range(len(systems)), list(reversed(names)))
    axes.set_ylim(-0.6, len(systems) - 0.4)
    axes.set_xlim(-0.02, 1.02)
    dress(axes, f"{outcome.tables.name} ({outcome.kind}): mean and 95 % interval", across=axis_text(HEADLINE))
    return figure


def weights(tuning: Tuning, kind: str, in_force: Mapping[str, float]) -> Any:
    """A matplotlib figure: each feature's fitted weight beside the one in force, the largest of each being 1."""
    fitted = tuning.models[kind].weights
    names = [name for name in tuning.features if fitted.get(name) or in_force.get(name)]
    names.sort(key=lambda name: abs(fitted.get(name, 0.0)))
    figure, axes = new_figure(1.3 + 0.24 * len(names))
    for found, colour, marker, label in (
        (in_force, COLOURS["blue"], "o", "in force"),
        (fitted, COLOURS["vermilion"], "D", "fitted"),
    ):
        most = max((abs(value) for value in found.values()), default=0.0) or 1.0
        axes.plot([found.get(name, 0.0) / most for name in names], range(len(names)), marker, color=colour, label=label)
    axes.axvline(0, color=COLOURS["grey"], linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    dress(axes, f"Weights for {kind}", across="weight, of the largest (no unit)")
    return figure


def ablations(outcome: Outcome) -> Any:
    """A matplotlib figure: what each group of features adds to nDCG@10, with its 95 % interval; 0 is nothing."""
    found = sorted(outcome.ablations, key=lambda one: one.overall[HEADLINE].difference)
    figure, axes = new_figure(1.2 + 0.34 * max(1, len(found)))
    for row, one in enumerate(found):
        gain = one.overall[HEADLINE]
        axes.plot(gain.interval, [row, row], color=COLOURS["green"], linewidth=2)
        axes.plot(gain.difference, row, "s", color=COLOURS["green"], markersize=7)
    axes.axvline(0, color=COLOURS["grey"], linewidth=0.8)
    axes.set_yticks(range(len(found)), [one.group for one in found])
    dress(
        axes, f"{outcome.tables.name} ({outcome.kind}): conversations left out",
        across=f"{HEADLINE} with all features minus without the group (difference)",
    )  # fmt: skip
    return figure
