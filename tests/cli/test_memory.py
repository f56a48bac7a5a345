import json

import pytest

from neuralstream.errors import ExtractionError
from neuralstream.forgetting import Forgotten
from neuralstream.stream import NeuralStream
from neuralstream.testing import ScriptedExtractor


def test_search_finds_what_was_said(memory):
    """A search prints a line of names and a line per hit, best first."""
    found = memory("search", "which port does redis use?", "--lane", "turns", "-k", "3")
    assert found.code == 0
    assert 1 <= len(found.rows) <= 3
    assert "6381" in found.rows[0]["text"]
    assert found.rows[0]["session"] == "s1"
    assert found.rows[0]["time"] == "2026-02-23 10:00"
    scores = [float(row["score"]) for row in found.rows]
    assert scores == sorted(scores, reverse=True)


def test_search_explains_itself(memory):
    """--explain adds a column per signal, and JSON always has them."""
    plain = memory("search", "redis port", "--mode", "hybrid")
    explained = memory("search", "redis port", "--mode", "hybrid", "--explain")
    signals = explained.rows[0].keys() - plain.rows[0].keys()
    assert {"bm25", "dense"} <= signals
    assert set(memory("search", "redis port", "--explain", "--json").json[0]["signals"]) == signals


def test_search_filters(memory):
    """Filters reach the search: time, session, tag, as of."""
    assert memory("search", "redis", "--until", "2026-02-22", "--json").json == []
    assert memory("search", "redis", "--since", "2026-02-24", "--json").json == []
    assert memory("search", "redis", "--session", "other", "--json").json == []
    assert memory("search", "redis", "--as-of", "2026-02-22T00:00:00Z", "--json").json == []
    assert memory("search", "redis", "--session", "s1", "--as-of", "2026-02-24", "--json").json
    tagged = memory("search", "deploy on Fridays", "--lane", "gems", "--tag", "decision", "--json").json
    assert all("decision" in hit["gem"]["tags"] for hit in tagged)


@pytest.mark.parametrize("where", ["before", "after"])
def test_memory_is_a_user_s_own(memory, where):
    """--user stands before or after the command, and one user never sees another's memory."""
    arguments = ("--user", "eve", "search", "redis") if where == "before" else ("search", "redis", "--user", "eve")
    assert memory(*arguments, "--json").json == []


def test_recent_shows_the_newest_first(memory):
    """The newest turns come first, as many as asked for, and filters apply."""
    newest = memory("recent", "-n", "2")
    assert [row["time"] for row in newest.rows] == ["2026-02-23 10:06", "2026-02-23 10:05"]
    early = memory("recent", "--until", "2026-02-23T10:01:30Z", "--json").json
    assert [hit["turn"]["index"] for hit in early] == [1, 0]
    assert {hit["kind"] for hit in memory("recent", "--kind", "gem", "--json").json} == {"gem"}


def test_thread_shows_a_session_in_order(memory):
    """A session is shown from its first turn, a line per speaker."""
    thread = memory("thread", "s1")
    assert [row["speaker"] for row in thread.rows[:2]] == ["user", "assistant"]
    assert thread.rows[0]["text"] == "Move redis to port 6381"
    assert [turn["index"] for turn in memory("thread", "s1", "--json").json] == list(range(7))
    assert memory("thread", "unknown", "--json").json == []


def test_themes_are_shown_with_an_example(memory):
    """Themes have a size, a span and an example."""
    themes = memory("themes", "-n", "3")
    assert themes.code == 0
    assert themes.out.splitlines()[0].split("\t") == ["turns", "first", "last", "theme", "example"]
    assert len(memory("themes", "--json").json) >= len(themes.rows)


def test_context_prints_the_block(memory):
    """The block is printed as it would be injected, within the budget."""
    block = memory("context", "which port does redis use?", "--budget", "200")
    assert "6381" in block.out
    assert block.out.startswith("<neuralstream-memory")
    document = memory("context", "which port does redis use?", "--budget", "200", "--json").json
    assert document["text"] == block.out.rstrip("\n")
    assert 0 < document["tokens"] <= 200


def test_context_without_room_prints_nothing(memory):
    """An empty block leaves stdout empty and says so on stderr."""
    block = memory("context", "redis", "--budget", "1")
    assert (block.code, block.out) == (0, "")
    assert "nothing" in block.err


def test_remember_makes_a_gem(cli):
    """A remembered statement is a gem that can be listed, shown and found."""
    gem_id = cli("remember", "The API key rotates monthly", "--tag", "todo", "--topic", "keys").out.strip()
    shown = cli("gems", "show", gem_id)
    assert {row["field"]: row["value"] for row in shown.rows}["content"] == "The API key rotates monthly"
    assert [gem["gem_id"] for gem in cli("gems", "list", "--tag", "todo", "--json").json] == [gem_id]
    assert cli("gems", "list", "--tag", "code", "--json").json == []
    assert cli("gems", "list", "--status", "superseded", "--json").json == []
    assert cli("search", "API key", "--json").json[0]["id"] == gem_id


def test_gems_are_listed(memory):
    """Replaying distilled gems; the list has one line per gem."""
    gems = memory("gems", "list", "--json").json
    assert gems
    assert [row["id"] for row in memory("gems", "list").rows] == [gem["gem_id"] for gem in gems]
    assert len(memory("gems", "list", "-n", "1").rows) == 1


def test_unknown_gem_is_an_error(memory):
    """A gem that does not exist is a one-line error with exit code 2."""
    shown = memory("gems", "show", "0b0e3c1e-0000-5000-8000-000000000000")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("error: ")


def test_forget_proves_it(memory):
    """A forgotten session is gone, what was asked again is printed, and the exit code is 0."""
    done = memory("forget", "--session", "s1")
    assert done.code == 0
    printed = {row["field"]: row["value"] for row in done.rows}
    assert printed["turns"] == "7"
    proofs = {value for field, value in printed.items() if field.startswith("asked again")}
    assert proofs == {"nothing found"}
    assert memory("search", "redis", "--json").json == []
    assert memory("thread", "s1", "--json").json == []


def test_forget_a_user(memory, log):
    """--user alone forgets everything of that user and of nobody else."""
    memory("replay", log, "--user", "eve")
    done = memory("forget", "--user", "eve", "--json")
    assert (done.code, done.json["proved"], done.json["turns"]) == (0, True, 7)
    assert memory("search", "redis", "--user", "eve", "--json").json == []
    assert memory("search", "redis", "--json").json


def test_forget_before_a_time(memory):
    """--before forgets what is older and keeps the rest."""
    assert memory("forget", "--before", "2026-02-23T10:03:00Z", "--json").json["turns"] == 3
    assert [turn["index"] for turn in memory("thread", "s1", "--json").json] == [3, 4, 5, 6]


def test_forget_a_gem(memory):
    """--gem forgets that gem."""
    gem_id = memory("gems", "list", "--json").json[0]["gem_id"]
    assert memory("forget", "--gem", gem_id).code == 0
    assert memory("gems", "show", gem_id).code == 2


@pytest.mark.parametrize("arguments", [(), ("--session", "s1", "--gem", "g1")])
def test_forget_needs_exactly_one(memory, arguments):
    """Naming nothing, or two things, is wrong use and forgets nothing."""
    assert memory("forget", *arguments).code == 2
    assert memory("thread", "s1", "--json").json


def test_forget_fails_where_something_is_left(memory, monkeypatch):
    """A failed proof is exit code 1."""
    left = Forgotten("session s1", checks={"buffer": False})
    monkeypatch.setattr(NeuralStream, "forget", lambda _self, **_what: left)
    done = memory("forget", "--session", "s1")
    assert done.code == 1
    assert "FOUND" in done.out


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 7), ("y\n", 0, 0)])
def test_forget_asks_on_a_terminal(memory, monkeypatch, answer, code, left):
    """On a terminal forgetting asks first, and a no forgets nothing."""
    import io

    stdin = io.StringIO(answer)
    stdin.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", stdin)
    done = memory("forget", "--session", "s1")
    assert done.code == code
    assert "Forget session s1?" in done.err
    assert len(memory("thread", "s1", "--json").json) == left


def test_forget_does_not_ask_with_yes(memory, monkeypatch):
    """--yes answers for the user."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert memory("forget", "--session", "s1", "--yes").code == 0


def test_export_and_restore(memory, tmp_path):
    """An exported memory is restored into another data folder, under another user where asked."""
    file = tmp_path / "memory.jsonl"
    exported = memory("export", file, "--json").json["exported"]
    assert exported > 7
    elsewhere = ("--home", tmp_path / "elsewhere")
    assert memory("restore", file, *elsewhere, "--json").json == {"restored": exported}
    assert memory("thread", "s1", *elsewhere, "--json").json == memory("thread", "s1", "--json").json
    memory("restore", file, *elsewhere, "--user", "eve")
    assert len(memory("thread", "s1", *elsewhere, "--user", "eve", "--json").json) == 7


def test_restore_refuses_another_file(cli, log):
    """A file that is no export is refused by name."""
    done = cli("restore", log)
    assert done.code == 2
    assert "session.jsonl" in done.err


def test_reindex_keeps_everything(memory):
    """Reindexing reports how many records it wrote, and searches still find them."""
    before = memory("search", "redis port", "--json").json
    assert memory("reindex", "--json").json["reindexed"] > 7
    assert [hit["id"] for hit in memory("search", "redis port", "--json").json] == [hit["id"] for hit in before]


def test_dead_letters(cli, log, monkeypatch):
    """What could not be distilled is listed with its reason, and distilled by a retry once it can be."""

    def broken(_batch):
        raise ExtractionError("the model answered with a poem")

    monkeypatch.setattr("neuralstream.extract.make_extractor", lambda _settings: ScriptedExtractor(broken))
    assert cli("replay", log).code == 0
    letters = cli("deadletters", "list")
    assert letters.rows[0]["session"] == "s1"
    assert "poem" in letters.rows[0]["reason"]
    assert cli("deadletters", "list", "--user", "eve", "--json").json == []
    failed = cli("deadletters", "retry", "--json").json
    assert failed["failed_again"] == failed["retried"] == len(letters.rows)
    monkeypatch.undo()


def test_every_json_is_one_document(memory):
    """With --json, stdout is one JSON document and nothing else."""
    commands = [
        ("search", "redis"),
        ("recent",),
        ("thread", "s1"),
        ("themes",),
        ("context", "redis"),
        ("remember", "Water the plants"),
        ("gems", "list"),
        ("deadletters", "list"),
        ("deadletters", "retry"),
        ("doctor",),
        ("config", "show"),
        ("datasets", "list"),
    ]
    for command in commands:
        ran = memory(*command, "--json")
        assert ran.code == 0, command
        json.loads(ran.out)
