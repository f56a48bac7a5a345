import json
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.errors import ExtractionError
from neuralstream.extract.extractive import ExtractiveExtractor
from neuralstream.types import Turn
from neuralstream.workbench import notebook, validate

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
FACTS = [
    "Redis moved to port 6381",
    "The backup runs at three",
    "Lunch is at noon",
    "The staging host is stage.example",
]


@pytest.fixture
def labelled(tmp_path):
    """A labelled set of two users in the native format."""
    folder = tmp_path / "tiny"
    for name in ("conversations", "queries"):
        (folder / name).mkdir(parents=True)
    about = {"name": "tiny", "description": "tiny", "licence": "CC0", "languages": ["en"]}
    (folder / "dataset.json").write_text(json.dumps(about | {"splits": {"dev": ["ada"], "test": ["eve"]}}))
    for user in ("ada", "eve"):
        turns = [
            Turn.exchange(
                fact, "Noted.", session_id="s1", turn_id=f"t{n}", user_id=user, index=n,
                created_at=NOON + timedelta(minutes=n),
            ).to_dict()
            for n, fact in enumerate(FACTS)
        ]  # fmt: skip
        question = {
            "query_id": f"{user}-q1",
            "text": "Which port is redis on?",
            "category": "identifier",
            "answer": "6381",
        }
        queries = [question | {"evidence": ["t0"], "asked_at": None}]
        for name, rows in (("conversations", turns), ("queries", queries)):
            (folder / name / f"{user}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_eval_prints_a_row_per_mode_and_writes_the_run(cli, labelled, tmp_path):
    """An evaluation prints the comparison and leaves its run in --out, and nothing in the data folder."""
    out = tmp_path / "run"
    ran = cli("eval", "--dataset", labelled, "--modes", "bm25,substring", "--out", out)
    assert ran.code == 0
    assert [row["mode"] for row in ran.rows] == ["bm25", "substring"]
    assert float(ran.rows[0]["R@5"]) == 1
    assert (out / "metrics.json").is_file()
    assert str(out) in ran.err
    assert not (tmp_path / "home").exists()


def test_eval_prints_its_metrics_as_json(cli, labelled, tmp_path):
    """--json prints metrics.json; settings reach the evaluation; a lane is chosen by name."""
    out = tmp_path / "run"
    ran = cli(
        "eval", "--dataset", f"native:{labelled}@dev", "--modes", "bm25", "--lane", "turns,gems", "--out", out,
        "--set", "batch_size=2", "--json",
    )  # fmt: skip
    assert ran.json == json.loads((out / "metrics.json").read_text())
    assert list(ran.json["lanes"]) == ["turns", "gems"]
    assert json.loads((out / "manifest.json").read_text())["settings"]["batch_size"] == 2


def test_eval_of_gems_shows_raw_turns_and_what_was_made(cli, labelled, tmp_path):
    """Raw turns stand beside gems though they were not asked for; what distilling made follows."""
    ran = cli("eval", "--dataset", labelled, "--modes", "bm25", "--lane", "gems", "--out", tmp_path / "run")
    lanes = json.loads((tmp_path / "run" / "metrics.json").read_text())["lanes"]
    assert list(lanes) == ["gems", "turns"]
    assert "gems\tbm25\t1000" in ran.out
    assert "gems per 100 turns" in ran.out
    assert "Evidence that fits into a budget" in (tmp_path / "run" / "summary.md").read_text()


def test_eval_tells_of_batches_that_were_lost(cli, labelled, tmp_path, monkeypatch):
    """Dead letters are named on standard error, with the file that says why."""

    def fail(_extractor, _batch):
        raise ExtractionError("no JSON in the answer")

    monkeypatch.setattr(ExtractiveExtractor, "extract", fail)
    out = tmp_path / "run"
    ran = cli("eval", "--dataset", labelled, "--modes", "bm25", "--lane", "gems", "--out", out)
    assert ran.code == 0
    told = f"batches that could not be distilled: 2; {out / 'dead_letters.jsonl'} says why"
    assert told in ran.err.replace("\n", " ")


@pytest.mark.parametrize(
    "wrong", [("--dataset", "nowhere"), ("--modes", "fuzzy"), ("--lane", "bowling"), ("--set", "batch_size=0")]
)
def test_eval_refuses_what_is_unknown(cli, labelled, tmp_path, wrong):
    """An unknown set, mode, lane or setting is wrong use."""
    ran = cli("eval", "--dataset", labelled, "--out", tmp_path / "run", *wrong)
    assert (ran.code, ran.out) == (2, "")


def test_datasets_list(cli):
    """The shipped sets are listed, our own first."""
    assert cli("datasets", "list", "--json").json[0]["name"] == "workdays"
    assert cli("datasets", "list").rows[0]["name"] == "workdays"


def test_datasets_stats(cli, labelled):
    """A set's sizes, a line each, with the questions by category."""
    facts = {row["fact"]: row["value"] for row in cli("datasets", "stats", labelled).rows}
    assert (facts["turns"], facts["questions"], facts["questions: identifier"]) == ("8", "2", "2")
    assert cli("datasets", "stats", f"{labelled}@dev", "--json").json["turns"] == 4


def test_datasets_validate(cli, labelled, monkeypatch):
    """Each rule has a line; a broken rule is exit code 1."""
    assert {row["result"] for row in cli("datasets", "validate", labelled).rows} == {"pass"}
    broken = [validate.Check("kappa", False, 0.1, "at least 0.8"), validate.Check("ids", True, 0, "none twice")]
    monkeypatch.setattr(validate, "validate", lambda _spec: broken)
    ran = cli("datasets", "validate", labelled)
    assert ran.code == 1
    assert [row["result"] for row in ran.rows] == ["FAIL", "pass"]
    assert cli("datasets", "validate", labelled, "--json").json[0]["rule"] == "at least 0.8"


def test_notebook_run_passes_parameters(cli, monkeypatch):
    """Each -p NAME VALUE is a parameter, --out is the parameter `out`; the folder of the results is printed."""
    seen = []

    def run(path, parameters):
        seen.append((path.name, parameters))
        return {"parameters": parameters}

    monkeypatch.setattr(notebook, "run_notebook", run)
    ran = cli("notebook", "run", "n.ipynb", "-p", "k", "5", "-p", "modes", "bm25,hybrid", "--out", "runs/x")
    assert (ran.code, ran.out) == (0, "runs/x\n")
    assert seen == [("n.ipynb", {"k": "5", "modes": "bm25,hybrid", "out": "runs/x"})]


def test_a_notebooks_summary_is_drawn_on_a_terminal(cli, monkeypatch, tmp_path):
    """Its tables, too wide for a terminal as Markdown, are drawn; elsewhere the summary is printed as it is."""
    rows = "| mode | R@5 | note |\n| --- | --- | --- |\n| bm25 | 0.470 | - |\n| b\\|c | 0.1 |  |\n"
    summary = f"# A set\n\nMade by x.\n\n{rows}"
    (tmp_path / "summary.md").write_text(summary)
    monkeypatch.setattr(notebook, "run_notebook", lambda *_: {"parameters": {"out": str(tmp_path)}})
    assert cli("notebook", "run", "n.ipynb").out == f"{summary}\n{tmp_path}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    drawn = cli("notebook", "run", "n.ipynb").out
    assert "A set\n\nMade by x." in drawn
    assert drawn.count("|") == 1
    assert re.search(r"b\|c\s+0\.100\s*\n", drawn)
    assert re.search(r"bm25\s+0\.470", drawn)


def test_notebook_run_needs_a_value_for_each_name(cli):
    """A name without its value is wrong use."""
    assert cli("notebook", "run", "n.ipynb", "-p", "k").code == 2


def test_a_missing_extra_is_named(cli, labelled, monkeypatch):
    """Without the workbench's packages the command says what to install, with exit code 3."""
    monkeypatch.setitem(sys.modules, "papermill", None)
    path = labelled / "n.ipynb"
    cells = [{"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "out = ''", "outputs": []}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    ran = cli("notebook", "run", path, "--out", labelled / "results")
    assert ran.code == 3
    assert "pip install 'neuralstream[workbench]'" in ran.err
