"""Pictures of replays, sweeps and tunings: they show what they are given, under labels that name their units."""

from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.errors import NeuralStreamError
from neuralstream.workbench import figures, replay_figures, sweep_figures, tune_figures
from neuralstream.workbench.sweep import Sweep
from neuralstream.workbench.sweep_figures import Point
from neuralstream.workbench.tables import Tables
from neuralstream.workbench.timeline import Distilled, Said, Timeline
from neuralstream.workbench.tune import tune
from neuralstream.workbench.virtual_clock import Moment


def texts(figure):
    """Every text of a drawn figure."""
    figures.svg(figure)
    matplotlib_text = type(figure.axes[0].title)
    return [one.get_text() for one in figure.findobj(matplotlib_text) if one.get_text()]


def at(turns):
    """A moment after so many turns, a minute each."""
    return Moment(datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=turns), turns)


@pytest.fixture
def lived():
    """Five turns of two sessions: two by a full batch, two by silence, one never cited."""
    said = [Said("ada", "s1" if n < 4 else "s2", f"t{n}", at(n), at(5) if n == 1 else None) for n in range(1, 6)]
    batches = [
        Distilled(at(2), "batch", "ada", "s1", ("t1", "t2"), gems=("g1",), cited=("t1", "t2")),
        Distilled(at(4), "idle", "ada", "s1", ("t3",), gems=("g2",), cited=("t3",)),
        Distilled(at(5), "strange", "ada", "s2", ("t4", "t5")),
    ]
    return Timeline(tuple(said), tuple(batches))


def test_timeline_names_sessions_and_causes(lived):
    """Sessions are lines, causes are in the legend; the first sessions alone are drawn where there are more."""
    shown = texts(replay_figures.timeline(lived, "ada"))
    assert {"s1", "s2", "batch", "idle", "strange", "turns said so far by this user (count)"} <= set(shown)
    assert "s2" not in texts(replay_figures.timeline(lived, "ada", sessions=1))


def test_causes_count_turns(lived):
    """A bar a trigger, with the turns that it distilled."""
    shown = texts(replay_figures.causes(lived))
    assert {"batch", "idle", "strange", "turns distilled (count)"} <= set(shown)
    assert [one for one in shown if one in {"2", "1"}].count("2") >= 2


def test_findable_ends_at_the_share_of_cited_turns(lived):
    """The curve rises by a turn at a time to the share of turns that a gem says."""
    line = replay_figures.findable(lived).axes[0].lines[0]
    assert list(line.get_xdata()) == [0, 0, 1, 1]
    assert list(line.get_ydata()) == [0.0, 0.2, 0.4, 0.6]


@pytest.fixture
def grid():
    """Four cells, of which (5, 40) finds less than (5, 80) with more calls."""
    return [
        Point("a", {"batch_size": 3, "context_threshold": 40}, 0.70, 40.0, 0.5, 0.0),
        Point("b", {"batch_size": 3, "context_threshold": 80}, 0.70, 36.0, 0.7, 0.1),
        Point("c", {"batch_size": 5, "context_threshold": 40}, 0.60, 30.0, None, 0.0),
        Point("d", {"batch_size": 5, "context_threshold": 80}, 0.65, 25.0, 1.2, 0.2),
    ]


def test_frontier_holds_what_nothing_beats(grid):
    """More evidence for more calls; of cells that find the same, the one with fewer calls."""
    assert [one.digest for one in sweep_figures.frontier(grid)] == ["d", "b"]
    rows = sweep_figures.rows(grid)
    assert [row[-1] for row in rows[1:]] == ["", "yes", "", "yes"]


def test_heat_map_writes_each_value_and_leaves_gaps(grid):
    """Every cell's value stands in it; one that has none stays blank; axes name setting and unit."""
    drawn = sweep_figures.heat_map(
        grid, [one.lag for one in grid], across="batch_size", along="context_threshold", title="lag (turns)"
    )
    shown = texts(drawn)
    assert {"0.5", "0.7", "1.2", "lag (turns)", "batch_size\n(turns)"} <= set(shown)
    assert "context_threshold\n(percent of the window)" in shown


def test_pareto_names_the_frontier_alone(grid):
    """Cells on the frontier say what they are."""
    shown = texts(sweep_figures.pareto(grid))
    named = {one for one in shown if one.startswith("batch_size ")}
    assert named == {"batch_size 3, context_threshold 80", "batch_size 5, context_threshold 80"}


def test_sweep_without_a_run_says_why(tmp_path):
    """Nothing to draw is an error that names what went wrong."""
    nothing = Sweep(None, tmp_path, (), {"a": "no such prompt"}, {}, 0, 0.0)
    with pytest.raises(NeuralStreamError, match="has a run: no such prompt"):
        sweep_figures.points(nothing)


def test_tuning_is_drawn(planted):
    """Rankings, weights and groups are named on their axes."""
    names = ("dense", "bm25")
    asked = tuple(planted((1.0, 0.5), conversations=4, each=5, candidates=10))
    tables = Tables("set", "sha", "dev", "conversation", "native:set@dev", "fake", "0123", "english", names, asked)
    groups = {"words": ("bm25",), "meaning": ("dense",)}
    tuned = tune([tables], {"people": {"dense": 1.0}}, names, groups=groups)
    (outcome,) = tuned.outcomes
    assert {"weights in force", "fitted: conversations left out"} <= set(texts(tune_figures.rankings(outcome)))
    shown = texts(tune_figures.weights(tuned, "people", {"dense": 2.0}))
    assert {"dense", "fitted", "in force"} <= set(shown)
    assert {"words", "meaning"} <= set(texts(tune_figures.ablations(outcome)))
