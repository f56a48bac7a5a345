"""`neuralstream sweep`."""

import json
import shlex

import pytest

from neuralstream.testing import ScriptedChat, ScriptedOllama
from neuralstream.types import Turn

SAID = [
    ("Move redis to port 6381", "Done, redis listens on 6381."),
    ("I decided to deploy on Fridays", "Noted: the decision is to deploy on Fridays."),
]


@pytest.fixture
def file(tmp_path):
    """A sweep of two cells over a set of one person and one question."""
    turns = [
        Turn.exchange(*said, session_id="s", turn_id=f"t{n}", user_id="ada", created_at=f"2026-03-01T10:0{n}:00Z")
        for n, said in enumerate(SAID)
    ]
    folder = tmp_path / "set"
    for name, rows in (
        ("conversations", [turn.to_dict() for turn in turns]),
        ("queries", [{"query_id": "q", "text": "redis port", "category": "identifier", "evidence": ["t0"]}]),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "ada.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "dataset.json").write_text('{"name": "set"}')
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"dataset: {folder}\nmodes: [bm25]\nsweeps: [{{name: a, grid: {{batch_size: [1, 2]}}}}]\n")
    return sweep


def test_prints_a_table_and_says_what_was_run(cli, file):
    """A row per cell; the second time nothing is run and the table is the same."""
    ran = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert ran.code == 0
    assert sorted(row["batch_size"] for row in ran.rows) == ["1", "2"]
    assert all(row["evidence@1000"] == "1.0000" for row in ran.rows)
    assert "2 run just now" in ran.err
    again = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert (again.code, again.out) == (0, ran.out)
    assert "0 run just now" in again.err


def test_json_is_what_is_written(cli, file, tmp_path):
    """`--json` prints sweep.json."""
    ran = cli("sweep", file, "--out", "out", "--jobs", 1, "--json")
    assert ran.json == json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert ran.json["failed"] == {}


def test_a_failed_cell_is_told_with_exit_code_1(cli, file, monkeypatch):
    """Cells that have no run are named with their errors, after the table of those that have."""

    def broken(*_arguments, **_options):
        raise RuntimeError("no room")

    monkeypatch.setattr("neuralstream.workbench.sweep_work.evaluate", broken)
    ran = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert ran.code == 1
    assert ran.err.count("no room") == 2
    assert "2 cells failed" in ran.err


def test_an_unknown_key_is_wrong_use(cli, file):
    """A file with a key that does not exist is refused by its name."""
    file.write_text(file.read_text().replace("modes", "moods"))
    ran = cli("sweep", file, "--out", "out")
    assert ran.code == 2
    assert "unknown key 'moods'" in ran.err


def test_a_threshold_that_no_host_reaches_is_refused(cli, file):
    """Without a simulated host the context trigger never fires: cells that vary it would all be one."""
    file.write_text(file.read_text().replace("batch_size: [1, 2]", "context_threshold: [40, 60]"))
    ran = cli("sweep", file, "--out", "out")
    assert ran.code == 2
    assert "context_threshold would change nothing" in ran.err
    assert "Set context_window" in ran.err


def test_what_is_passed_over_is_told(cli, file):
    """A sweep that waits for a file says so, and the others are run."""
    file.write_text(file.read_text().replace("sweeps: [", "sweeps: [{name: b, needs: x, grid: {batch_size: [3]}}, "))
    ran = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert ran.code == 0
    assert "sweep b was passed over" in ran.err


def test_answers_that_are_not_recorded_come_with_the_command_that_records_them(cli, file, tmp_path):
    """A prompt without recorded answers fails by its name; the command that is printed mends it, as it stands."""
    settings = "{extract.extractor: llm, llm.mode: replay, llm.cassette: answers.jsonl, extract.history_turns: 2}"
    rules, prompts = "{name: a, grid: {extract.extractor: [extractive]}}", "grid: {extract.prompt: [minimal]}"
    file.write_text(
        f"dataset: {tmp_path / 'set'}\nmodes: [hybrid]\n"
        f"sweeps: [{rules}, {{name: b, settings: {settings}, {prompts}}}]\n"
    )
    ran = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert ran.code == 1
    assert f"{tmp_path / 'answers.jsonl'} lacks answers of qwen3 to prompt minimal@1" in ran.err
    assert "1 cell failed" in ran.err
    (command,) = [line for line in ran.err.splitlines() if line.startswith("  neuralstream eval")]
    with ScriptedOllama({"qwen3": ScriptedChat()}) as server:
        recorded = cli(*shlex.split(command.replace("http://localhost:11434", server.url))[1:])
    assert (recorded.code, recorded.err.count("recorded")) == (0, 1)
    again = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert again.code == 0
    assert {row["extract.prompt"] for row in again.rows} == {"", "minimal"}


def test_the_printed_table_is_short(cli, file, tmp_path):
    """It holds what varied, the measure and the verdict; every measure is in the summary, which is named."""
    ran = cli("sweep", file, "--out", "out", "--jobs", 1)
    assert list(ran.rows[0]) == [
        *("cell", "batch_size", "evidence@1000", "95 % of evidence@1000", "to the best", "p (Holm)", "verdict"),
    ]
    assert "every measure and mode: out/summary.md" in ran.err
    assert "evidence@500" in (tmp_path / "out" / "summary.md").read_text()
