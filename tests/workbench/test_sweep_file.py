"""Reading the file that describes sweeps."""

from pathlib import Path

import pytest

from neuralstream.config import Settings
from neuralstream.errors import InputError, SettingsError
from neuralstream.workbench.sweep_file import read_sweep_file, settings_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def read(tmp_path):
    """Read a text as a file."""

    def read(text):
        (tmp_path / "sweep.yaml").write_text(text)
        return read_sweep_file(tmp_path / "sweep.yaml")

    return read


GRID = "dataset: d\nsweeps: [{name: a, grid: {batch_size: [1, 2], context_threshold: [40, 80]}}]\n"


def test_a_grid_is_a_product(read):
    """Every value meets every other, the last name varying fastest."""
    (part,) = read(GRID).sweeps
    assert list(part.combinations()) == [
        {"batch_size": 1, "context_threshold": 40},
        {"batch_size": 1, "context_threshold": 80},
        {"batch_size": 2, "context_threshold": 40},
        {"batch_size": 2, "context_threshold": 80},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("datset: d\n" + GRID, "unknown key 'datset'; use dataset, lanes"),
        (GRID.replace("name: a", "name: a, gird: {}"), r"unknown key 'sweeps.0.gird'; use name, needs"),
        (GRID.replace("dataset: d\n", ""), "dataset is missing"),
        (GRID.replace("[1, 2]", "[]"), "batch_size has no value"),
        (GRID.replace("name: a", "name: a, trials: 3"), "trials belong to a sampler"),
        ("dataset: d\nsweeps: [{name: a}]", "has a grid, or a sampler"),
        ("dataset: d\nsweeps: [{name: a, sampler: tpe}]", "give space and maximise"),
        ("dataset: d\nsweeps: []", "at least 1 item"),
        (GRID.replace("sweeps: [", "sweeps: [{name: a, grid: {batch_size: [3]}}, "), "two sweeps have one name"),
        ("dataset: d\nlanes: [gem]\n" + GRID[11:], "lanes.0: Input should be 'turns', 'gems' or 'all'"),
        (
            "dataset: d\nsweeps: [{name: a, sampler: tpe, maximise: m, space: {x: {low: 1, hihg: 2}}}]",
            "unknown key 'sweeps.0.space.x.hihg'; use low, high, step, log",
        ),
        (
            "dataset: d\nsweeps: [{name: a, sampler: tpe, maximise: m, space: {x: {low: 2, high: 1}}}]",
            "low 2 is not below high 1",
        ),
        (
            "dataset: d\nsweeps: [{name: a, sampler: tpe, maximise: m, space: {x: {low: 0, high: 1, log: true}}}]",
            "begins above 0",
        ),
        (
            "dataset: d\nsweeps: [{name: a, sampler: tpe, maximise: m, space: {x: {low: 0.5, high: 2, step: 1}}}]",
            "whole step needs whole ends",
        ),
        ("a: [", "is not YAML"),
        ("just words", "describes no sweep"),
    ],
)
def test_mistakes_are_named(read, text, said):
    """A file that is wrong is refused, with the key and what may stand there."""
    with pytest.raises(InputError, match=said):
        read(text)


def test_a_missing_file_is_named(tmp_path):
    """A file that is not there is named."""
    with pytest.raises(InputError, match=r"cannot read .*none\.yaml"):
        read_sweep_file(tmp_path / "none.yaml")


def test_paths_are_relative_to_the_file(read, tmp_path):
    """What names a file in a sweep lies beside the sweep, wherever the command is run."""
    text = GRID.replace(
        "name: a", "name: a, needs: x.jsonl, settings: {llm: {cassette: x.jsonl, mode: replay}, gem_model: tiny}"
    )
    (part,) = read(text).sweeps
    assert part.needs == tmp_path / "x.jsonl"
    assert part.settings == {"llm.cassette": str(tmp_path / "x.jsonl"), "llm.mode": "replay", "gem_model": "tiny"}


def test_later_settings_win():
    """Nested and dotted names mean the same; what comes later wins, and the base stays below."""
    base = Settings(batch_size=7, idle_timeout="2m")
    made = settings_of(base, {"extract": {"history_turns": 3}}, {"extract.history_turns": 4, "context_threshold": 40})
    assert (made.batch_size, made.idle_timeout, made.context_threshold) == (7, base.idle_timeout, 40)
    assert made.extract.history_turns == 4


def test_one_weight_leaves_the_others():
    """A weight that is named alone changes alone; weights given together are all the weights there are."""
    before = Settings().retrieval.exchange.weights
    one = settings_of(Settings(), {"retrieval.exchange.weights.dense": 0.25}).retrieval.exchange.weights
    assert one == {**before, "dense": 0.25}
    every = settings_of(Settings(), {"retrieval": {"exchange": {"weights": {"dense": 1}}}})
    assert every.retrieval.exchange.weights == {"dense": 1}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"thresold": 40}, "unknown setting 'thresold'"),
        ({"context_threshold": 30}, "40.0 to 80.0|40 to 80"),
        ({"batch_size.x": 1}, "batch_size"),
    ],
)
def test_wrong_settings_are_named(setting, said):
    """A setting that does not exist or is out of range is refused by name."""
    with pytest.raises(SettingsError, match=said):
        settings_of(Settings(), setting)


def test_the_example_is_a_file():
    """The shipped example can be read, and its settings exist."""
    read = read_sweep_file(ROOT / "notebooks" / "sweep.yaml")
    capture = read.sweeps[0]
    assert len(list(capture.combinations())) == 15
    for part in read.sweeps:
        for varied in part.combinations():
            settings_of(Settings(), read.settings, part.settings, varied)
