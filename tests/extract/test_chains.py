from dataclasses import replace
from datetime import UTC, datetime, timedelta

from neuralstream.extract.chains import versions, without
from neuralstream.types import Gem, Source

START = datetime(2026, 3, 1, tzinfo=UTC)


def gem(content, day):
    """A gem of a day."""
    return Gem(
        gem_id=Gem.make_id("mel", "s1", ["t"], content),
        content=content,
        source=Source("s1", "2026-03-01", "0-0"),
        source_turns=("t",),
        created_at=START + timedelta(days=day),
        user_id="mel",
    )


def replaced(old, by):
    """Two gems, the first replaced by the second."""
    return (
        replace(old, status="superseded", valid_until=by.created_at),
        replace(by, supersedes=(*by.supersedes, old.gem_id)),
    )


ONE, TWO, THREE, APART = gem("port 1", 0), gem("port 2", 1), gem("port 3", 2), gem("it rains", 1)
ONE, TWO = replaced(ONE, TWO)
TWO, THREE = replaced(TWO, THREE)


def test_versions_are_all_that_are_tied():
    """From any of them the whole chain is found, oldest first, and nothing else."""
    for one in (ONE, TWO, THREE):
        assert versions(one, [THREE, APART, ONE, TWO]) == [ONE, TWO, THREE]
    assert versions(APART, [ONE, APART]) == [APART]


def test_what_the_last_version_replaced_holds_again():
    """Forgetting a gem is as if it had never been said."""
    assert without([ONE, TWO, APART], [THREE]) == [replace(TWO, status="active", valid_until=None)]


def test_what_a_middle_version_replaced_passes_to_the_next():
    """Forgetting what lies in between joins the rest of the chain."""
    changed = {one.gem_id: one for one in without([ONE, THREE, APART], [TWO])}
    assert changed == {
        ONE.gem_id: replace(ONE, valid_until=THREE.created_at),
        THREE.gem_id: replace(THREE, supersedes=(ONE.gem_id,)),
    }


def test_a_forgotten_first_version_is_mentioned_nowhere():
    """Nothing else changes."""
    assert without([TWO, THREE, APART], [ONE]) == [replace(TWO, supersedes=())]


def test_what_merged_into_a_forgotten_gem_stands_by_itself():
    """A wording that another had taken over is active again when that one goes and it does not."""
    short, full = gem("redis is on 1", 0), gem("the staging redis is on 1", 1)
    merged = replace(short, status="superseded", valid_until=full.created_at)
    assert without([merged], [replace(full, merged=(short.gem_id,))]) == [short]
    gone = replace(APART, merged=("never stored",))
    assert without([ONE], [gone]) == []
