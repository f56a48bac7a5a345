"""Collecting what hybrid's linear model reads, through the memory that serves."""

from dataclasses import replace

import numpy as np
import pytest

from neuralstream import Settings
from neuralstream.errors import DatasetError
from neuralstream.ranking import FEATURES
from neuralstream.retrieve.documents import turn_point_id
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets, filling
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.fitting import Model, rank
from neuralstream.workbench.tables import collect, collect_all

WEIGHTS = {"bm25": 1.0, "dense": 0.5, "graph": 0.2, "question:exchange": -0.3}


@pytest.fixture(scope="module")
def collected(tiny):
    """The tiny set's tables."""
    (tables,) = collect_all([str(tiny)], Settings(), embedder=FakeEmbedder())
    return tables


def test_every_question_with_evidence_has_its_candidates(collected):
    """Six of seven questions can be scored; each has its own conversation's turns, sorted, with every feature."""
    assert [one.query_id for one in collected.questions] == ["ada-1", "ada-2", "bo-1", "bo-2", "cy-1", "cy-2"]
    ada = {turn_point_id("ada", f"ada-{n}") for n in range(6)}
    first, second, *_ = collected.questions
    assert set(first.ids) <= ada
    assert list(first.ids) == sorted(first.ids)
    assert first.values.shape == (len(first.ids), len(FEATURES))
    assert first.values.dtype == np.float32
    assert first.kind == "exchange"
    assert second.gold == {turn_point_id("ada", turn_id) for turn_id in ("ada-3", "ada-5")}


def test_tables_say_what_they_were_made_of(collected, tiny):
    """Data, embedder and analyser are on record, and no folder of this machine."""
    assert collected.sha256 == datasets.load(str(tiny)).sha256
    assert collected.embedder_digest == FakeEmbedder().digest
    assert collected.features == FEATURES
    assert collected.spec == "native:tiny"


def test_tables_rank_as_the_memory_serves(collected, tiny, tmp_path):
    """The ranking of a table by weights is the one that hybrid returns with the same weights."""
    settings = Settings(retrieval={"exchange": {"weights": WEIGHTS}})
    run = evaluate(str(tiny), settings, modes=["hybrid"], out=tmp_path, embedder=FakeEmbedder())
    weights = Model(WEIGHTS, 0).vector(FEATURES)
    for result, one in zip(run.results, collected.questions, strict=True):
        served = [turn_point_id(result.conversation, hit.turn_ids[0]) for hit in result.ranking]
        assert rank(one, weights) == served


def test_kept_tables_are_used_again(collected, tiny, tmp_path, monkeypatch):
    """With a folder, the second time nothing is indexed, and the tables are the same."""
    (first,) = collect_all([str(tiny)], Settings(), tmp_path, embedder=FakeEmbedder())
    monkeypatch.setattr(filling, "NeuralStream", None)
    (second,) = collect_all([str(tiny)], Settings(), tmp_path, embedder=FakeEmbedder())
    for one, other, fresh in zip(first.questions, second.questions, collected.questions, strict=True):
        for found in (other, fresh):
            assert replace(one, values=found.values) == found
            assert np.array_equal(one.values, found.values)
    other_weights = Settings(retrieval={"exchange": {"weights": WEIGHTS}})
    collect_all([str(tiny)], other_weights, tmp_path, embedder=FakeEmbedder())


def test_kept_tables_are_not_used_for_something_else(tiny, tmp_path):
    """Other data, features or settings have tables of their own."""
    for spec, settings, features in (
        (f"{tiny}@dev", Settings(), FEATURES),
        (f"{tiny}@test", Settings(), FEATURES),
        (f"{tiny}@test", Settings(retrieval={"candidates": 50}), FEATURES),
        (f"{tiny}@test", Settings(), FEATURES[:3]),
    ):
        collect_all([spec], settings, tmp_path, features=features, embedder=FakeEmbedder())
    assert len(list(tmp_path.glob("tables-*.npz"))) == 4
    assert len(list(tmp_path.iterdir())) == 4


def test_a_set_without_evidence_is_refused(tiny, tmp_path):
    """There is nothing to fit to."""
    dataset = datasets.load(str(tiny))
    unlabelled = replace(dataset, conversations=tuple(replace(one, questions=()) for one in dataset.conversations))
    with pytest.raises(DatasetError, match="labelled"):
        collect(unlabelled, Settings(), FEATURES, tmp_path, embedder=FakeEmbedder())
