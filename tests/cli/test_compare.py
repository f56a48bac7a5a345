"""What a change gained, why a question went wrong, what the gate refuses and what is promoted, as a user reads it."""

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
        chosen = ("--modes", mode, "--set", f"retrieval.mode={mode}")
        assert cli("eval", "--dataset", folder, *chosen, "--out", tmp_path / mode).code == 0
    return tmp_path / "substring", tmp_path / "bm25"


def _tables(text):
    """Blocks of lines, each a list of cells."""
    return [[line.split("\t") for line in block.splitlines()] for block in text.strip().split("\n\n")]


def test_two_runs_are_compared(cli, runs):
    """Old, new, their difference and a verdict that one conversation cannot carry; what changed; what flipped."""
    ran = cli("compare", *runs)
    assert ran.code == 0
    measures, changed, flipped = _tables(ran.out)
    rows = [dict(zip(measures[0], line, strict=True)) for line in measures[1:]]
    assert [(row["category"], row["measure"]) for row in rows] == [
        (category, measure) for category in ("all", "identifier", "temporal") for measure in ("R@5", "nDCG@10")
    ]
    assert (float(rows[0]["old"]), float(rows[0]["new"]), rows[0]["verdict"]) == (0, 1, "too few to tell")
    assert ["retrieval.mode", "substring", "bm25"] in changed
    assert [line[:2] for line in flipped[2:4]] == [["ada/q0", "gained"], ["ada/q1", "gained"]]
    assert flipped[-1][0].startswith("turns: too few to tell. nDCG@10 rose from 0.000 to 1.000")


def test_json_and_markdown_say_the_same(cli, runs):
    """The second run is the new one, so the other way round is a loss."""
    found = cli("compare", *reversed(runs), "--json").json
    assert (found["measures"][0]["difference"], found["measures"][0]["win/tie/loss"]) == (-1, "0/0/2")
    assert [one["flip"] for one in found["flipped"]["turns"]] == ["lost", "lost"]
    assert "| `ada/q0` | lost | 1.000 | 0.000 | `redis port?` |" in cli("compare", *reversed(runs), "--md").out


def test_runs_that_asked_different_questions_are_refused(cli, runs, tmp_path):
    """A paired comparison needs pairs."""
    queries = tmp_path / "tiny" / "queries" / "ada.jsonl"
    queries.write_text(queries.read_text().splitlines(keepends=True)[0])
    cli("eval", "--dataset", tmp_path / "tiny", "--modes", "bm25", "--out", tmp_path / "fewer")
    ran = cli("compare", runs[0], tmp_path / "fewer")
    assert ran.code == 2
    assert "different questions" in ran.err


def test_a_question_is_explained(cli, runs):
    """What was asked, where its evidence came, and every hit with its signals."""
    ran = cli("explain", runs[1], "q1")
    asked, wanted, hits, _ = _tables(ran.out)
    assert asked[0] == ["when lunch?"]
    assert wanted[1][:2] == ["t1", "1"]
    assert hits[1][:3] == ["1", "yes", "t1"]
    assert cli("explain", runs[1], "q1", "--json").json["evidence"][0]["rank"] == 1
    assert cli("explain", runs[1], "q7").code == 2


def test_the_gate_exits_with_4_and_names_the_rule(cli, runs, tmp_path):
    """A floor of the baseline; the Markdown is written either way."""
    baseline = ("--baseline", tmp_path / "b.json", "--md", tmp_path / "c.md")
    accepted = cli("gate", runs[1], *baseline, "--update-baseline", "--floor", "R@5=0.5")
    assert accepted.code == 0
    assert "passed" in (tmp_path / "c.md").read_text()
    assert cli("gate", runs[1], *baseline).code == 0
    refused = cli("gate", runs[0], *baseline)
    assert refused.code == 4
    assert "REFUSED (floor): turns: R@5 is 0.000, and the floor 0.500" in refused.err
    assert "ada/q0\tlost" in refused.out
    assert "- **floor**" in (tmp_path / "c.md").read_text()
    assert cli("gate", runs[0], *baseline, "--json").json["passed"] is False
    assert f"neuralstream explain {runs[0]} ada/q0" in refused.err


def test_where_nothing_can_be_judged_the_comment_says_why(cli, runs, tmp_path):
    """Exit 2, in words, and in a folder that nobody made."""
    comment = tmp_path / "new" / "c.md"
    ran = cli("gate", runs[0], "--baseline", tmp_path / "none.json", "--md", comment)
    assert ran.code == 2
    assert f"--baseline {tmp_path / 'none.json'} --update-baseline`, and commit it" in ran.err
    assert comment.read_text().startswith("### Retrieval gate: nothing to judge\n\nthere is no baseline")


def test_a_baseline_is_renewed_in_the_open(cli, runs, tmp_path):
    """What it accepts now, and what it accepted before."""
    baseline = ("--baseline", tmp_path / "b.json", "--update-baseline")
    assert "turns/bm25: nDCG@10 1.000;" in cli("gate", runs[1], *baseline).err
    ran = cli("gate", runs[0], *baseline)
    assert ran.code == 0
    assert "turns/substring: nDCG@10 0.000, was 1.000;" in ran.err


def test_a_run_below_its_floors_is_no_baseline(cli, runs, tmp_path):
    """What the gate refuses is not accepted either."""
    file = tmp_path / "b.json"
    assert cli("gate", runs[0], "--baseline", file, "--update-baseline", "--floor", "R@5=0.5").code == 4
    assert not file.exists()


def test_a_run_is_promoted_and_served(cli, runs, tmp_path):
    """The first promotion says so; the next one needs a gain, or a reason."""
    file = tmp_path / "served.toml"
    first = cli("promote", runs[0], "--to", file)
    assert first.code == 0
    assert "nothing was promoted" in first.err
    limit = ("--max-latency-ms", 100000)
    refused = cli("promote", runs[1], "--to", file, *limit)
    assert refused.code == 4
    assert "1 user is too few for a verdict on it" in refused.err
    assert "nan" not in refused.err
    assert cli("promote", runs[1], "--to", file, "--force").code == 2
    forced = cli("promote", runs[1], "--to", file, *limit, "--force", "--why", "a trial", "--by", "ada", "--json")
    assert forced.json["promoted"]["forced"] == "a trial"
    assert cli("--config", file, "config", "show", "--json").json["retrieval.mode"]["value"] == "bm25"
    looked = {one["part"]: one for one in cli("--config", file, "doctor", "--json").json}
    assert "forced: a trial" in looked["evidence"]["what"]
    assert looked["evidence"]["detail"] == ""
    overridden = cli("--config", file, "doctor", "--json", "--set", "retrieval.mode=semantic").json
    assert "not those" in {one["part"]: one for one in overridden}["evidence"]["detail"]
