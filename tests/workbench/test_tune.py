"""What tuned weights are worth, and what is written of them."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from neuralstream import Settings
from neuralstream.errors import InputError, SettingsError
from neuralstream.workbench import fitting, tune_report
from neuralstream.workbench.fitting import Asked, rank
from neuralstream.workbench.metrics import ndcg_at
from neuralstream.workbench.tables import Tables
from neuralstream.workbench.tune import (
    DEVELOPMENT,
    EQUAL,
    IN_FORCE,
    LEFT_OUT,
    OTHER_KIND,
    SET_LEFT_OUT,
    Tuning,
    tune,
)

NAMES = ("bm25", "dense", "recency", "question:person")
SIGNALS = NAMES[:3]
TRUE = [1.0, 0.6, 0.0, -0.5]
GROUPS = {"words": ("bm25",), "time": ("recency",), "priors": ("question:person", "not here"), "gone": ("not here",)}
FLAT = {kind: dict.fromkeys(SIGNALS, 1.0) for kind in ("people", "assistant")}


def a_set(questions, name="set", features=NAMES):
    """Questions as the tables of a data set."""
    return Tables(
        name=name,
        sha256=f"sha of {name}",
        split="dev",
        cluster="conversation",
        spec=f"native:{name}@dev",
        embedder="fake",
        embedder_digest="0123",
        analyser="english",
        features=features,
        questions=tuple(questions),
    )


def with_leaks(questions, of):
    """Each question with a feature per conversation, or per data set, that marks gold there and is 0 elsewhere."""
    names = sorted({of(one) for one in questions})
    leaking = []
    for one in questions:
        marks = np.zeros((len(one.ids), len(names)), np.float32)
        marks[:, names.index(of(one))] = one.relevant
        leaking.append(replace(one, values=np.hstack([one.values, marks])))
    return leaking, (*NAMES, *(f"leak:{name}" for name in names))


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """Fewer strengths and inner folds to try, which test_fitting has in full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "STRENGTHS", (0.001, 0.01))
        patch.setattr(fitting, "INNER_FOLDS", 3)
        yield


@pytest.fixture(scope="module")
def tuned(planted):
    """Two data sets of people talking and one with an assistant, tuned."""
    return tune(
        [
            a_set(planted(TRUE, dataset="one"), "one"),
            a_set(planted(TRUE, dataset="two", conversations=9, seed=1), "two"),
            a_set(planted([0.2, 1.0, 0, 0], dataset="three", kind="assistant", seed=2), "three"),
        ],
        FLAT,
        SIGNALS,
        groups=GROUPS,
    )


def test_each_kind_gets_the_weights_that_fit_it(tuned):
    """What finds the gold of one kind is not what finds it in the other."""
    people, assistant = (tuned.models[kind].weights for kind in ("people", "assistant"))
    assert people["bm25"] == 1
    assert people["question:person"] == pytest.approx(-0.5, abs=0.15)
    assert assistant["dense"] == 1
    assert assistant["bm25"] < 0.4


def test_conversations_left_out_are_ranked_by_weights_that_never_saw_them(planted):
    """A feature that gives the gold of one conversation away helps where it was learnt, and nowhere else."""
    questions, names = with_leaks(planted(TRUE, each=12), of=lambda one: one.conversation)
    (leaking,) = tune([a_set(questions, features=names)], FLAT, SIGNALS, groups={}).outcomes
    (clean,) = tune([a_set(planted(TRUE, each=12))], FLAT, SIGNALS, groups={}).outcomes
    assert leaking.mean(DEVELOPMENT) > clean.mean(DEVELOPMENT) + 0.1
    assert leaking.mean(LEFT_OUT) == pytest.approx(clean.mean(LEFT_OUT), abs=0.03)
    assert leaking.mean(LEFT_OUT) < 0.8


def test_a_data_set_left_out_is_ranked_by_weights_that_never_saw_it(planted):
    """A feature that gives the gold of one data set away helps all its conversations, but not the set left out."""
    sets = [planted(TRUE, dataset=name, each=12, seed=n) for n, name in enumerate(("one", "two"))]
    questions, names = with_leaks([one for own in sets for one in own], of=lambda one: one.dataset)
    tables = [a_set([one for one in questions if one.dataset == name], name, names) for name in ("one", "two")]
    for outcome in tune(tables, FLAT, SIGNALS, groups={}).outcomes:
        assert outcome.mean(LEFT_OUT) > 0.95
        assert outcome.mean(SET_LEFT_OUT) < 0.8


def test_numbers_are_those_of_the_weights_that_are_written(tuned):
    """The development numbers are got again from the rounded weights."""
    for outcome in tuned.outcomes:
        weights = tuned.models[outcome.kind].vector(NAMES)
        again = [ndcg_at(rank(one, weights), one.gold, 10) for one in outcome.questions]
        assert outcome.systems[DEVELOPMENT]["nDCG@10"] == again


def test_where_nothing_else_is_of_a_kind_the_other_kinds_weights_are_shown(tuned):
    """Sets of one kind leave each other out; a lone one is ranked by other kinds' weights, and says so."""
    one, two, three = sorted(tuned.outcomes, key=lambda outcome: ("one", "two", "three").index(outcome.tables.name))
    assert SET_LEFT_OUT in one.systems
    assert SET_LEFT_OUT in two.systems
    assert SET_LEFT_OUT not in three.systems
    assert three.travelled == [f"{OTHER_KIND} people"]
    assert three.mean(f"{OTHER_KIND} people") < three.mean(LEFT_OUT)


def test_a_gain_within_noise_is_warned_about(planted):
    """Against the very weights that drew the gold nothing is gained; against bad ones a lot."""
    tables = [a_set(planted(TRUE, conversations=10, each=12))]
    good = tune(tables, {"people": dict(zip(NAMES, TRUE, strict=True))}, SIGNALS, groups={})
    bad = tune(tables, {"people": {"recency": 1.0}}, SIGNALS, groups={})
    assert any("the gain over the weights in force" in warning for warning in good.warnings)
    assert good.outcomes[0].judged[2].verdict != "better"
    assert bad.warnings == []
    (outcome,) = bad.outcomes
    assert outcome.judged[2].old == IN_FORCE
    assert outcome.judged[2].verdict == "better"
    assert not outcome.judged[2].noise


def test_weights_worse_than_a_single_signal_are_refused(planted):
    """Two sets of one kind that want opposite things: the compromise loses to each one's own signal."""
    tables = [
        a_set(planted([1, 0, 0, 0], dataset="words", scale=4), "words"),
        a_set(planted([0, 1, 0, 0], dataset="meaning", scale=4, seed=1), "meaning"),
    ]
    tuning = tune(tables, FLAT, SIGNALS, groups={})
    lost = {
        (one.tables.name, one.best_signal)
        for one in tuning.outcomes
        if one.mean(DEVELOPMENT) < one.mean(one.best_signal)
    }
    assert lost
    assert lost <= {("words", "bm25"), ("meaning", "dense")}
    for name, signal in lost:
        assert any(line.startswith(f"{name} (people)") and signal in line for line in tuning.refusals)
    assert any("may not hold on logs" in warning for warning in tuning.warnings)


def test_good_weights_are_not_refused(tuned):
    """Where the fit beats every signal nothing is refused, and it is above the equal-weight sum too."""
    assert tuned.refusals == []
    for outcome in tuned.outcomes:
        assert outcome.mean(LEFT_OUT) > max(outcome.mean(outcome.best_signal), outcome.mean(EQUAL))


def test_a_kind_of_too_few_conversations_is_passed_over(planted):
    """It keeps the weights it has, and a warning says why; where it is all there is, that is an error."""
    few = planted(TRUE, conversations=2, each=5, kind="assistant")
    tuning = tune([a_set(planted(TRUE, each=10) + few)], FLAT, SIGNALS, groups={})
    assert list(tuning.models) == ["people"]
    assert any(warning.startswith("assistant: not fitted") for warning in tuning.warnings)
    with pytest.raises(InputError, match="fewer than 3"):
        tune([a_set(few)], FLAT, SIGNALS, groups={})


def test_tables_that_do_not_go_together_are_refused(planted):
    """No set, one set twice, or other features."""
    own = a_set(planted(TRUE, each=2))
    for tables in ([], [own, own], [own, replace(own, name="other", features=("x",))]):
        with pytest.raises(InputError, match="data sets"):
            tune(tables, FLAT, SIGNALS, groups={})


def test_a_group_of_features_is_worth_what_leaving_it_out_costs(tuned):
    """The ablation finds the gain of what drew the gold, none in noise, and passes over groups without a feature."""
    outcome = tuned.outcomes[-1] if tuned.outcomes[-1].kind == "people" else tuned.outcomes[0]
    gains = {one.group: one.overall["nDCG@10"] for one in outcome.ablations}
    assert set(gains) == {"words", "time", "priors"}
    assert gains["words"].difference > 0.2
    assert gains["priors"].difference > 0.03
    assert abs(gains["time"].difference) < 0.02
    words = next(one for one in outcome.ablations if one.group == "words")
    assert set(words.by_category) == {"odd", "even"}
    assert min(found.difference for found in words.by_category.values()) > 0.1


def test_a_group_that_is_the_same_for_all_is_not_ablated(planted):
    """What never differs between candidates cannot gain anything, and does not thin out the correction either."""
    questions = [replace(one, values=one.values * np.float32([1, 1, 0, 1])) for one in planted(TRUE, each=8)]
    (outcome,) = tune([a_set(questions)], FLAT, SIGNALS, groups=GROUPS).outcomes
    assert [one.group for one in outcome.ablations] == ["words", "priors"]


def test_one_seed_gives_one_file(planted, tmp_path):
    """Two tunings write the same bytes, wherever they write them; another seed may write others."""
    texts = []
    for name in ("a.toml", "b.toml"):
        tables = [a_set(planted(TRUE, each=8)), a_set(planted(TRUE, dataset="two", each=8, seed=4), "two")]
        tuning = tune(tables, FLAT, SIGNALS, groups=GROUPS, seed=3)
        file = tune_report.write_settings(tuning, Settings(), tmp_path / name)
        texts.append(file.read_bytes() + tune_report.markdown(tuning).encode())
    assert texts[0] == texts[1]


def test_the_file_says_where_the_weights_come_from(tuned, tmp_path):
    """Weights and BM25's numbers by kind, and the data, embedder and figures behind them."""
    settings = Settings(retrieval={"graph_restart": 0.2, "assistant": {"bm25_k1": 1.7}})
    written = tomllib.loads(tune_report.write_settings(tuned, settings, tmp_path / "new.toml").read_text())["retrieval"]
    assert written["graph_restart"] == 0.2
    assert "candidates" not in written
    assert written["assistant"]["bm25_k1"] == 1.7
    assert written["people"]["weights"] == tuned.models["people"].weights
    tuned_by = written["tuned"]
    assert tuned_by["embedder_digest"] == "0123"
    assert tuned_by["command"].startswith("neuralstream tune --dataset native:one@dev --dataset native:two@dev")
    assert tuned_by["regularisation"]["people"] == tuned.models["people"].strength
    found = {one["name"]: one for one in tuned_by["datasets"]}
    assert found["three"]["set_left_out"] == {}
    assert found["one"]["sha256"] == "sha of one"
    assert found["one"]["queries"] == 150
    outcome = next(one for one in tuned.outcomes if one.tables.name == "one")
    for key, system in (("development", DEVELOPMENT), ("left_out", LEFT_OUT), ("set_left_out", SET_LEFT_OUT)):
        assert found["one"][key]["nDCG@10"] == pytest.approx(outcome.mean(system), abs=1e-4)


def test_the_rest_of_a_settings_file_stays(tuned, tmp_path):
    """Other settings and comments are kept; weights are replaced as a whole; writing again changes nothing."""
    file = tmp_path / "neuralstream.toml"
    file.write_text(
        "# ours\nbatch_size = 7  # chosen in May\n\n[retrieval]\nmode = 'hybrid'  # always\n\n"
        "[retrieval.people]\nbm25_b = 0.3\nweights = { graph = 2.0 }\n\n[embed]\nbatch_size = 64\n"
    )
    once = tune_report.write_settings(tuned, Settings(), file).read_text()
    for kept in ("# ours\n", "batch_size = 7  # chosen in May\n", "mode = 'hybrid'  # always\n"):
        assert kept in once
    read = tomllib.loads(once)
    assert read["embed"] == {"batch_size": 64}
    assert read["retrieval"]["people"]["bm25_b"] == Settings().retrieval.people.bm25_b
    assert read["retrieval"]["people"]["weights"] == tuned.models["people"].weights
    assert tune_report.write_settings(tuned, Settings(), file).read_text() == once
    file.write_text("mode = ")
    with pytest.raises(SettingsError, match="not TOML"):
        tune_report.write_settings(tuned, Settings(), file)


def test_the_page_shows_every_number_side_by_side(tuned):
    """Rankings of each data set in one table, comparisons, weights, the ablation, categories; JSON says the same."""
    page = tune_report.markdown(tuned)
    for row in (
        "best single signal: bm25",
        EQUAL,
        IN_FORCE,
        DEVELOPMENT,
        LEFT_OUT,
        SET_LEFT_OUT,
        f"{OTHER_KIND} people",
    ):
        assert f"| {row} |" in page
    assert "| question:person |" in page
    assert "| group | even (75) | odd (75) |" in page
    document = json.loads(json.dumps(tune_report.as_json(tuned), allow_nan=False))
    result = next(one for one in document["results"] if one["dataset"] == "one")
    assert result["rankings"][LEFT_OUT]["R@5"] == pytest.approx(tuned.outcomes[-2].mean(LEFT_OUT, "R@5"), abs=1e-4)


def test_refusals_and_warnings_stand_on_top_of_the_page(tuned):
    """Nobody reads the numbers before them."""
    outcome = tuned.outcomes[0]
    worse = dict(outcome.systems) | {LEFT_OUT: outcome.systems["recency"]}
    refused = replace(tuned, outcomes=[replace(outcome, systems=worse)])
    page = tune_report.markdown(refused)
    assert isinstance(refused, Tuning)
    assert page.index("## Refused") < page.index("## What the weights are worth")
    assert f"{outcome.tables.name} ({outcome.kind}): {LEFT_OUT}" in page


def test_a_lone_conversation_of_a_set_has_no_interval(planted):
    """A set of one conversation beside others is scored, with a dash for its interval."""
    lone = planted(TRUE, dataset="lone", conversations=1, each=12, seed=9)
    tuning = tune([a_set(planted(TRUE, each=10)), a_set(lone, "lone")], FLAT, SIGNALS, groups={})
    rows = [row for row in tune_report.result_rows(tuning) if row[1] == "lone"]
    assert rows
    assert all(row[-1] is None for row in rows)
    assert json.dumps(tune_report.as_json(tuning), allow_nan=False)


def test_a_question_whose_gold_was_not_found_counts_as_missed(planted):
    """Candidates that lack the gold score zero for it; the question is not dropped."""
    questions = planted(TRUE, each=10)
    lost = [replace(one, query_id=f"lost-{one.query_id}", gold=frozenset({"elsewhere"})) for one in questions]
    (found,) = tune([a_set(questions)], FLAT, SIGNALS, groups={}).outcomes
    (half,) = tune([a_set([*questions, *lost])], FLAT, SIGNALS, groups={}).outcomes
    assert len(half.questions) == 2 * len(found.questions)
    assert half.mean(DEVELOPMENT) == pytest.approx(found.mean(DEVELOPMENT) / 2, abs=0.01)
    assert isinstance(half.questions[0], Asked)
