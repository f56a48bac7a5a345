"""What a pull request is told of the gate."""

from dataclasses import replace
from pathlib import Path

import pytest

from neuralstream.errors import InputError
from neuralstream.workbench.baseline import baseline_of
from neuralstream.workbench.gate import gate
from neuralstream.workbench.gate_report import as_json, markdown, next_steps, renewed, unjudged

FILE = Path("ci/baseline.json")


@pytest.fixture
def good(measured):
    """BM25, which answers all sixteen questions."""
    return measured(mode="bm25")


@pytest.fixture
def bad(measured):
    """Substring, which answers none."""
    return measured(mode="substring")


def test_a_refusal_says_rule_numbers_questions_and_what_to_do(good, bad):
    """The first five questions are seen at once, the others when they are unfolded."""
    text = markdown(gate(bad, baseline_of(good, {})), FILE)
    assert text.startswith("### Retrieval gate: refused on crew\n\n- **regression**: turns: nDCG@10 fell from 1.000 to")
    assert (
        "| substring, was bm25 | nDCG@10 | 1.000 | 0.000 | -1.000 | -1.000 to -1.000 | 0.008 | 0/0/16 | worse |" in text
    )
    assert "Counted over 8 users." in text
    seen, unfolded = text.split("<details><summary>11 more</summary>")
    assert (seen.count("| lost |"), unfolded.count("| lost |")) == (5, 11)
    assert "| `ada/q0` | lost | 1.000 | 0.000 | `how heavy is the anchor` |" in seen
    assert f"`neuralstream explain {bad.path} ada/q0`" in text
    assert f"`neuralstream gate {bad.path} --baseline ci/baseline.json --update-baseline`, and commit" in text


def test_what_is_better_says_how_to_renew_the_baseline(good, bad):
    """The gain, and the command."""
    gated = gate(good, baseline_of(bad, {}))
    text = markdown(gated, FILE)
    assert text.startswith(
        "### Retrieval gate: passed on crew\n\n- turns: nDCG@10 rose from 0.000 to 1.000 (+1.000), not by"
    )
    assert f"renew the baseline: `neuralstream gate {good.path} --baseline ci/baseline.json --update-baseline`" in text


def test_where_nothing_is_to_be_done_nothing_is_said(good):
    """The same run again."""
    gated = gate(good, baseline_of(good, {}))
    assert next_steps(gated, FILE) == []
    assert "- turns: nDCG@10 stayed at 1.000\n" in markdown(gated, FILE)


def test_what_may_be_chance_is_called_so(good):
    """One question that is lost passes, and is no silence."""
    first, *others = good.results
    lost = replace(good, results=(replace(first, scores=dict.fromkeys(first.scores, 0.0)), *others))
    text = markdown(gate(lost, baseline_of(good, {})), FILE)
    assert "- turns: nDCG@10 fell from 1.000 to 0.938 (-0.062), which may be chance (p 1.000 over users)" in text


def test_a_floor_is_lowered_by_naming_it(good, bad):
    """Accepting the run alone would be refused again."""
    (explain, step) = next_steps(gate(bad, baseline_of(good, {"turns": {"R@5": 0.5}})), FILE)
    assert "neuralstream explain" in explain
    assert "--update-baseline --floor turns/R@5=VALUE`" in step


def test_a_change_of_model_is_named(good):
    """A digest alone would not say that the embedder is another one."""
    other = replace(good, manifest={**good.manifest, "embedder": {"name": "bge", "digest": "0"}})
    was = good.manifest["embedder"]["name"]
    assert f"embedder `bge`, was `{was}`" in markdown(gate(other, baseline_of(good, {})), FILE)


def test_few_people_are_said_to_be_counted_by_questions(measured):
    """The unit of chance, and what it is worth."""
    few = measured("@few", mode="bm25")
    text = markdown(gate(measured("@few", mode="substring"), baseline_of(few, {})), FILE)
    assert "2 users are too few" in text
    assert "single questions were counted, which finds a difference more easily" in text


def test_text_of_others_is_code(good, bad):
    """A question can neither end its row nor call somebody."""
    asked = replace(bad.results[0], text="a|b\n`<b>@ada")
    text = markdown(gate(replace(bad, results=(asked, *bad.results[1:])), baseline_of(good, {})), FILE)
    assert "| `a\\|b '<b>@ada` |" in text


def test_json_says_the_same(good, bad):
    """With p as a number."""
    found = as_json(gate(bad, baseline_of(good, {})))
    assert found["passed"] is False
    assert found["broken"][0]["rule"] == "regression"
    assert found["measures"][0]["p (Holm)"] == pytest.approx(2 / 2**8)
    assert len(found["questions"]["turns"]) == 16


def test_a_renewed_baseline_says_what_it_was(good, bad):
    """A loss that is accepted is not accepted in silence; other data have no before."""
    new, old = baseline_of(bad, {}), baseline_of(good, {})
    assert renewed(old, new) == [
        "turns/substring: nDCG@10 0.000, was 1.000; R@5 0.000, was 1.000; evidence@1000 0.000, was 1.000"
    ]
    other = old._replace(about={**old.about, "dataset": {**old.about["dataset"], "sha256": "0"}})
    assert (
        renewed(other, new) == renewed(None, new) == ["turns/substring: nDCG@10 0.000; R@5 0.000; evidence@1000 0.000"]
    )


def test_what_cannot_be_judged_is_told_in_the_same_place():
    """A comment that is missing would look like a gate that did not run."""
    assert unjudged(InputError("there is no baseline\nmake one")) == (
        "### Retrieval gate: nothing to judge\n\nthere is no baseline\n\nmake one\n"
    )
