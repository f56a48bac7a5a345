"""Sweeping configurations of a small set."""

import json
import os
import shutil

import pytest

from neuralstream.config import Settings
from neuralstream.embed import make_embedder as embed_for_real
from neuralstream.errors import InputError, MissingPartError, SettingsError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import sweep_work
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.runs import read_run
from neuralstream.workbench.sweep import sweep
from neuralstream.workbench.sweep_report import best_rows, mode_rows, report

FILE = """
dataset: {tiny}
modes: [bm25, hybrid]
settings: {{context_window: 512}}
sweeps:
  - name: capture
    grid: {{batch_size: [2, 3]}}
"""


@pytest.fixture(scope="module", autouse=True)
def _small_embedder():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("neuralstream.embed.make_embedder", lambda _settings: FakeEmbedder())
        sweep_work._dataset.cache_clear()
        yield
    sweep_work._dataset.cache_clear()


def write(folder, tiny, text=FILE):
    """Write a sweep's file."""
    (folder / "sweep.yaml").write_text(text.format(tiny=tiny))
    return folder / "sweep.yaml"


@pytest.fixture(scope="module")
def done(tiny, tmp_path_factory):
    """The file, run once."""
    folder = tmp_path_factory.mktemp("done")
    return sweep(write(folder, tiny), folder / "out", Settings(), jobs=1)


@pytest.fixture
def run(tiny, tmp_path):
    """Run a file into this test's own folder, in this process."""
    return lambda text=FILE, **options: sweep(
        write(tmp_path, tiny, text), tmp_path / "out", Settings(), jobs=1, **options
    )


@pytest.fixture
def run_again(done, run, tmp_path):
    """Run a file into a copy of the folder that the file was run into."""
    shutil.copytree(done.out, tmp_path / "out")
    return run


@pytest.fixture
def filled(monkeypatch):
    """The memories that are filled, in order: their batch sizes."""
    filled = []
    prepare = sweep_work.prepared_memory

    def counted(dataset, settings, folder, **options):
        filled.append(settings.batch_size)
        return prepare(dataset, settings, folder, **options)

    monkeypatch.setattr(sweep_work, "prepared_memory", counted)
    return filled


def test_each_cell_is_the_run_that_eval_makes(done, tiny, tmp_path):
    """A cell's folder has its run's digest for a name, and holds the bytes that evaluating it alone gives."""
    assert [dict(cell.varied) for cell in done.cells] == [{"batch_size": 2}, {"batch_size": 3}]
    assert {cell.settings.context_window for cell in done.cells} == {512}
    folders = (path.name for path in done.out.iterdir() if path.is_dir())
    assert sorted(folders) == sorted(cell.digest for cell in done.cells)
    cell = done.cells[1]
    alone = evaluate_alone(cell, tiny, tmp_path)
    assert cell.digest == alone.manifest["run"] == read_run(done.out / cell.digest).manifest["run"]
    for name in ("metrics.json", "per_query.jsonl"):
        assert (done.out / cell.digest / name).read_bytes() == (alone.path / name).read_bytes()


def evaluate_alone(cell, tiny, folder):
    """The run of a cell's settings without a sweep."""
    return evaluate(
        str(tiny), cell.settings, modes=("bm25", "hybrid"), lanes=("gems",), out=folder / cell.digest,
        embedder=FakeEmbedder(),
    )  # fmt: skip


def test_a_complete_sweep_does_nothing(run_again, filled):
    """Nothing is filled or asked again."""
    again = run_again()
    assert (again.ran, len(again.cells), filled) == (0, 2, [])


def test_again_only_what_is_missing(run_again, filled):
    """A cell that is not there is run, and no other: one that was lost, and one that the file was given."""
    again = run_again(FILE.replace("[2, 3]", "[2, 3, 4]"))
    assert (again.ran, filled) == (1, [4])
    shutil.rmtree(again.out / again.cells[0].digest)
    assert run_again().ran == 1
    assert filled == [4, 2]


def test_a_failed_cell_stops_no_other_and_is_tried_again(run, monkeypatch):
    """What goes wrong with a cell is written down with its cause, and forgotten once the cell has its run."""
    evaluates = sweep_work.evaluate

    def broken(dataset, settings, **options):
        if settings.batch_size == 2:
            raise RuntimeError("no room")
        return evaluates(dataset, settings, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sweep_work, "evaluate", broken)
        first = run()
    (digest,) = first.failed
    written = json.loads((first.out / "failed" / f"{digest}.json").read_text())
    assert written["error"] == first.failed[digest] == "no room"
    assert written["varied"] == {"batch_size": 2}
    assert [dict(cell.varied) for cell in first.cells] == [{"batch_size": 3}]
    again = run()
    assert (again.ran, again.failed, len(again.cells)) == (1, {}, 2)
    assert not any((again.out / "failed").iterdir())


def test_a_changed_core_is_not_taken_for_the_old_one(run, monkeypatch):
    """A run that turns out to be another than the cell it was made for is no run of that cell."""
    monkeypatch.setattr("neuralstream.workbench.evaluate.run_digest", lambda *_: "another")
    changed = run(FILE.replace("[2, 3]", "[2]"))
    (error,) = changed.failed.values()
    assert "changed while the sweep ran" in error
    assert not changed.cells


def test_cells_that_differ_in_the_search_share_a_memory(run, filled, tiny, tmp_path):
    """Weights are swept over one filled memory, and each cell is still what evaluating it alone gives."""
    swept = run(FILE.replace("batch_size: [2, 3]", "retrieval.exchange.weights.bm25_user: [0, 1]"))
    assert filled == [5]
    first, second = (read_run(swept.out / cell.digest) for cell in swept.cells)
    assert first.of("gems", "hybrid") != second.of("gems", "hybrid")
    alone = evaluate_alone(swept.cells[1], tiny, tmp_path)
    assert (second.path / "metrics.json").read_bytes() == (alone.path / "metrics.json").read_bytes()


def test_raw_turns_do_not_depend_on_when_they_are_distilled(run, filled):
    """Where only turns are searched, every capture policy asks one memory."""
    swept = run(FILE.replace("modes:", "lanes: [turns]\nmodes:"))
    assert (len(swept.cells), len(filled)) == (2, 1)


def test_the_same_configuration_twice_is_one_cell(run_again):
    """A configuration that two sweeps of a file have is run once."""
    again = run_again(FILE + "  - name: again\n    grid: {{batch_size: [3, 2]}}\n")
    assert (len(again.cells), again.ran) == (2, 0)


def test_a_sweep_waits_for_its_file(run_again, tmp_path):
    """What needs a file that is not there is passed over and named; once it is there, it is run."""
    text = FILE + "  - name: later\n    needs: answers.jsonl\n    grid: {{batch_size: [4]}}\n"
    assert list(run_again(text).passed_over.items()) == [("later", tmp_path / "answers.jsonl")]
    (tmp_path / "answers.jsonl").touch()
    again = run_again(text)
    assert (again.ran, dict(again.passed_over)) == (1, {})


def test_leftovers_of_a_killed_process_are_cleared(run_again, tmp_path):
    """Folders of processes that are no more are removed; those of one that lives are left to it."""
    work = tmp_path / "out" / ".work"
    dead, living = (work / f"{os.uname().nodename}-{process}-abc" for process in (2**22 + 1, os.getppid()))
    for folder in (dead, living):
        (folder / "data-x").mkdir(parents=True)
    run_again()
    assert (dead.exists(), living.exists()) == (False, True)


def test_progress_counts_to_the_end(run_again):
    """It begins with what is there already, ends with everything, and estimates once something was run."""
    told = []
    run_again(FILE.replace("[2, 3]", "[2, 3, 4]"), told=lambda *step: told.append(step))
    assert told == [(2, 3, None), (3, 3, 0)]


def test_a_sampler_is_taken_up_where_it_was_left(run):
    """The same seed proposes the same cells, so that a search that was run is not run again."""
    text = """
dataset: {tiny}
lanes: [turns]
modes: [bm25]
sweeps:
  - name: search
    sampler: tpe
    trials: 3
    at_once: 2
    seed: 3
    maximise: R@5
    space: {{batch_size: {{low: 2, high: 4, step: 1}}, retrieval.exchange.bm25_b: {{low: 0, high: 1}}}}
"""
    first, again = run(text), run(text)
    assert (first.ran, len(first.cells), again.ran) == (3, 3, 0)
    assert [cell.digest for cell in again.cells] == [cell.digest for cell in first.cells]
    assert all(0 <= cell.varied["retrieval.exchange.bm25_b"] <= 1 for cell in first.cells)
    with pytest.raises(InputError, match="accuracy is no measure of lane turns"):
        run(text.replace("R@5", "accuracy"))


def test_recording_is_refused(run):
    """Answers that are recorded while a sweep runs would change the names of its runs."""
    with pytest.raises(SettingsError, match=r"llm\.mode = record"):
        run(FILE.replace("context_window: 512", "extract.extractor: llm, llm.mode: record, llm.cassette: a.jsonl"))


@pytest.mark.slow
def test_several_processes_give_the_same_bytes(tiny, tmp_path):
    """Cells that are run in processes of their own are those that are run in this one."""
    with pytest.MonkeyPatch.context() as real:
        real.setattr("neuralstream.embed.make_embedder", embed_for_real)
        one, two = (sweep(write(tmp_path, tiny), tmp_path / str(jobs), Settings(), jobs=jobs) for jobs in (1, 2))
    assert two.failed == {}
    assert [cell.digest for cell in one.cells] == [cell.digest for cell in two.cells]
    for cell in one.cells:
        for name in ("metrics.json", "per_query.jsonl"):
            assert (one.out / cell.digest / name).read_bytes() == (two.out / cell.digest / name).read_bytes()


def test_the_table_is_best_first(done):
    """A row per cell under the mode it would serve, a row per cell and mode; the first is what others are held to."""
    found = report(done)
    columns, *rows = best_rows(found)
    place = columns.index("evidence@1000")
    assert [row[columns.index("mode")] for row in rows] == ["hybrid", "hybrid"]
    assert rows[0][place] >= rows[1][place]
    assert rows[0][columns.index("verdict")] is None
    assert rows[1][columns.index("verdict")] == "too few to tell"
    policy = read_run(done.out / done.cells[0].digest).metrics["policy"]
    lags = {row[columns.index("batch_size")]: row[columns.index("mean lag in turns")] for row in rows}
    assert lags[2] == policy["lag_turns"]["mean"]
    columns, *rows = mode_rows(found)
    values = [row[columns.index("evidence@1000")] for row in rows]
    assert (len(values), values) == (4, sorted(values, reverse=True))
    assert "| cell | sweep | batch_size |" in (done.out / "summary.md").read_text()
    assert json.loads((done.out / "sweep.json").read_text())["cells"][0]["varied"] == {"batch_size": 2}


def test_the_table_of_a_complete_sweep_is_read_back(run_again, monkeypatch):
    """Where nothing was run, no run is read to show the table again; other words in the file make it anew."""
    found = report(run_again())
    assert found["rows"]
    with monkeypatch.context() as patched:
        patched.setattr("neuralstream.workbench.sweep_report.read_run", None)
        assert report(run_again()) == found
    assert report(run_again("measure: R@5\n" + FILE))["measure"] == "R@5"
    with pytest.raises(InputError, match="nDCG@10 is no measure of lane gems"):
        report(run_again("measure: nDCG@10\n" + FILE))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Dask's own shutdown
def test_dask_workers_give_the_same_cells(done, tiny, tmp_path):
    """Cells that a Dask cluster's workers run are those that are run here."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        swept = sweep(write(tmp_path, tiny), tmp_path / "out", Settings(), dask=cluster.scheduler_address)
    assert swept.failed == {}
    assert [cell.digest for cell in swept.cells] == [cell.digest for cell in done.cells]
    for cell in done.cells:
        there, here = (out / cell.digest / "metrics.json" for out in (swept.out, done.out))
        assert there.read_bytes() == here.read_bytes()


def test_no_scheduler_is_a_missing_part(run, monkeypatch):
    """Where no Dask scheduler answers, the address is named."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("neuralstream.workbench.sweep._CONNECT_SECONDS", 0.5)
    with pytest.raises(MissingPartError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        run(dask="tcp://127.0.0.1:1")
