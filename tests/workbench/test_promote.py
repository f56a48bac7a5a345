"""From a run to what is served: the rules, the file, and that serving ranks as the run did."""

import json
import tomllib
from dataclasses import replace

import pytest

from neuralstream.config import Settings
from neuralstream.errors import InputError, RefusedError, SettingsError
from neuralstream.stream import NeuralStream
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench import datasets
from neuralstream.workbench.promote import INCUMBENT, Limits, promote
from neuralstream.workbench.run_folders import run_settings

NO_LIMIT = Limits(latency_ms=1e6)
"""The tests' clocks are busy ones."""


@pytest.fixture
def file(tmp_path):
    """A settings file with comments, settings of its own, and one that the run decides otherwise."""
    file = tmp_path / "neuralstream.toml"
    file.write_text(
        f'# ours\nhome = "{tmp_path / "home"}"  # kept\nretention = "30d"\n'
        "context_budget = 1500\nbatch_size = 9 # few\n\n"
        "[retrieval]\nk = 7\n\n[retrieval.exchange]\nweights = { dense = 1.0 }\n"
    )
    return file


@pytest.fixture
def worse(measured):
    """The words' exact sequence, which finds nothing."""
    return measured(mode="substring")


@pytest.fixture
def better(measured):
    """BM25, which finds everything."""
    return measured(mode="bm25")


def test_serving_ranks_as_the_run_recorded(better, file, crew, tmp_path):
    """Query by query, the promoted file gives the ids and scores of the run, where calls name nothing."""
    promote(better, file)
    settings = Settings.load(file, worker="inline", cache_dir=tmp_path / "cache")
    with NeuralStream(settings, embedder=FakeEmbedder()) as memory:
        for conversation in datasets.load(f"native:{crew}").conversations:
            user = conversation.name
            memory.capture_all([replace(turn, user_id=user) for turn in conversation.turns])
            asked_at = max(turn.created_at for turn in conversation.turns)
            recorded = {one.query_id: one for one in better.of("turns", "bm25") if one.conversation == user}
            for question in conversation.questions:
                hits = memory.search(question.text, k=10, user_id=user, as_of=asked_at)
                ranking = recorded[question.query_id].ranking
                assert [hit.id for hit in hits] == [hit.id for hit in ranking]
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in ranking], abs=1e-6)


def test_the_file_says_what_was_measured_and_keeps_the_rest(better, file):
    """Settings that decide are the run's, the reader's own ones and comments stay, and the evidence is on record."""
    done = promote(better, file, by="ada")
    text = file.read_text()
    served = Settings.load(file)
    assert served.digest() == run_settings(better).model_copy(update={"retrieval": served.retrieval}).digest()
    assert (served.batch_size, served.retrieval.k, served.retrieval.mode, served.retrieval.lane) == (
        5,
        5,
        "bm25",
        "turns",
    )
    assert served.retrieval.exchange.weights == Settings().retrieval.exchange.weights
    assert served.retention is not None
    assert "# ours" in text
    assert "# kept" in text
    record = served.promoted
    assert (record.run, record.by, record.value) == (better.manifest["run"], "ada", 1.0)
    assert record.data_sha256 == better.manifest["dataset"]["sha256"]
    assert served.doubt() is None
    assert {one.name for one in done.changed} == {
        "batch_size",
        "retrieval.k",
        "retrieval.mode",
        "retrieval.lane",
        "retrieval.exchange.weights",
    }


def test_only_what_differs_from_the_defaults_is_written(better, tmp_path):
    """A new file has the run's choices and the record, no more."""
    promote(better, tmp_path / "conf" / "new.toml")
    written = tomllib.loads((tmp_path / "conf" / "new.toml").read_text())
    assert written.pop("promoted")
    assert written == {"retrieval": {"mode": "bm25", "lane": "turns"}}


def test_a_first_promotion_says_that_there_was_none_before(worse, file):
    """It has no incumbent to be better than."""
    assert any("nothing was promoted" in note for note in promote(worse, file).notes)


def test_a_gain_that_the_test_supports_is_promoted(worse, better, file):
    """The incumbent's own run is what it is compared with, and the numbers are kept."""
    promote(worse, file)
    record = promote(better, file, limits=NO_LIMIT).record
    assert (record.incumbent, record.difference, record.verdict) == (worse.manifest["run"], 1.0, "better")
    assert record.p == pytest.approx(2 / 2**8, abs=1e-6)
    assert not (better.path / INCUMBENT).exists()
    assert Settings.load(file).promoted.verdict == "better"


@pytest.mark.parametrize("forced", [False, True])
def test_a_gain_that_it_does_not_support_needs_a_reason(worse, better, file, forced):
    """The better one stays, unless somebody says why."""
    promote(better, file)
    before = file.read_text()
    if forced:
        record = promote(worse, file, why="the fair is next week", limits=NO_LIMIT).record
        assert (record.forced, record.verdict) == ("the fair is next week", "worse")
    else:
        with pytest.raises(RefusedError, match=r"gain: .*worse; what is served now stays") as refused:
            promote(worse, file, limits=NO_LIMIT)
        assert refused.value.exit_code == 4
        assert file.read_text() == before


def test_the_winner_of_a_sweep_pays_for_all_of_it(worse, better, file, tmp_path):
    """Seven other candidates make eight people too few; runs that rank alike count once."""
    promote(worse, file)
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text("{}")
    winner = replace(better, path=sweep / "winner")
    for n in range(7):
        results = [replace(one, scores={**one.scores, "nDCG@10": 0.1 * n}) for one in better.results]
        _copy(better, sweep / f"cell{n}", results, str(n))
    with pytest.raises(RefusedError, match="too few for a verdict on 8 candidates"):
        promote(winner, file, limits=NO_LIMIT)
    for n in range(1, 7):
        _copy(better, sweep / f"cell{n}", better.results, str(n))
    assert promote(winner, file, limits=NO_LIMIT).record.compared == 2


def test_other_data_are_refused_until_the_incumbent_is_measured_on_them(worse, measured, file):
    """--new-data measures what the file serves on the run's data, and compares there."""
    promote(worse, file)
    few = measured("@few", mode="bm25")
    with pytest.raises(InputError, match="--new-data"):
        promote(few, file)
    record = promote(
        few, file, new_data=True, why="two are what we have", limits=NO_LIMIT, embedder=FakeEmbedder()
    ).record
    assert (record.difference, record.verdict) == (1.0, "too few to tell")
    again = json.loads((few.path / INCUMBENT / "manifest.json").read_text())
    assert again["settings"]["retrieval"]["mode"] == "substring"


def test_an_incumbent_whose_run_is_gone_is_measured_anew(worse, better, file, tmp_path):
    """The record alone is enough to compare with."""
    copy = _copy(worse, tmp_path / "gone", worse.results, worse.manifest["run"])
    promote(copy, file)
    (copy.path / "metrics.json").unlink()
    here = replace(better, path=tmp_path / "here")
    assert promote(here, file, limits=NO_LIMIT, embedder=FakeEmbedder()).record.verdict == "better"
    assert (tmp_path / "here" / INCUMBENT / "metrics.json").is_file()


def test_budgets_are_not_forced(better, file):
    """Latency and injected tokens have limits of the caller's, which no reason lifts."""
    with pytest.raises(RefusedError, match="--max-latency-ms"):
        promote(better, file, limits=Limits(latency_ms=0), why="hurry")
    with pytest.raises(RefusedError, match="--max-tokens"):
        promote(better, file, limits=Limits(tokens=1000), why="hurry")


def test_a_run_may_be_slower_than_the_incumbent_only_so_far(worse, better, file):
    """Without a limit of the caller's, twice the incumbent's latency is one."""
    promote(worse, file)
    slow = replace(better, timings={"query_ms": {"turns/bm25": {"p95": 1e9}}})
    with pytest.raises(RefusedError, match="budget"):
        promote(slow, file)


def test_a_file_that_was_changed_by_hand_is_refused(worse, better, file):
    """Its record is no evidence any more."""
    promote(worse, file)
    file.write_text(file.read_text().replace('mode = "substring"', 'mode = "semantic"', 1))
    with pytest.raises(RefusedError, match="record: "):
        promote(better, file, limits=NO_LIMIT)


def test_what_other_code_measured_is_refused(better, file):
    """Nothing is served that was not evaluated."""
    with pytest.raises(RefusedError, match="code: "):
        promote(replace(better, manifest={**better.manifest, "core_digest": "0"}), file)


def test_a_run_that_did_not_measure_what_it_serves_is_wrong_use(better, file):
    """Mode and lane have to be among what was measured."""
    settings = {**better.manifest["settings"], "retrieval": {"mode": "hybrid"}}
    with pytest.raises(InputError, match=r"retrieval\.mode"):
        promote(replace(better, manifest={**better.manifest, "settings": settings}), file)
    with pytest.raises(InputError, match="Give --lane"):
        promote(better, file, lane="gems")


def test_a_file_that_cannot_be_read_is_left_alone(better, tmp_path):
    """Not TOML."""
    (tmp_path / "torn.toml").write_text("[retrieval\n")
    with pytest.raises(SettingsError, match="not TOML"):
        promote(better, tmp_path / "torn.toml")


def test_a_private_file_stays_private(better, file):
    """It may hold a key."""
    file.chmod(0o600)
    promote(better, file)
    assert file.stat().st_mode & 0o777 == 0o600


def _copy(run, folder, results, name):
    """A run with other results and another name, in its folder."""
    from neuralstream.workbench.runs import write_run

    manifest = {**run.manifest, "run": name}
    return write_run(folder, manifest=manifest, metrics=run.metrics, results=results, timings=run.timings)
