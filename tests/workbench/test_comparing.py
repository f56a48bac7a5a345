"""What a change gained, what it changed, and which questions flipped."""

import json
import shutil
from dataclasses import replace

import pytest

from neuralstream.errors import InputError, NotFoundError
from neuralstream.workbench import comparing
from neuralstream.workbench.run_folders import open_run, swept_with
from neuralstream.workbench.stats import Comparison, Interval


@pytest.fixture
def old(measured):
    """The words' exact sequence, which finds nothing."""
    return measured(mode="substring")


@pytest.fixture
def new(measured):
    """BM25, which finds everything."""
    return measured(mode="bm25")


def test_a_real_gain_is_called_one(old, new):
    """Eight people who all gain carry a verdict, however many categories are looked at beside."""
    first = comparing.compare_runs(old, new)[0]
    assert (first.category, first.old, first.new, first.verdict) == ("all", 0, 1, "better")
    assert first.corrected_p == pytest.approx(2 * 2 / 2**8)
    assert comparing.said(comparing.compare_runs(old, new), "turns") == (
        "turns: better. nDCG@10 rose from 0.000 to 1.000 (+1.000) over 16 questions. p 0.016 over 8 conversations, "
        "95 % 1.000 to 1.000."
    )


def test_too_few_conversations_are_not_contradicted_by_an_interval(measured):
    """Two people carry neither a verdict nor an interval, however much they agree; the sentence says why."""
    text = comparing.said(
        comparing.compare_runs(measured("@few", mode="substring"), measured("@few", mode="bm25")), "turns"
    )
    assert text.startswith("turns: too few to tell. nDCG@10 rose from 0.000 to 1.000 (+1.000) over 4 questions. ")
    assert "2 are too few for a verdict or an interval" in text
    assert "over single questions p is 0.125" in text
    assert "95 %" not in text


def _judged(verdict, low, high):
    found = Comparison(0.1, Interval(low, high), 0.06, 0.01, 9, 5, 4, 0)
    return [comparing.Paired("turns", "all", "nDCG@10", 9, 0.5, 0.6, found, 0.06, verdict)]


def test_a_verdict_that_the_interval_contradicts_is_explained():
    """Near the border the two disagree; the reader is told which counts. Where they agree there is nothing to say."""
    for verdict, low, agrees in [
        ("no difference seen", 0.01, False),
        ("no difference seen", -0.01, True),
        ("better", -0.01, False),
        ("better", 0.01, True),
    ]:
        text = comparing.said(_judged(verdict, low, 0.2), "turns")
        assert ("The interval says otherwise" not in text) is agrees


def test_one_category_is_not_told_twice(measured):
    """A set of one category has no rows beside those of all questions."""
    one = measured(mode="bm25")
    same = replace(one, results=tuple(replace(result, category="all of it") for result in one.results))
    assert {row.category for row in comparing.compare_runs(same, same)} == {"all"}


def test_equal_runs_are_not_told_apart(new):
    """No difference, no change, no flip."""
    assert {row.verdict for row in comparing.compare_runs(new, new) if row.category == "all"} == {"no difference seen"}
    assert comparing.changes(new, new) == []
    assert comparing.flips(new, new) == {"turns": []}


def test_categories_are_corrected_for_everything(old, new):
    """Six comparisons are made; those by category pay for all six, those over all questions for their two."""
    by_category = {row.category: row.corrected_p for row in comparing.compare_runs(old, new)}
    assert by_category["paraphrase"] == pytest.approx(6 * 2 / 2**8)
    assert by_category["all"] == pytest.approx(2 * 2 / 2**8)


def test_what_changed_is_named(old, new):
    """The setting that made the difference, not the folders of the two runs."""
    changed = {one.name: (one.old, one.new) for one in comparing.changes(old, new)}
    assert changed["retrieval.mode"] == ("substring", "bm25")
    assert not {"home", "cache_dir", "promoted"} & changed.keys()


def test_flipped_questions_are_listed(old, new):
    """Gains one way are losses the other way."""
    gained, lost = comparing.flips(old, new)["turns"], comparing.flips(new, old)["turns"]
    assert {one.flip for one in gained} == {"gained"}
    assert {one.flip for one in lost} == {"lost"}
    assert len(gained) == len(lost) == 16
    assert "16 questions lost" in comparing.counted("turns", lost)


def test_a_pull_request_is_told_all_of_it(old, new):
    """Verdict, numbers, changed settings, questions; foreign text cannot end a row."""
    asked = replace(new.results[0], text="a|b\nc")
    text = comparing.markdown(old, replace(new, results=(asked, *new.results[1:])))
    assert "**turns: better." in text
    assert "| `retrieval.mode` | `substring` | `bm25` |" in text
    assert "| `a\\|b c` |" in text
    assert "<details><summary>By category</summary>" in text
    assert "| R@5 | 0.000 | 1.000 | 1.000 | 1.000 to 1.000 | 0.016 | <0.001 | 16/0/0 | better |" in text
    assert "Neither settings nor code nor models differ." in comparing.markdown(new, new)


def test_runs_on_other_data_are_refused(new, measured):
    """The same questions over other logs are no pair."""
    data = {**new.manifest["dataset"], "sha256": "0" * 64}
    with pytest.raises(InputError, match="on the same data"):
        comparing.compare_runs(new, replace(new, manifest={**new.manifest, "dataset": data}))
    with pytest.raises(InputError, match="different questions"):
        comparing.compare_runs(new, measured("@few", mode="bm25"))


def test_a_run_of_a_sweep_is_found_by_its_digest(old, new, tmp_path):
    """SWEEP/PREFIX names one run, and the run knows the others that were made with it."""
    for run, name in ((old, "ab11"), (new, "ab22")):
        (tmp_path / name).symlink_to(run.path)
    assert open_run(tmp_path / "ab2").manifest["run"] == new.manifest["run"]
    with pytest.raises(NotFoundError, match="ab11, ab22"):
        open_run(tmp_path / "ab")
    with pytest.raises(NotFoundError, match="there is no run"):
        open_run(tmp_path / "c*")
    assert swept_with(open_run(tmp_path / "ab2")) == []
    (tmp_path / "sweep.json").write_text(json.dumps({}))
    assert [run.manifest["run"] for run in swept_with(open_run(tmp_path / "ab2"))] == [old.manifest["run"]]


def test_a_run_whose_file_is_torn_is_no_run(new, tmp_path):
    """A machine that stopped while it copied: said in words, not by a traceback."""
    torn = shutil.copytree(new.path, tmp_path / "torn")
    file = torn / "per_query.jsonl"
    file.write_text(file.read_text()[:300])
    with pytest.raises(InputError, match="torn"):
        open_run(torn)
