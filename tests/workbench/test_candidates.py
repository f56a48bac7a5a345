"""Configurations beside each other."""

import pytest

from neuralstream.config import Settings
from neuralstream.errors import InputError, SettingsError
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import candidates, datasets


@pytest.fixture
def small_embedder(monkeypatch):
    """No weights to load."""
    monkeypatch.setattr("neuralstream.embed.make_embedder", lambda _settings: FakeEmbedder())


@pytest.fixture(scope="module")
def runs(measured):
    """What two modes found of eight people, the worse one named first."""
    return {"poor": measured(mode="substring"), "good": measured(mode="bm25")}


def test_best_comes_first(runs):
    """Candidates are ordered by the lane's headline measure; of equal ones the first that was named leads."""
    assert candidates.ranked(runs, "turns") == ["good", "poor"]
    assert candidates.ranked({"b": runs["good"], "a": runs["good"]}, "turns") == ["b", "a"]


def test_best_is_tested_against_each_other(runs):
    """Every other candidate is compared with the best, and p is corrected for all of them."""
    alone = candidates.beaten(runs, "turns")
    among = candidates.beaten({**runs, "same": runs["good"], "other": runs["poor"]}, "turns")
    assert [one.name for one in among] == ["same", "poor", "other"]
    assert [one.verdict for one in alone] == ["better"]
    assert alone[0].comparison == among[1].comparison
    assert alone[0].corrected_p == alone[0].comparison.p
    assert among[1].corrected_p == pytest.approx(3 * alone[0].corrected_p)
    assert among[0].verdict == "no difference seen"


def test_tables_hold_a_row_for_each(runs):
    """The ranking says what the best gains over each other, the prices what an answer takes."""
    head, first, second = candidates.rank_rows(runs, "turns")
    assert (first[0], second[0]) == ("good", "poor")
    assert first[head.index("the best is")] is None
    assert second[head.index("the best is")] == "better"
    assert second[head.index("the best gains")] == pytest.approx(
        first[head.index("nDCG@10")] - second[head.index("nDCG@10")], abs=1e-6
    )
    head, good, _ = candidates.price_rows(runs, "turns")
    assert good[head.index("ms, 95 % of questions")] == runs["good"].timings["query_ms"]["turns/bm25"]["p95"]
    assert good[head.index("most tokens injected")] == Settings().context_budget


@pytest.mark.usefixtures("small_embedder")
def test_settings_and_runs_are_candidates(crew, measured, tmp_path):
    """Settings are measured under the mode that they would serve; a run that is there is read and not repeated."""
    there = measured(mode="bm25")
    text = "retrieval.mode=substring retrieval.k=7"
    found = candidates.measure(
        datasets.load(f"native:{crew}"), Settings(cache_dir=tmp_path / "cache"), [text, str(there.path)],
        lane="turns", out=tmp_path / "out",
    )  # fmt: skip
    assert found[text].manifest["arguments"]["modes"] == ["substring"]
    assert found[text].manifest["settings"]["retrieval"]["k"] == 7
    assert found[str(there.path)].manifest["run"] == there.manifest["run"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["1"]


@pytest.mark.usefixtures("small_embedder")
def test_best_two_are_confirmed_as_they_were_measured(crew, runs, tmp_path):
    """The best and the second are asked anew on other data with their runs' settings, whatever else is there."""
    base = Settings(cache_dir=tmp_path / "cache")
    three = {**runs, "worst": runs["poor"]}
    found = candidates.confirm(datasets.load(f"native:{crew}@few"), base, three, lane="turns", out=tmp_path / "out")
    assert list(found) == ["good", "poor"]
    assert [run.manifest["candidate"] for run in found.values()] == ["bm25", "substring"]
    assert {run.metrics["dataset"]["conversations"] for run in found.values()} == {2}
    assert {run.manifest["config_digest"] for run in found.values()} == {
        runs[name].manifest["config_digest"] for name in found
    }


def test_what_cannot_be_compared_is_refused(crew, measured, tmp_path):
    """No candidate, one named twice, an unknown setting, a run on other data, a run without the lane."""
    data, base = datasets.load(f"native:{crew}"), Settings()

    def measure(*named, lane="turns"):
        return candidates.measure(data, base, named, lane=lane, out=tmp_path)

    with pytest.raises(InputError, match="missing: give one or more"):
        measure()
    with pytest.raises(InputError, match="each once"):
        measure("retrieval.k=3", "retrieval.k=3")
    with pytest.raises(SettingsError, match="retrival"):
        measure("retrival.k=3")
    with pytest.raises(InputError, match="compared is lane turns of crew"):
        measure(str(measured("@few", mode="bm25").path))
    with pytest.raises(InputError, match="measured lane turns of crew"):
        measure(str(measured(mode="bm25").path), lane="gems")
