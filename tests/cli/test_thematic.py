"""The command that scores themes, and the option that has them told."""

from datetime import UTC, datetime

from neuralstream.errors import MissingPartError
from neuralstream.types import Summary, Theme, Turn
from neuralstream.workbench import thematic
from neuralstream.workbench.stats import compare
from neuralstream.workbench.thematic import Against, Match, Scored, ThematicRun


def made(dataset, settings, progress):
    """A run as the workbench returns it."""
    assert dataset == "workdays@dev"
    assert settings.batch_size == 7
    progress("capture", 1, 1)
    ways = [Scored(name, 2.0, (Match(0.5, 0.25, 0.4),) * 2, 0.75, 1.0) for name in ("themes", "k-means")]
    found = compare([0.5, 0.5], [0.4, 0.5], ["ada", "bo"])
    return ThematicRun(
        ("workdays@dev", "abc"),
        "fake",
        (("ada", "q1"), ("bo", "q2")),
        tuple(ways),
        (Against("purity", "k-means", found, 0.5, "too few to tell"),),
    )


def test_themes_are_scored_and_a_page_is_written(cli, tmp_path, monkeypatch):
    """A table by default, one JSON document on demand, and a Markdown page where a file is named."""
    monkeypatch.setattr(thematic, "evaluate_themes", made)
    call = ("eval-themes", "--dataset", "workdays@dev", "--set", "batch_size=7")
    shown = cli(*call, "--out", tmp_path / "themes.md")
    assert shown.code == 0
    assert [(row["groups by"], row["purity"], row["coverage"]) for row in shown.rows] == [
        ("themes", "0.5000", "0.2500"),
        ("k-means", "0.5000", "0.2500"),
    ]
    page = (tmp_path / "themes.md").read_text()
    assert "too few to tell" in page
    assert "eval-themes --dataset workdays@dev" in page
    document = cli(*call, "--json").json
    assert document["ways"]["themes"]["questions"]["q1"] == {"purity": 0.5, "coverage": 0.25, "f1": 0.4}
    assert document["against"][0]["verdict"] == "too few to tell"


MAY = datetime(2026, 5, 8, tzinfo=UTC)
TURN = Turn.utterance("Ana", "Redis moved to 6381.", session_id="s", turn_id="t1", index=0, created_at=MAY)
TOLD = Theme("redis", ("redis",), 1, MAY, MAY, (TURN,), ("t1",), summary="Redis moved [t1].")


def test_themes_are_told_on_demand(cli, recorder):
    """The summary stands above the themes, each with its line; JSON holds both."""
    recorder.answers["summary"] = Summary("It was about redis [t1].", (TOLD,))
    shown = cli("themes", "--summary", "--since", "2026-05-08", "-n", "3")
    text, empty, *lines = shown.out.splitlines()
    assert (text, empty) == ("It was about redis [t1].", "")
    assert lines[0].split("\t") == ["turns", "first", "last", "theme", "summary"]
    assert lines[1].endswith("\tRedis moved [t1].")
    document = cli("themes", "--summary", "--json").json
    assert (document["summary"], document["themes"][0]["summary"]) == ("It was about redis [t1].", "Redis moved [t1].")
    assert recorder.calls[0] == ("summary", (), {"since": MAY, "until": None, "limit": 3})
    assert {name for name, _, _ in recorder.calls} == {"summary"}


def test_no_model_is_asked_unless_wanted(cli, recorder):
    """A plain listing costs nothing."""
    recorder.answers["themes"] = [TOLD]
    assert cli("themes").rows[0]["theme"] == "redis"
    assert [name for name, _, _ in recorder.calls] == ["themes"]


def test_a_missing_model_ends_with_what_to_set(cli, recorder):
    """Exit code 3: a part is missing."""
    recorder.answers["summary"] = MissingPartError("no language model is configured: set ollama_url")
    ran = cli("themes", "--summary")
    assert (ran.code, ran.out) == (3, "")
    assert "set ollama_url" in ran.err
