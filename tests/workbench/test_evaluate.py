"""Evaluating a labelled set through the memory that serves."""

import json
from dataclasses import replace

import pytest

from neuralstream.config import Settings
from neuralstream.errors import DatasetError, ExtractionError, InputError
from neuralstream.testing import FakeEmbedder, ScriptedExtractor
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import MODES, beside_turns, evaluate
from neuralstream.workbench.metrics import average
from neuralstream.workbench.runs import read_run

ALL_MODES = (*MODES, "okapi", "whitespace-bm25")


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    """The tiny set under every mode and lane."""
    out = tmp_path_factory.mktemp("run")
    return evaluate(str(tiny), modes=ALL_MODES, lanes=("turns", "gems", "all"), out=out, k=3, embedder=FakeEmbedder())


def test_layout(run):
    """metrics.json has the promised keys for each lane, mode and category."""
    metrics = json.loads((run.path / "metrics.json").read_text())
    assert {path.name for path in run.path.iterdir()} == {
        "manifest.json",
        "metrics.json",
        "per_query.jsonl",
        "timings.json",
    }
    assert metrics["dataset"]["queries_total"] == 7
    assert metrics["dataset"]["queries_scored"] == 6
    assert metrics["dataset"]["unscored_by_category"] == {"unanswerable": 1}
    turns = metrics["lanes"]["turns"]["hybrid"]
    measures = {"P@5", "ceiling_P@5", "R@5", "R@10", "nDCG@10", "MRR@10", "MRR", "hit@5", "all@5"}
    assert set(turns["overall"]) == set(turns["ci"]) == measures | {f"evidence@{b}" for b in (500, 1000, 2000)}
    assert set(turns["by_category"]) == {"identifier", "multi-hop", "paraphrase"}
    assert turns["by_category"]["identifier"]["queries"] == 3
    gems = metrics["lanes"]["gems"]["bm25"]["overall"]
    assert {"gems_per_100_turns", "source_turns_per_gem", "duplicates", "calls", "tokens"} <= set(gems)
    assert not {"nDCG@10", "MRR"} & set(gems)


def test_same_bytes_when_run_again(run, tiny, tmp_path):
    """Running again elsewhere gives the same metrics and rankings to the byte, and the same run digest."""
    again = evaluate(
        str(tiny), modes=ALL_MODES, lanes=("turns", "gems", "all"), out=tmp_path / "b", k=3, embedder=FakeEmbedder()
    )
    for name in ("metrics.json", "per_query.jsonl"):
        assert (run.path / name).read_bytes() == (again.path / name).read_bytes()
    assert run.manifest["run"] == again.manifest["run"]


def test_finds_what_words_find(run):
    """BM25 finds the redis port in the right turn, and a record shows where."""
    (found,) = (result for result in run.of("turns", "bm25") if result.query_id == "ada-1")
    assert found.ranking[0].id == "ada-0"
    assert found.ranking[0].signals
    assert found.scores["MRR"] == 1
    assert len(found.ranking) <= 3


def test_means_are_over_questions(run):
    """An overall value is the mean of the queries' own."""
    for lane, mode in (("turns", "semantic"), ("gems", "bm25"), ("all", "okapi")):
        mean = average(result.scores for result in run.of(lane, mode))
        stored = run.metrics["lanes"][lane][mode]["overall"]
        assert {name: stored[name] for name in mean} == pytest.approx(mean, abs=2e-6)


def test_people_are_kept_apart(run):
    """No ranking holds another person's turn."""
    for result in run.results:
        assert all(turn_id.startswith(result.conversation) for hit in result.ranking for turn_id in hit.turn_ids)


def test_read_back(run):
    """A run read from its folder is the run that was written."""
    read = read_run(run.path)
    assert read.results == run.results
    assert (read.metrics, read.manifest) == (run.metrics, run.manifest)


def test_servers_in_the_settings_are_left_alone(run, settings, tiny, tmp_path):
    """Settings that name live servers are measured on engines of the run's own, and no address is recorded."""
    live = settings.model_copy(update={"redis_url": "redis://10.0.0.1:1/0", "qdrant_url": "http://10.0.0.1:1"})
    again = evaluate(str(tiny), live, modes=("bm25",), out=tmp_path / "run", embedder=FakeEmbedder())
    assert "10.0.0.1" not in (again.path / "manifest.json").read_text()
    assert again.metrics["lanes"]["turns"]["bm25"] == run.metrics["lanes"]["turns"]["bm25"]


def test_future_is_not_found(tiny, tmp_path):
    """A question asked before the answer was said finds nothing of it."""
    dataset = datasets.load(f"{tiny}@test")
    (person,) = dataset.conversations
    early = person.questions[0].__class__(
        "q", "which voice does Nora sing", "temporal", ("cy-2",), "", person.turns[1].at()
    )
    person = person.__class__(person.name, person.turns, (early,))
    dataset = dataset.__class__(dataset.name, dataset.sha256, (person,), dataset.cluster, dataset.spec)
    run = evaluate(dataset, modes=ALL_MODES, out=tmp_path / "run", embedder=FakeEmbedder())
    assert all(hit.id in {"cy-0", "cy-1"} for result in run.results for hit in result.ranking)


def test_progress_is_told(tiny, tmp_path):
    """Both stages count up to their total."""
    told = []
    evaluate(
        f"{tiny}@test",
        modes=("bm25",),
        out=tmp_path / "run",
        embedder=FakeEmbedder(),
        progress=lambda *step: told.append(step),
    )
    captured = [done for stage, done, total in told if (stage, total) == ("capture", 6)]
    assert captured == sorted(set(captured))
    assert captured[-1] == 6
    assert told[len(captured) :] == [("ask", n, 2) for n in (1, 2)]


def test_wrong_use(tiny, tmp_path):
    """An unknown mode or lane is refused with the known ones, and a log without labels is no labelled set."""
    with pytest.raises(InputError, match=r"fuzzy.*whitespace-bm25"):
        evaluate(str(tiny), modes=("fuzzy",), out=tmp_path)
    with pytest.raises(InputError, match="lane missing"):
        evaluate(str(tiny), lanes=(), out=tmp_path)
    with pytest.raises(DatasetError, match="no question with evidence"):
        evaluate(f"native:{tiny / 'conversations' / 'ada.jsonl'}", out=tmp_path)


def test_gems_are_measured(run):
    """Beside the rankings: reference gems found with an interval, counts of what was made, nothing lost."""
    gems = run.metrics["lanes"]["gems"]["bm25"]
    assert {"reference_recall", "reference_precision_words", "merged", "superseded"} <= set(gems["overall"])
    assert gems["overall"]["dead_letters"] == run.dead_letters == 0
    assert gems["overall"]["reference_recall"] == 1
    assert "reference_recall" in gems["ci"]
    assert "valid_answers" not in gems["overall"]
    assert run.manifest["distilling"]["name"] == "extractive"
    assert not (run.path / "dead_letters.jsonl").exists()


def test_a_gem_of_the_future_is_not_found(tiny, tmp_path):
    """A question asked before a gem was distilled finds none of it."""
    dataset = datasets.load(f"{tiny}@test")
    (person,) = dataset.conversations
    early = replace(person.questions[0], asked_at=person.turns[2].at())
    late = replace(early, query_id="late", asked_at=None)
    dataset = replace(dataset, conversations=(replace(person, questions=(early, late)),))
    run = evaluate(
        dataset,
        modes=ALL_MODES,
        lanes=("gems",),
        out=tmp_path / "run",
        k=20,
        embedder=FakeEmbedder(),
        extractor=ScriptedExtractor(),
    )
    cited = {name: set() for name in (early.query_id, "late")}
    for result in run.results:
        cited[result.query_id].update(turn_id for hit in result.ranking for turn_id in hit.turn_ids)
    assert cited[early.query_id] <= {"cy-0", "cy-1", "cy-2"} < cited["late"]


def test_dead_letters_are_told(tiny, tmp_path):
    """What cannot be distilled is counted and kept with its reason and turns; the next run without it clears that."""

    def script(batch):
        if batch.turns[0].turn_id == "cy-0":
            raise ExtractionError("no JSON in the answer")
        return ()

    def run(extractor):
        return evaluate(
            f"{tiny}@test", modes=("bm25",), lanes=("gems",), out=tmp_path, embedder=FakeEmbedder(), extractor=extractor
        )

    found = run(ScriptedExtractor(script))
    assert found.metrics["lanes"]["gems"]["bm25"]["overall"]["dead_letters"] == found.dead_letters == 1
    (letter,) = [json.loads(line) for line in (tmp_path / "dead_letters.jsonl").read_text().splitlines()]
    assert letter["reason"] == "no JSON in the answer"
    assert [turn["turn_id"] for turn in letter["turns"]] == ["cy-0", "cy-1", "cy-2"]
    assert run(ScriptedExtractor(lambda _: ())).dead_letters == 0
    assert not (tmp_path / "dead_letters.jsonl").exists()


def test_a_capture_policy_is_measured(tiny, tmp_path):
    """With a simulated host the conversations are lived, and the metrics have the policy's; without, they do not."""
    made = {
        window: evaluate(
            str(tiny),
            Settings(context_window=window),
            modes=("bm25",),
            lanes=("gems",),
            out=tmp_path / str(window),
            embedder=FakeEmbedder(),
        )
        for window in (None, 4096)
    }
    assert "policy" not in made[None].metrics
    assert made[4096].metrics["policy"]["turns"] == 18
    assert made[4096].metrics["policy"]["lag_turns"]["mean"] > 0


def test_beside_turns():
    """Raw turns stand beside what is asked, last, and once."""
    assert beside_turns(("gems", "all")) == ("gems", "all", "turns")
    assert beside_turns(("turns", "gems")) == ("turns", "gems")
