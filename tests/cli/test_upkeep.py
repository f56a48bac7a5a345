import io

import pytest

from neuralstream.errors import ExtractionError
from neuralstream.forgetting import Forgotten
from neuralstream.testing import ScriptedExtractor


class Keyboard(io.StringIO):
    """An input that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_forget_proves_it(own_memory):
    """A forgotten session is gone, what was asked again is printed, and the exit code is 0."""
    done = own_memory("forget", "--session", "s1")
    assert done.code == 0
    printed = {row["field"]: row["value"] for row in done.rows}
    assert printed["turns"] == "7"
    proofs = {value for field, value in printed.items() if field.startswith("asked again")}
    assert proofs == {"nothing found"}
    assert own_memory("thread", "s1", "--json").json == []


def test_forget_a_user(own_memory):
    """--user alone forgets everything of that user and of nobody else."""
    own_memory("remember", "Eve likes tea", "--user", "eve")
    done = own_memory("forget", "--user", "eve", "--json")
    assert (done.code, done.json["proved"], done.json["gems"]) == (0, True, 1)
    assert own_memory("gems", "list", "--user", "eve", "--json").json == []
    assert own_memory("gems", "list", "--json").json


def test_forget_before_a_time(own_memory):
    """--before forgets what is older and keeps the rest."""
    assert own_memory("forget", "--before", "2026-02-23T10:03:00Z", "--json").json["turns"] == 3
    assert [turn["index"] for turn in own_memory("thread", "s1", "--json").json] == [3, 4, 5, 6]


def test_forget_a_gem(own_memory):
    """--gem forgets that gem."""
    gem_id = own_memory("gems", "list", "--json").json[0]["gem_id"]
    assert own_memory("forget", "--gem", gem_id, "--json").json["gems"] == 1
    assert own_memory("gems", "show", gem_id).code == 2


def test_forget_needs_exactly_one(memory):
    """Naming nothing is wrong use and forgets nothing."""
    assert memory("forget").code == 2
    assert memory("thread", "s1", "--json").json


def test_forget_fails_where_something_is_left(cli, recorder):
    """A failed proof is exit code 1."""
    recorder.answers["forget"] = Forgotten("session s1", checks={"buffer": False})
    done = cli("forget", "--session", "s1")
    assert done.code == 1
    assert "FOUND" in done.out


@pytest.mark.parametrize(("answer", "forgets"), [("n\n", False), ("", False), ("y\n", True)])
def test_forget_asks_on_a_terminal(cli, recorder, monkeypatch, answer, forgets):
    """On a terminal forgetting asks first, and a no forgets nothing."""
    monkeypatch.setattr("sys.stdin", Keyboard(answer))
    recorder.answers["forget"] = Forgotten("session s1")
    done = cli("forget", "--session", "s1")
    assert (done.code, bool(recorder.calls)) == (int(not forgets), forgets)
    assert "Forget session s1?" in done.err


def test_forget_does_not_ask_with_yes(cli, recorder, monkeypatch):
    """--yes answers for the user."""
    monkeypatch.setattr("sys.stdin", Keyboard(""))
    recorder.answers["forget"] = Forgotten("session s1")
    assert cli("forget", "--session", "s1", "--yes").code == 0


def test_export_and_restore(memory, tmp_path):
    """An exported memory is restored into another data folder, under another user where asked."""
    file = tmp_path / "memory.jsonl"
    exported = memory("export", file, "--json").json["exported"]
    assert exported > 7
    elsewhere = ("--home", tmp_path / "elsewhere", "--user", "eve")
    assert memory("restore", file, *elsewhere, "--json").json == {"restored": exported}
    assert len(memory("thread", "s1", *elsewhere, "--json").json) == 7


def test_restore_refuses_another_file(memory, log):
    """A file that is no export is refused by name."""
    done = memory("restore", log)
    assert done.code == 2
    assert "session.jsonl" in done.err


def test_reindex_keeps_everything(own_memory):
    """Reindexing reports how many records it wrote, and searches still find them."""
    assert own_memory("reindex", "--json").json["reindexed"] > 7
    assert "6381" in own_memory("search", "redis port", "--lane", "turns").rows[0]["text"]


def test_dead_letters(cli, log, monkeypatch):
    """What could not be distilled is listed with its reason, and a retry says what failed again."""

    def broken(_batch):
        raise ExtractionError("the model answered with a poem", answer="Roses are red")

    monkeypatch.setattr("neuralstream.extract.make_extractor", lambda _settings: ScriptedExtractor(broken))
    assert cli("replay", log).code == 0
    letters = cli("deadletters", "list")
    assert letters.rows[0]["session"] == "s1"
    assert "poem" in letters.rows[0]["reason"]
    assert letters.rows[0]["answer"] == "Roses are red"
    retried = cli("deadletters", "retry", "--json").json
    assert retried == {"retried": len(letters.rows), "failed_again": len(letters.rows)}


@pytest.mark.parametrize(("user", "asked"), [((), None), (("--user", "eve"), "eve")])
def test_dead_letters_are_everybody_s_unless_a_user_is_named(cli, recorder, user, asked):
    """Without --user, dead letters of every user are meant."""
    assert cli("deadletters", "list", *user, "--json").json == []
    assert recorder.calls == [("dead_letters", (), {"user_id": asked})]
