from datetime import UTC, datetime

import pytest

from neuralstream.cli import gems
from neuralstream.history import Version
from neuralstream.types import Gem, Source, Turn

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
TURN = Turn.exchange("Move it to 6381", "Done.", session_id="s1", turn_id="t1", index=0, created_at=MARCH)


def gem(name, **fields):
    """A gem of the session s1."""
    return Gem(
        name, f"content of {name}", Source("s1", "2026-03-01", "0-0"), ("t1",), MARCH, valid_from=MARCH, **fields
    )


VERSIONS = [
    Version(gem("old", status="superseded", valid_until=MARCH), ("new",), (TURN,)),
    Version(gem("new", supersedes=("old",), merged=("also",)), (), ()),
]


def test_history_shows_versions_and_who_said_them(capsys):
    """A line per version, with what it replaced and what replaced it, and a line per turn that says it."""
    gems._show_history(VERSIONS, as_json=False)
    rows = capsys.readouterr().out
    assert "superseded; replaced by new" in rows
    assert "active; supersedes old; merged also" in rows
    assert "Move it to 6381" in rows


@pytest.mark.parametrize("option", [(), ("--history",)])
def test_a_gem_is_shown_with_and_without_its_history(cli, option):
    """JSON has the gem, or every version with its turns."""
    gem_id = cli("remember", "Redis listens on port 6379").out.strip()
    corrected = cli("gems", "correct", gem_id, "Redis listens on port 6381").out.strip()
    shown = cli("gems", "show", corrected, "--json", *option).json
    if not option:
        assert (shown["content"], shown["supersedes"]) == ("Redis listens on port 6381", [gem_id])
        return
    assert [(version["gem"]["gem_id"], version["replaced_by"]) for version in shown] == [
        (gem_id, [corrected]),
        (corrected, []),
    ]
    assert shown[0]["evidence"][0]["parts"][0]["text"] == "Redis listens on port 6379"
