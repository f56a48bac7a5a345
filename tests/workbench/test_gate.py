"""The gate: what it refuses, what it lets pass, and what it says."""

from dataclasses import replace

import pytest

from neuralstream.errors import InputError, NotFoundError
from neuralstream.workbench.baseline import baseline_of, read_baseline, write_baseline
from neuralstream.workbench.flips import Asked
from neuralstream.workbench.gate import gate, joined, parse_floors
from neuralstream.workbench.gate_report import questions


@pytest.fixture
def run(measured):
    """BM25, which answers all sixteen questions."""
    return measured(mode="bm25")


@pytest.fixture
def baseline(run, tmp_path):
    """What BM25 scored, as it is read from its file."""
    return read_baseline(write_baseline(baseline_of(run, {}), tmp_path / "reports" / "baseline.json"))


def _failing(run, failed):
    """The run with some questions' scores at 0."""
    results = [
        replace(one, scores=dict.fromkeys(one.scores, 0.0)) if (one.conversation, one.query_id) in failed else one
        for one in run.results
    ]
    return replace(run, results=tuple(results))


def test_a_baseline_reads_as_it_was_written(run, baseline):
    """Every question's scores survive the file."""
    assert baseline == baseline_of(run, {})
    assert baseline.scores["turns"][Asked("ada", "q0")]["nDCG@10"] == 1


def test_the_same_run_passes(run, baseline):
    """Nothing is broken, nothing differs."""
    gated = gate(run, baseline)
    assert gated.passed
    assert {one.comparison.difference for one in gated.measures} == {0}


def test_a_regression_is_refused_and_its_questions_are_named(measured, baseline):
    """Rule, measure, numbers and the unit of chance are said; the worst questions are listed."""
    gated = gate(measured(mode="substring"), baseline)
    assert [(one.rule, one.measure) for one in gated.broken] == [
        ("regression", "nDCG@10"),
        ("regression", "R@5"),
        ("regression", "evidence@1000"),
    ]
    assert gated.broken[0].said == (
        "turns: nDCG@10 fell from 1.000 to 0.000 (-1.000), not by chance (p 0.008 over users)"
    )
    assert len(questions(gated, "turns")) == 16
    assert {one.flip for one in questions(gated, "turns")} == {"lost"}


def test_one_question_is_noise(run, baseline):
    """A single question that is lost does not refuse a run; it is listed all the same."""
    gated = gate(_failing(run, {("ada", "q0")}), baseline)
    assert gated.passed
    assert [one.asked for one in questions(gated, "turns")] == [Asked("ada", "q0")]


def _longer(run, times):
    """The run with every question asked so many times."""
    results = [replace(one, query_id=f"{one.query_id}-{n}") for one in run.results for n in range(times)]
    return replace(run, results=tuple(results))


def _of(run, *people):
    """The questions of some people."""
    return {(one.conversation, one.query_id) for one in run.results if one.conversation in people}


def test_what_breaks_for_one_person_is_refused(run):
    """Seven people's rankings are as before, and one finds nothing: flipping people sees no more than chance in it."""
    long = _longer(run, 6)
    gated = gate(_failing(long, _of(long, "ada")), baseline_of(long, {}))
    assert not any(one.regressed for one in gated.measures)
    assert [(one.rule, one.lane, one.measure) for one in gated.broken] == [("concentrated", "turns", "nDCG@10")]
    assert (
        "fell for ada by 1.000, not by chance (p 0.004 over its questions), and over all by 0.125"
        in gated.broken[0].said
    )


def test_what_one_person_loses_and_others_gain_more_of_is_no_regression(run):
    """The mean rose: a change that helps most is not refused because it helps one less."""
    long = _longer(run, 6)
    other, another = sorted({one.conversation for one in long.results} - {"ada"})[:2]
    before = _failing(long, _of(long, other, another))
    assert gate(_failing(long, _of(long, "ada")), baseline_of(before, {})).passed


def test_a_regression_that_all_share_is_told_once(measured):
    """Not again for everybody who shares it."""
    long = _longer(measured(mode="bm25"), 6)
    gated = gate(_longer(measured(mode="substring"), 6), baseline_of(long, {}))
    assert {one.rule for one in gated.broken} == {"regression"}


def test_a_question_that_is_missing_counts_as_nothing(run, baseline):
    """A run that leaves questions out is not better for it."""
    half = replace(run, results=tuple(one for one in run.results if one.query_id == "q0"))
    gated = gate(half, baseline)
    assert gated.measures[0].new == pytest.approx(0.5)
    assert not gated.passed


def test_few_conversations_are_tested_over_questions(measured):
    """Two people carry no verdict; four lost questions of four are not significant either, and the unit is said."""
    few = measured("@few", mode="bm25")
    gated = gate(measured("@few", mode="substring"), baseline_of(few, {}))
    assert {one.unit for one in gated.measures} == {"question"}
    assert gated.measures[0].corrected_p == pytest.approx(2 / 2**4)


def test_digits_that_a_baseline_drops_are_no_difference(run, tmp_path):
    """Scores are compared as the file keeps them."""
    exact = replace(run, results=tuple(replace(one, scores={**one.scores, "R@5": 1 / 3}) for one in run.results))
    kept = read_baseline(write_baseline(baseline_of(exact, {}), tmp_path / "baseline.json"))
    assert {one.comparison.difference for one in gate(exact, kept).measures} == {0}


def test_floors_are_absolute(run, baseline):
    """A mean below its floor is refused whatever the baseline says; one at its floor is not."""
    assert gate(run, baseline, {"turns": {"R@5": 1.0}}).passed
    gated = gate(run, baseline, {"turns": {"P@5": 0.5}})
    assert [(one.rule, one.measure) for one in gated.broken] == [("floor", "P@5")]
    assert "the floor 0.500" in gated.broken[0].said


def test_floors_of_the_baseline_hold(run):
    """They are kept in the file, and the caller's win over them."""
    strict = baseline_of(run, {"turns": {"P@5": 0.5}})
    assert not gate(run, strict).passed
    assert gate(run, strict, {"turns": {"P@5": 0.1}}).passed


def test_floors_are_read_from_a_command_line():
    """With or without a lane."""
    assert parse_floors(["R@5=0.4", "gems/R@5=.2"], "turns") == {"turns": {"R@5": 0.4}, "gems": {"R@5": 0.2}}
    assert joined({"turns": {"R@5": 0.4}}, {"turns": {"P@5": 0.1}}) == {"turns": {"R@5": 0.4, "P@5": 0.1}}
    with pytest.raises(InputError, match=r"nDCG@10=0\.65"):
        parse_floors(["R@5"], "turns")


@pytest.mark.parametrize(("floors", "said"), [({"gems": {"R@5": 0.1}}, "lane gems"), ({"turns": {"R@7": 0.1}}, "R@7")])
def test_a_floor_on_what_was_not_measured_is_wrong_use(run, baseline, floors, said):
    """A floor that nothing can break would pass for ever."""
    with pytest.raises(InputError, match=said):
        gate(run, baseline, floors)


def test_other_data_are_no_regression(measured, baseline):
    """They are refused as wrong use, with what to do."""
    with pytest.raises(InputError, match="--update-baseline"):
        gate(measured("@few", mode="bm25"), baseline)


def test_settings_that_are_not_those_promoted_are_refused(run, baseline):
    """A run made with a record of a promotion, and other settings than it speaks for."""
    record = {
        "settings": "0", "version": "0", "run": "r", "folder": "f", "core_digest": "c", "embedder": "e",
        "embedder_digest": "d", "extractor": "x", "data": "crew", "data_sha256": "s", "lane": "turns", "mode": "bm25",
        "measure": "nDCG@10", "value": 0.5, "measures": {}, "latency_ms": 1, "tokens": 1, "by": "ada", "at": "now",
    }  # fmt: skip
    settings = {**run.manifest["settings"], "promoted": record}
    gated = gate(replace(run, manifest={**run.manifest, "settings": settings}), baseline)
    assert [one.rule for one in gated.broken] == ["record"]


def test_questions_that_were_added_are_named(measured, run):
    """What differs between two data sets is said in questions, not in digests only."""
    few = baseline_of(measured("@few", mode="bm25"), {})
    with pytest.raises(
        InputError, match=r"16 questions, where the baseline has 4: 12 new \(cy/q0, .* 7 more\), 0 gone"
    ):
        gate(run, few)


def test_other_logs_under_the_same_questions_are_said(run):
    """Not only the questions make the data."""
    other = replace(run, manifest={**run.manifest, "dataset": {**run.manifest["dataset"], "sha256": "0" * 64}})
    with pytest.raises(InputError, match="the same questions, over other logs or with other labels"):
        gate(other, baseline_of(run, {}))


def test_a_run_of_other_rankings_than_the_served_one_is_wrong_use(run, baseline):
    """Settings that serve badly must not pass because something else was measured."""
    with pytest.raises(
        InputError, match=r"serve retrieval\.mode substring, and .* measured bm25; .* --modes substring"
    ):
        gate(replace(run, manifest={**run.manifest, "candidate": "substring"}), baseline)


def test_a_run_without_answers_is_wrong_use(run, baseline):
    """Nothing was measured, which is no regression."""
    with pytest.raises(InputError, match=r"no answer of lane turns, mode bm25"):
        gate(replace(run, results=()), baseline)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"lanes": 3}'])
def test_a_file_that_is_no_baseline_says_how_to_make_one(tmp_path, text):
    """Torn, empty or of another kind."""
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(InputError, match="--update-baseline"):
        read_baseline(tmp_path / "b.json")
    with pytest.raises(NotFoundError, match="--update-baseline"):
        read_baseline(tmp_path / "none.json")
