"""Which cells can share a memory."""

import pytest

from neuralstream.config import Settings
from neuralstream.workbench.cells import Cell, filling_settings, grouped
from neuralstream.workbench.sweep_file import settings_of


@pytest.mark.parametrize(
    ("lane", "setting", "shares"),
    [
        ("gems", {"retrieval.mode": "bm25"}, True),
        ("gems", {"retrieval.exchange.weights": {"dense": 1}}, True),
        ("gems", {"retrieval.exchange.bm25_b": 0.1}, True),
        ("gems", {"retrieval.exchange.neighbours": 2}, False),
        ("gems", {"batch_size": 2}, False),
        ("gems", {"extract.history_turns": 2}, False),
        ("gems", {"context_threshold": 40}, True),  # no host is simulated
        ("gems", {"context_window": 2048}, False),
        ("turns", {"batch_size": 2}, True),
        ("turns", {"context_window": 2048}, True),
        ("turns", {"max_turn_chars": 2000}, False),
    ],
)
def test_what_a_memory_depends_on(lane, setting, shares):
    """Cells share a memory where they differ in how it is searched, or in what has no effect on it."""
    one, other = (filling_settings(settings, [lane]) for settings in (Settings(), settings_of(Settings(), setting)))
    assert (one == other) == shares


def test_a_host_makes_the_threshold_count():
    """With a simulated host, the context threshold decides when turns are distilled."""
    host = Settings(context_window=2048)
    assert filling_settings(host, ["gems"]) != filling_settings(settings_of(host, {"context_threshold": 40}), ["gems"])


def cells(*memories):
    """A cell for each memory named."""
    return [Cell("s", {}, Settings(), str(number), memory) for number, memory in enumerate(memories)]


def named(groups):
    """The digests of groups of cells."""
    return [[cell.digest for cell in group] for group in groups]


def test_cells_of_one_memory_stay_together():
    """Groups are by memory, in the order in which memories come."""
    assert named(grouped(cells("a", "b", "a"), at_least=2)) == [["0", "2"], ["1"]]


def test_idle_processors_get_a_share():
    """Where there are fewer memories than processors, the largest group is cut; a single cell cannot be."""
    assert named(grouped(cells(*"aaaab"), at_least=3)) == [["0", "1"], ["2", "3"], ["4"]]
    assert named(grouped(cells("a", "b"), at_least=4)) == [["0"], ["1"]]
    assert grouped([], at_least=2) == []
