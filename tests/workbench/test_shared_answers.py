"""Answers that several cells of a sweep share."""

import pytest

from neuralstream.config import Settings
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.prepared import prepared_memory
from neuralstream.workbench.shared_answers import SharedAnswers
from neuralstream.workbench.sweep_file import settings_of

MODES = ("bm25", "semantic", "graph", "hybrid")


@pytest.fixture(scope="module")
def person(tiny):
    """One person of the small set."""
    return datasets.load(f"{tiny}@test")


def asked(dataset, settings, folder, shared_in, lanes=("turns", "gems")):
    """A run, and the lane and mode of every answer that had to be asked for."""
    shared = SharedAnswers(shared_in, settings, dataset.sha256, k=10, depth=100)
    made = []
    keeps = shared.of

    def of(memory, user, lane, mode, ask):
        def counted():
            made.append((lane, mode))
            return ask()

        return keeps(memory, user, lane, mode, counted)

    shared.of = of
    run = evaluate(dataset, settings, modes=MODES, lanes=lanes, out=folder, embedder=FakeEmbedder(), shared=shared)
    return run, made


@pytest.fixture(scope="module")
def first(person, tmp_path_factory):
    """A run whose answers are kept, and where."""
    folder = tmp_path_factory.mktemp("first")
    run, made = asked(person, Settings(batch_size=3), folder / "run", folder / "shared")
    assert len(made) == 8
    return run, folder / "shared"


def test_equal_gems_are_not_asked_again(first, person, tmp_path):
    """Batches of four end where batches of three do, by the session: the same gems, so the same bytes, unasked."""
    run, kept = first
    again, made = asked(person, Settings(batch_size=4), tmp_path, kept)
    assert made == []
    assert (again.path / "per_query.jsonl").read_bytes() == (run.path / "per_query.jsonl").read_bytes()
    assert again.timings["query_ms"].keys() == run.timings["query_ms"].keys()


def test_other_gems_are_asked_anew_and_raw_turns_are_not(first, person, tmp_path):
    """With other gems only what reads gems is asked, and answers are what they are without anything shared."""
    _, kept = first
    settings = settings_of(Settings(), {"batch_size": 1, "extract.max_gems_per_turn": 2})
    again, made = asked(person, settings, tmp_path / "again", kept)
    assert set(made) == {("turns", "graph"), *(("gems", mode) for mode in MODES)}
    alone, _ = asked(person, settings, tmp_path / "alone", tmp_path / "empty")
    assert again.results == alone.results


def test_another_search_is_asked_anew(first, person, tmp_path):
    """Another weight is another answer."""
    _, kept = first
    settings = settings_of(Settings(batch_size=3), {"retrieval.exchange.weights.dense": 0.1})
    assert len(asked(person, settings, tmp_path, kept, lanes=("turns",))[1]) == 4


def test_a_memory_can_be_searched_by_other_settings(first, person, tmp_path):
    """A prepared memory answers by the settings of each run as one that was filled for it does."""
    settings = settings_of(Settings(batch_size=3), {"retrieval.exchange.weights": {"bm25": 1}})
    with prepared_memory(
        person, Settings(batch_size=3), tmp_path, lanes=("gems",), embedder=FakeEmbedder()
    ) as prepared:
        one, other = (
            evaluate(person, each, modes=("hybrid",), lanes=("gems",), out=tmp_path / str(n), prepared=prepared)
            for n, each in enumerate((Settings(batch_size=3), settings))
        )
    assert one.of("gems", "hybrid") == first[0].of("gems", "hybrid")
    alone = evaluate(
        person, settings, modes=("hybrid",), lanes=("gems",), out=tmp_path / "alone", embedder=FakeEmbedder()
    )
    assert other.results == alone.results
    assert other.results != one.results
    assert other.manifest["run"] == alone.manifest["run"]
