"""`neuralstream tune`, from labelled logs to a settings file."""

import json

import pytest

from neuralstream import Settings
from neuralstream.types import Turn
from neuralstream.workbench.tune import Tuning

FACTS = {
    "ada": ["Redis moved to port 6381", "The backup runs at three", "Lunch is at noon", "Staging is on the blue rack"],
    "bo": ["The oven runs too hot", "Glaze seven came out green", "The van costs 140 euros", "Lotte takes Saturday"],
    "cy": ["Nora sings alto", "Tickets cost 18 euros", "The church has no heating", "The choir meets on Mondays"],
}
QUESTIONS = {
    "ada": ["Which port has redis?", "When does the backup run?", "When is lunch?"],
    "bo": ["Which oven is hot?", "Which glaze is green?", "What is the cost of the van?"],
    "cy": ["What sings Nora?", "What do tickets cost?", "Is there heating in the church?"],
}


@pytest.fixture
def labelled(tmp_path):
    """A labelled set of three users in the native format."""
    folder = tmp_path / "tiny"
    for name in ("conversations", "queries"):
        (folder / name).mkdir(parents=True)
    about = {"name": "tiny", "description": "tiny", "licence": "CC0", "languages": ["en"], "splits": {}}
    (folder / "dataset.json").write_text(json.dumps(about))
    for user, facts in FACTS.items():
        turns = [
            Turn.exchange(
                fact, "Noted.", session_id="s1", turn_id=f"t{n}", user_id=user, index=n,
                created_at=f"2026-05-08T12:{n:02d}:00Z",
            ).to_dict()
            for n, fact in enumerate(facts)
        ]  # fmt: skip
        queries = [
            {"query_id": f"{user}-{n}", "text": text, "category": "fact", "evidence": [f"t{n}"]}
            for n, text in enumerate(QUESTIONS[user])
        ]
        for name, rows in (("conversations", turns), ("queries", queries)):
            (folder / name / f"{user}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_tune_writes_a_file_that_serves(cli, labelled, tmp_path):
    """The weights, their provenance and the page are written; the file loads, and an evaluation runs on it."""
    out, page = tmp_path / "tuned.toml", tmp_path / "tuning.md"
    ran = cli("tune", "--dataset", labelled, "--out", out, "--report", page, "--tables", tmp_path / "kept", "--force")
    assert ran.code == 0
    assert "fitted: conversations left out" in ran.out
    assert str(out) in ran.err
    settings = Settings.load(out)
    assert settings.retrieval.tuned.datasets[0]["name"] == "tiny"
    assert settings.retrieval.tuned.embedder_digest
    assert settings.retrieval.exchange.weights != Settings().retrieval.exchange.weights
    assert settings.retrieval.people.weights == Settings().retrieval.people.weights
    assert page.read_text().startswith("# The weights of hybrid retrieval")
    assert cli("eval", "--dataset", labelled, "--config", out, "--modes", "hybrid", "--out", tmp_path / "run").code == 0
    assert not (tmp_path / "home").exists()

    again = tmp_path / "again.toml"
    assert cli("tune", "--dataset", labelled, "--out", again, "--tables", tmp_path / "kept", "--force").code == 0
    assert again.read_bytes() == out.read_bytes()
    fresh = tmp_path / "fresh.toml"
    assert cli("tune", "--dataset", labelled, "--out", fresh, "--force").code == 0
    assert fresh.read_bytes() == out.read_bytes()


def test_tune_prints_json(cli, labelled, tmp_path):
    """--json prints weights, numbers and comparisons as one document."""
    ran = cli("tune", "--dataset", labelled, "--out", tmp_path / "t.toml", "--force", "--json", "--seed", "3")
    assert ran.json["results"][0]["dataset"] == "tiny"
    assert set(ran.json["models"]) == {"exchange"}
    assert "command" in (tmp_path / "t.toml").read_text()
    assert "--seed 3" in (tmp_path / "t.toml").read_text()


def test_a_feature_can_be_left_without_weight(cli, labelled, tmp_path):
    """What --without names is not fitted, and the file says that it was not."""
    out = tmp_path / "t.toml"
    left = ("--without", "graph", "--without", "linked")
    ran = cli("tune", "--dataset", labelled, "--out", out, "--force", "--json", *left)
    assert ran.code == 0
    assert not {"graph", "linked"} & set(ran.json["results"][0]["rankings"])
    tuned = Settings.load(out).retrieval.tuned
    assert not {"graph", "linked"} & set(tuned.features)
    assert "--without graph --without linked" in tuned.command


def test_refused_weights_are_not_written(cli, labelled, tmp_path, monkeypatch):
    """Where the rule is broken nothing is written and the exit code is 1, but with --force."""
    monkeypatch.setattr(Tuning, "refusals", property(lambda _tuning: ["tiny: worse than the single signal bm25"]))
    out, kept = tmp_path / "tuned.toml", tmp_path / "kept"
    ran = cli("tune", "--dataset", labelled, "--out", out, "--tables", kept)
    assert ran.code == 1
    assert "REFUSED: tiny: worse than the single signal bm25" in ran.err
    assert not out.exists()
    assert cli("tune", "--dataset", labelled, "--out", out, "--tables", kept, "--force").code == 0
    assert out.exists()


@pytest.mark.parametrize(
    "wrong", [("--dataset", "nowhere"), ("--seed", "-1"), ("--without", "magic"), ("--set", "retrieval.candidates=0")]
)
def test_tune_refuses_what_is_wrong(cli, labelled, tmp_path, wrong):
    """An unknown set, a negative seed or a bad setting is wrong use, and writes nothing."""
    ran = cli("tune", "--dataset", labelled, "--out", tmp_path / "tuned.toml", *wrong)
    assert ran.code == 2
    assert not (tmp_path / "tuned.toml").exists()
