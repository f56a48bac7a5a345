"""What a change gained, as a user reads it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.types import Turn

NOON = datetime(2026, 5, 8, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def runs(cli, tmp_path):
    """The same questions ranked by BM25, and by the words' exact sequence, which finds none of them."""
    folder = tmp_path / "tiny"
    for name in ("conversations", "queries"):
        (folder / name).mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps({"name": "tiny", "splits": {}}))
    turns = [
        Turn.exchange(
            text,
            "Noted.",
            session_id="s1",
            turn_id=f"t{n}",
            user_id="ada",
            index=n,
            created_at=NOON + n * HOUR,
        ).to_dict()
        for n, text in enumerate(("Redis moved to port 6381", "Lunch is at noon"))
    ]
    asked = [("redis port?", "identifier", "t0"), ("when lunch?", "temporal", "t1")]
    queries = [
        {"query_id": f"q{n}", "text": text, "category": category, "answer": "", "evidence": [turn], "asked_at": None}
        for n, (text, category, turn) in enumerate(asked)
    ]
    for name, rows in (("conversations", turns), ("queries", queries)):
        (folder / name / "ada.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for mode in ("substring", "bm25"):
        assert cli("eval", "--dataset", folder, "--modes", mode, "--out", tmp_path / mode).code == 0
    return tmp_path / "substring", tmp_path / "bm25"


def test_two_runs_are_compared_over_all_questions_and_in_each_category(cli, runs):
    """Old, new, their difference, and a verdict that one conversation cannot carry."""
    ran = cli("compare", *runs)
    assert ran.code == 0
    assert [(row["category"], row["measure"]) for row in ran.rows] == [
        (category, measure) for category in ("all", "identifier", "temporal") for measure in ("R@5", "nDCG@10")
    ]
    first = ran.rows[0]
    assert (float(first["old"]), float(first["new"]), float(first["difference"])) == (0, 1, 1)
    assert (first["questions"], first["win/tie/loss"], first["verdict"]) == ("2", "2/0/0", "too few to tell")


def test_the_other_way_round_is_a_loss(cli, runs):
    """The second run is the new one; --json and --md say the same."""
    lost = cli("compare", *reversed(runs), "--json").json[0]
    assert (lost["difference"], lost["win/tie/loss"]) == (-1, "0/0/2")
    head, line, *rows = cli("compare", *reversed(runs), "--md").out.splitlines()
    assert (head.count("|"), set(line), len(rows)) == (13, set("| -"), 6)


def test_runs_that_asked_different_questions_are_refused(cli, runs, tmp_path):
    """A paired comparison needs pairs."""
    queries = tmp_path / "tiny" / "queries" / "ada.jsonl"
    queries.write_text(queries.read_text().splitlines(keepends=True)[0])
    cli("eval", "--dataset", tmp_path / "tiny", "--modes", "bm25", "--out", tmp_path / "fewer")
    ran = cli("compare", runs[0], tmp_path / "fewer")
    assert ran.code == 2
    assert "different questions" in ran.err
