from datetime import UTC, datetime

import pytest

from neuralstream.types import ContextBlock

MAY = datetime(2026, 5, 8, tzinfo=UTC)


def test_search_finds_what_was_said(memory):
    """A search prints a line of names and a line per hit, best first."""
    found = memory("search", "which port does redis use?", "--lane", "turns", "-k", "3")
    assert found.code == 0
    assert 1 <= len(found.rows) <= 3
    assert "6381" in found.rows[0]["text"]
    assert (found.rows[0]["session"], found.rows[0]["time"]) == ("s1", "2026-02-23 10:00")
    scores = [float(row["score"]) for row in found.rows]
    assert scores == sorted(scores, reverse=True)


def test_search_explains_itself(memory):
    """--explain adds a column per signal that any hit has; JSON has them as numbers."""
    explained = memory("search", "redis port", "--mode", "hybrid", "--explain")
    assert {"bm25", "dense"} <= explained.rows[0].keys()
    hits = memory("search", "redis port", "--mode", "hybrid", "--explain", "--json").json
    assert explained.rows[0]["bm25"] == f"{hits[0]['signals']['bm25']:.4f}"
    signals = {name for hit in hits for name in hit["signals"]}
    assert explained.rows[0].keys() == {"score", "kind", "time", "session", "id", "text"} | signals


def test_search_passes_every_option_on(cli, recorder):
    """Each option reaches the search; what is not given is left to the settings."""
    cli(
        "search", "redis", "--mode", "bm25", "-k", "7", "--lane", "gems", "--since", "2026-05-08",
        "--until", "2026-05-08T00:00:00Z", "--session", "s1", "--tag", "fact", "--tag", "code",
        "--as-of", "2026-05-08T02:00+02:00", "--explain",
    )  # fmt: skip
    cli("search", "redis")
    given, plain = [options for _, _, options in recorder.calls]
    assert given == {
        "mode": "bm25", "k": 7, "lane": "gems", "since": MAY, "until": MAY, "session_id": "s1",
        "tags": ("fact", "code"), "as_of": MAY, "explain": True,
    }  # fmt: skip
    assert {value for value in plain.values() if value} == set()


@pytest.mark.parametrize("arguments", [("--user", "eve", "search", "redis"), ("search", "redis", "--user", "eve")])
def test_user_stands_before_or_after_the_command(cli, recorder, arguments):
    """--user names the user on either side of the command."""
    cli(*arguments)
    assert recorder.user == "eve"


def test_memory_is_a_user_s_own(memory):
    """One user never sees another's memory."""
    assert memory("search", "redis", "--user", "eve", "--json").json == []


def test_recent_shows_the_newest_first(memory):
    """The newest turns come first, as many as asked for."""
    assert [row["time"] for row in memory("recent", "-n", "2").rows] == ["2026-02-23 10:06", "2026-02-23 10:05"]
    early = memory("recent", "--until", "2026-02-23T10:01:30Z", "--session", "s1", "--json").json
    assert [hit["turn"]["index"] for hit in early] == [1, 0]


def test_recent_passes_every_option_on(cli, recorder):
    """Kind, times and session reach the call."""
    cli("recent", "--kind", "gem", "--since", "2026-05-08", "--until", "2026-05-08", "--session", "s1")
    assert recorder.calls == [
        ("recent", (20,), {"since": MAY, "until": MAY, "session_id": "s1", "kind": "gem"})
    ]  # fmt: skip


def test_thread_shows_a_session_in_order(memory):
    """A session is shown from its first turn, a line per speaker."""
    thread = memory("thread", "s1")
    assert [row["speaker"] for row in thread.rows[:2]] == ["user", "assistant"]
    assert thread.rows[0]["text"] == "Move redis to port 6381"
    assert [turn["index"] for turn in memory("thread", "s1", "--json").json] == list(range(7))


def test_themes_are_shown_with_an_example(memory):
    """Themes have a size, a span, a name and an example."""
    themes = memory("themes", "-n", "3")
    assert themes.code == 0
    assert themes.out.splitlines()[0].split("\t") == ["turns", "first", "last", "theme", "example"]
    assert isinstance(memory("themes", "--since", "2030-01-01", "--json").json, list)


def test_context_prints_the_block(memory):
    """The block is printed as it would be injected, within the budget."""
    block = memory("context", "which port does redis use?", "--budget", "200")
    assert "6381" in block.out
    assert block.out.startswith("<neuralstream-memory")
    document = memory("context", "which port does redis use?", "--budget", "200", "--json").json
    assert document["text"] == block.out.rstrip("\n")
    assert 0 < document["tokens"] <= 200


def test_an_empty_context_prints_nothing(cli, recorder):
    """An empty block leaves stdout empty and says so on stderr."""
    recorder.answers["context"] = ContextBlock("", 0, ())
    block = cli("context", "redis", "--budget", "1", "--session", "s1")
    assert (block.code, block.out) == (0, "")
    assert "nothing" in block.err
    assert recorder.calls == [("context", ("redis",), {"session_id": "s1", "budget_tokens": 1})]


def test_remember_makes_a_gem(cli):
    """A remembered statement is a gem that can be shown and found."""
    gem_id = cli("remember", "The API key rotates monthly", "--tag", "todo", "--topic", "keys").out.strip()
    shown = {row["field"]: row["value"] for row in cli("gems", "show", gem_id).rows}
    assert (shown["content"], shown["tags"], shown["topics"]) == ("The API key rotates monthly", "todo", "keys")
    assert cli("search", "API key", "--json").json[0]["id"] == gem_id


def test_gems_are_listed(memory):
    """Replaying distilled gems; the list has a line per gem."""
    gems = memory("gems", "list", "--json").json
    assert gems
    assert [row["id"] for row in memory("gems", "list").rows] == [gem["gem_id"] for gem in gems]


def test_gems_list_passes_every_option_on(cli, recorder):
    """Session, tag, status and number reach the call; any status is no status."""
    cli("gems", "list", "--session", "s1", "--tag", "todo", "--status", "any", "-n", "3")
    assert recorder.calls == [("gems", (), {"session_id": "s1", "tags": ("todo",), "status": None, "limit": 3})]


def test_unknown_gem_is_an_error(memory):
    """A gem that does not exist is a one-line error with exit code 2."""
    shown = memory("gems", "show", "0b0e3c1e-0000-5000-8000-000000000000")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "redis"), "nothing was found"),
        (("recent", "--limit", "3"), "memory holds no such turn; `neuralstream watch`"),
        (("thread", "s9"), "there is no session 's9'"),
    ],
)
def test_where_nothing_is_there_it_says_so(cli, recorder, arguments, told):
    """Beside the table, not in it; --json is an empty list and silent."""
    assert recorder.answers == {}
    ran = cli(*arguments)
    assert (ran.code, ran.rows) == (0, [])
    assert told in ran.err
    silent = cli(*arguments, "--json")
    assert (silent.json, silent.err) == ([], "")
