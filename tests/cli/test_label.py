import io
import json

import pytest

from neuralstream.workbench import pulling
from neuralstream.workbench.datasets import load

EXCHANGES = [
    ("s1", "We decided to keep Grafana on port 3105.", "Noted, Grafana stays on 3105."),
    ("s1", "I prefer short answers without bullet lists.", "Understood."),
    ("s2", "Remind me to renew the Velden certificate before June.", "I will."),
    ("s2", "I prefer dark mode in every editor.", "Understood."),
    ("s2", "Which port did we put Grafana on?", "3105."),
]


@pytest.fixture
def answers(monkeypatch):
    """What the person types."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


@pytest.fixture
def own_log(tmp_path):
    """A log as OpenAI messages, a session a line."""
    file = tmp_path / "own.jsonl"
    with file.open("w") as out:
        for session in ("s1", "s2"):
            messages = [
                {"role": role, "content": text, "timestamp": f"2026-01-01T1{n}:00:00Z"}
                for n, (of, *exchange) in enumerate(EXCHANGES)
                if of == session
                for role, text in zip(("user", "assistant"), exchange, strict=True)
            ]
            out.write(json.dumps({"id": session, "messages": messages}) + "\n")
    return file


def test_label_keeps_what_a_person_says(cli, own_log, answers, tmp_path):
    """Marked turns, chosen turns, other words, another kind, none, refused; stopped, and gone on with later."""
    folder = tmp_path / "mine"
    answers("e In other words?", "c taste", "1", "0", "s", "q")
    ran = cli("datasets", "label", own_log, "--out", folder, "--json")
    assert ran.json == {"spec": f"native:{folder}", "accepted": 2, "rejected": 1}
    questions = {one.text: one for _, one in load(f"native:{folder}").questions()}
    assert questions["In other words?"].category == "taste"
    assert len(questions["In other words?"].evidence) == 1
    assert [one.category for one in questions.values() if not one.evidence] == ["unanswerable"]
    answers("s")  # and then the end of the input
    again = cli("datasets", "label", own_log, "--out", folder, "--json")
    assert again.json["rejected"] == 2
    assert "── 4 of " in again.err
    assert "── 3 of " not in again.err


def test_keys_are_explained_when_they_are_none(cli, own_log, answers, tmp_path):
    """A number of no turn is no answer, nor is Enter where nothing is marked."""
    answers("99", "f 1", "x")
    ran = cli("datasets", "label", own_log, "--out", tmp_path / "mine")
    assert ran.err.count("never show it again") == 3
    assert "assistant: " in ran.err
    assert ran.out == f"native:{tmp_path / 'mine'}\n"


def test_split_writes_and_prints_splits(cli, own_log, answers, tmp_path):
    """One conversation cannot be two splits; one split it can be."""
    answers("q")
    cli("datasets", "label", own_log, "--out", tmp_path / "mine")
    assert cli("datasets", "split", tmp_path / "mine").code == 2
    assert cli("datasets", "split", tmp_path / "mine", "--parts", "dev").code == 2
    assert cli("datasets", "split", tmp_path / "mine", "--parts", "all=1", "--json").json == {"all": ["default"]}


def test_pull_shows_the_licence_and_wants_it_accepted(cli, answers, monkeypatch, tmp_path):
    """Without --yes it asks; refused, nothing is downloaded; offline is exit code 3."""
    offline = pulling.PublicSet("a-set", "locomo", "http://127.0.0.1:9/set.json", "MIT", "none", "Somebody")
    monkeypatch.setattr(pulling, "PUBLIC_SETS", (offline,))
    answers("n")
    refused = cli("datasets", "pull", "a-set")
    assert refused.code == 2
    assert "licence MIT" in refused.err
    ran = cli("datasets", "pull", "a-set", "--yes")
    assert ran.code == 3
    assert str(tmp_path / "home" / "datasets" / "set.json") in ran.err
    assert cli("datasets", "pull", "no-set", "--yes").code == 2


def test_pull_prints_the_spec(cli, monkeypatch, tmp_path):
    """What is there already is not downloaded again, and its SPEC is printed."""
    public = pulling.PublicSet("a-set", "locomo", "http://127.0.0.1:9/set.json", "MIT", "none", "Somebody")
    monkeypatch.setattr(pulling, "PUBLIC_SETS", (public,))
    (tmp_path / "set.json").write_text("[]")
    ran = cli("datasets", "pull", "a-set", "--yes", "--out", tmp_path)
    assert ran.out == f"locomo:{tmp_path / 'set.json'}\n"
    assert "here already" in ran.err
