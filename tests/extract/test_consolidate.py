from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.config import ExtractSettings
from neuralstream.extract.consolidate import consolidate
from neuralstream.types import Gem, Source

START = datetime(2026, 3, 1, tzinfo=UTC)
SETTINGS = ExtractSettings()


def gem(content, turn, *, user="mel", day=0):
    """A gem of one turn."""
    return Gem(
        gem_id=Gem.make_id(user, "s1", [turn], content),
        content=content,
        source=Source("s1", "2026-03-01", "0-0"),
        source_turns=(turn,),
        created_at=START + timedelta(days=day),
        user_id=user,
    )


def among(*stored, cosine=0.99):
    """A store in which every gem is equally near."""
    return lambda _: [(old, cosine) for old in stored]


def test_equal_words_share_evidence():
    """The same statement again adds its turn to the old gem, which is rewritten; the new one is not stored."""
    old, new = gem("User: Redis uses port 6381.", "t1"), gem("User: redis uses  port 6381", "t9", day=1)
    outcome = consolidate([new], among(old, cosine=0.5), SETTINGS)
    assert outcome.store == (replace(old, evidence=("t1", "t9")),)
    assert outcome.merged == {new.gem_id: old.gem_id}


def test_near_words_share_evidence():
    """Other words for the same merge when they are near enough."""
    old, new = gem("User: Redis uses port 6381.", "t1"), gem("User: Redis is using port 6381.", "t9", day=1)
    assert consolidate([new], among(old), SETTINGS).merged == {new.gem_id: old.gem_id}
    assert consolidate([new], among(old, cosine=0.96), SETTINGS).store == (new,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Redis uses port 6379", "Redis uses port 6381"),
        ("The price is 17.40", "The price is 1.740"),
        ("We deploy on Fridays", "We never deploy on Fridays"),
        ("She does eat meat", "She doesn't eat meat"),
        ("Logging is enabled", "Logging is disabled"),
        ("ask Marta about it", "ask Martin about it"),
        ("see BH-114 for that", "see BH-141 for that"),
        ("Caroline: I like tea", "Melanie: I like tea"),
    ],
)
def test_differing_particulars_stay_two(one, other):
    """Another number, name or negation is another fact, however near the vectors are."""
    new = gem(other, "t9", day=1)
    assert consolidate([new], among(gem(one, "t1"), cosine=1.0), SETTINGS).store == (new,)


def test_other_users_gems_are_never_touched():
    """A gem of another user takes no evidence."""
    new = gem("Redis uses port 6381", "t9")
    assert consolidate([new], among(gem("Redis uses port 6381", "t1", user="owen")), SETTINGS).store == (new,)


def test_a_fact_that_returns_is_news():
    """After something else was said in between, the old statement said again is stored anew."""
    first, second = gem("Redis uses port 6379", "t1"), gem("Redis uses port 6381", "t2", day=1)
    back = gem("Redis uses port 6379", "t3", day=2)
    assert consolidate([back], among(first, second), SETTINGS).store == (back,)


def test_doing_a_batch_again_changes_nothing():
    """A gem that is stored already is left as it is, and evidence is not added twice."""
    old, new, again = gem("It rains", "t1"), gem("It rains", "t2", day=1), gem("It is warm", "t3", day=1)
    first = consolidate([new, again], among(old, cosine=0.5), SETTINGS)
    stored = {item.gem_id: item for item in (old, *first.store)}.values()
    assert consolidate([new, again], among(*stored, cosine=0.5), SETTINGS).store == ()


def test_one_batch_merges_within_itself():
    """Two equal gems of one batch are one, with both turns as evidence."""
    one, two = gem("It rains", "t1"), gem("it rains.", "t2")
    outcome = consolidate([one, two], among(), SETTINGS)
    assert outcome.store == (replace(one, evidence=("t1", "t2")),)
    assert outcome.merged == {two.gem_id: one.gem_id}


@given(st.lists(st.sampled_from(["It rains", "it rains!", "Port 1", "Port 2", "Not today"]), max_size=8))
def test_no_turn_is_lost(contents):
    """Every new gem is stored or merged into a stored one that has its turn."""
    new = [gem(content, f"t{place}") for place, content in enumerate(contents)]
    outcome = consolidate(new, among(), SETTINGS)
    assert {turn for item in outcome.store for turn in item.evidence} == {item.source_turns[0] for item in new}
    assert {item.gem_id for item in outcome.store} == {item.gem_id for item in new} - set(outcome.merged)
