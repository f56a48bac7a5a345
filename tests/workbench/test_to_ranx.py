"""A run in the hands of ranx."""

import pytest

from neuralstream.errors import InputError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.to_ranx import to_ranx

OURS = {"precision@5": "P@5", "recall@5": "R@5", "ndcg@10": "nDCG@10", "mrr": "MRR"}


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    """Substring finds nothing of these questions, BM25 most."""
    out = tmp_path_factory.mktemp("run") / "tiny"
    return evaluate(datasets.load(str(tiny)), modes=("substring", "bm25"), out=out, embedder=FakeEmbedder())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # numba's own while it compiles
@pytest.mark.parametrize("mode", ["substring", "bm25"])
def test_ranx_scores_a_run_as_we_do(run, mode):
    """Over all questions, those included for which nothing was found."""
    import ranx

    judged = to_ranx(run, mode)
    found = ranx.evaluate(judged.qrels, judged.run, list(OURS))
    overall = run.metrics["lanes"]["turns"][mode]["overall"]
    assert {name: round(float(value), 6) for name, value in found.items()} == {
        theirs: overall[ours] for theirs, ours in OURS.items()
    }


def test_rankings_that_a_run_does_not_have_are_named(run):
    """A mode that was not evaluated is refused with those that were."""
    with pytest.raises(InputError, match="modes substring, bm25"):
        to_ranx(run, "hybrid")
