"""Pictures of a replay: which turns were distilled when and why, and how long it took until a gem said them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any

from neuralstream.workbench.figures import COLOURS, dress, new_figure
from neuralstream.workbench.policy import lags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuralstream.workbench.timeline import Distilled, Timeline

__all__ = ["causes", "findable", "timeline"]

_CAUSES: Mapping[str, tuple[str, str]] = {
    "batch": (COLOURS["blue"], "o"),
    "context": (COLOURS["vermilion"], "D"),
    "idle": (COLOURS["orange"], "^"),
    "compaction": (COLOURS["green"], "s"),
    "reset": (COLOURS["purple"], "P"),
    "end": (COLOURS["sky"], "v"),
}
"""Colour and marker of each trigger."""

_OTHER = (COLOURS["grey"], "X")


def timeline(replayed: Timeline, user: str, *, sessions: int = 12) -> Any:
    """A matplotlib figure of one user's first sessions, a line each, the user's turns counted along the line.

    A tick is a turn; a bar spans the turns of a batch; the marker says what made the batch due, and stands where its
    gems could be found. A cross above a turn: it had left the host's context by then.

    Args:
        replayed: what happened.
        user: whose sessions.
        sessions: the most to draw, those that began first.
    """
    said = [one for one in replayed.turns if one.user_id == user]
    own = [one.moment.turns for one in said]
    number = {one.turn_id: n for n, one in enumerate(said, 1)}
    shown = list(dict.fromkeys(one.session_id for one in said))[:sessions]
    line = {session: len(shown) - 1 - n for n, session in enumerate(shown)}
    figure, axes = new_figure(1.4 + 0.42 * len(shown))
    for one in said:
        if one.session_id in line:
            at = line[one.session_id]
            axes.plot(number[one.turn_id], at, "|", color=COLOURS["grey"], markersize=9)
            if one.left:
                axes.plot(number[one.turn_id], at + 0.32, "x", color=COLOURS["grey"], markersize=3.5)
    named: set[str] = set()
    for batch in replayed.batches:
        if batch.user_id == user and batch.session_id in line:
            _draw(
                axes, batch, number, line[batch.session_id], found_at=bisect_right(own, batch.moment.turns), named=named
            )
    axes.set_yticks(list(line.values()), list(line))
    axes.set_ylim(-0.7, len(shown) - 0.3)
    if named:
        figure.legend(loc="outside lower center", ncols=6, frameon=False, title="distilled because of")
    dress(axes, f"{user}: what was distilled when", across="turns said so far by this user (count)")
    axes.set_ylabel("session")
    return figure


def causes(replayed: Timeline) -> Any:
    """A matplotlib figure: how many turns each trigger distilled."""
    turns = Counter[str]()
    for batch in replayed.batches:
        turns[batch.cause] += len(batch.turn_ids)
    names = [name for name, _ in reversed(turns.most_common())]
    figure, axes = new_figure(1.0 + 0.34 * max(1, len(names)))
    bars = axes.barh(names, [turns[name] for name in names], color=[_style(name)[0] for name in names], height=0.6)
    axes.bar_label(bars, padding=3)
    dress(axes, "What made batches due", across="turns distilled (count)")
    return figure


def findable(replayed: Timeline) -> Any:
    """A matplotlib figure: the share of turns that a gem says, by how many turns were said meanwhile."""
    waited = sorted(in_turns for in_turns, _ in lags(replayed))
    total = max(1, len(replayed.turns))
    figure, axes = new_figure(3)
    axes.step(
        [0, *waited], [n / total for n in range(len(waited) + 1)], where="post", color=COLOURS["blue"], linewidth=2
    )
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    dress(
        axes, "How soon a gem says what was said",
        across="turns said by the user since (count)", along="share of all turns (0 to 1)",
    )  # fmt: skip
    return figure


def _draw(axes: Any, batch: Distilled, number: Mapping[str, int], line: int, *, found_at: int, named: set[str]) -> None:
    """A batch as a bar over its turns, and its marker where its gems could be found."""
    colour, marker = _style(batch.cause)
    turns = [number[turn_id] for turn_id in batch.turn_ids if turn_id in number]
    if not turns:
        return
    axes.plot(
        [turns[0] - 0.3, turns[-1] + 0.3],
        [line, line],
        color=colour,
        linewidth=5,
        alpha=0.45,
        zorder=1,
        solid_capstyle="butt",
    )
    axes.plot([turns[-1], found_at], [line - 0.25, line - 0.25], color=colour, linewidth=1)
    label = None if batch.cause in named else batch.cause
    axes.plot(found_at, line - 0.25, marker, color=colour, markersize=6, label=label, linestyle="none")
    named.add(batch.cause)


def _style(cause: str) -> tuple[str, str]:
    return _CAUSES.get(cause, _OTHER)
