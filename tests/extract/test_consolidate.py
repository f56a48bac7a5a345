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
    assert outcome.store == (replace(old, evidence=("t1", "t9"), merged=(new.gem_id,)),)
    assert outcome.merged == {new.gem_id: old.gem_id}


def test_near_words_share_evidence():
    """Other words for the same merge when they are near enough."""
    old, new = gem("User: Redis uses port 6381.", "t1"), gem("The user: Redis is using port 6381", "t9", day=1)
    assert consolidate([new], among(old), SETTINGS).merged == {new.gem_id: old.gem_id}
    assert consolidate([new], among(old, cosine=0.89), SETTINGS).store == (new,)


def test_the_fuller_wording_stays():
    """The one that says more is kept with all evidence; the other is on record as part of it."""
    short, full = gem("Redis uses port 6381", "t1"), gem("The staging redis uses port 6381", "t9", day=1)
    outcome = consolidate([full], among(short), SETTINGS)
    assert {one.gem_id: one for one in outcome.store} == {
        short.gem_id: replace(short, status="superseded", valid_until=full.created_at),
        full.gem_id: replace(full, evidence=("t1", "t9"), merged=(short.gem_id,)),
    }
    assert outcome.merged == {short.gem_id: full.gem_id}
    again = consolidate([replace(short, source_turns=("t8",), evidence=("t8",))], among(full), SETTINGS)
    assert again.store == (replace(full, evidence=("t9", "t8"), merged=(short.gem_id,)),)


def test_a_word_that_only_one_has_is_news():
    """Near statements of which each has a word of its own stay two: either might be lost."""
    new = gem("Logging of the module beta is verbose", "t9", day=1)
    old = gem("Logging of the module alpha is verbose", "t1")
    assert consolidate([new], among(old), SETTINGS).store == (new,)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Redis uses port 6379", "Qdrant uses port 6333"),
        ("The staging redis uses port 6379", "The production redis uses port 6381"),
        ("The primary database is on kestrel", "The secondary database is on kestrel"),
        ("We paid invoice 17", "We paid invoice 18"),
        ("Question 3 has 5 answers", "Question 4 has 5 answers"),
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


def settled(*batches, cosine=0.99):
    """What is stored after batches, one after another, by content and turn."""
    stored = {}
    for batch in batches:
        outcome = consolidate(batch, among(*stored.values(), cosine=cosine), SETTINGS, cosine=lambda *_: cosine)
        stored |= {one.gem_id: one for one in outcome.store}
    return stored


def test_a_newer_statement_replaces_the_older():
    """The old one holds until the new one began to, and the new one says what it replaced."""
    old, new = gem("Redis uses port 6379", "t1"), gem("Redis uses port 6381", "t2", day=1)
    outcome = consolidate([new], among(old), SETTINGS)
    assert {one.gem_id: one for one in outcome.store} == {
        old.gem_id: replace(old, status="superseded", valid_until=new.created_at),
        new.gem_id: replace(new, supersedes=(old.gem_id,)),
    }
    assert outcome.superseded == {old.gem_id: new.gem_id}


def test_a_batch_that_corrects_itself_keeps_the_last_word():
    """Of two statements of one batch the later one replaces the earlier."""
    old, new = gem("Redis uses port 6379", "t1"), gem("Redis uses port 6381", "t2")
    stored = settled([old, new])
    assert [one.gem_id for one in stored.values() if one.status == "active"] == [new.gem_id]


def test_a_late_statement_never_replaces_a_newer_one():
    """Distilled in any order, three versions end as one chain with the same windows."""
    one, two, three = (gem(f"Redis uses port {6379 + day}", f"t{day}", day=day) for day in range(3))
    in_order = settled([one], [two], [three])
    for order in ([three, one, two], [two, three, one], [three, two, one], [one, three, two]):
        late = settled(*([each] for each in order))
        assert {key: (each.status, each.valid_until) for key, each in late.items()} == {
            key: (each.status, each.valid_until) for key, each in in_order.items()
        }
        assert late[two.gem_id].gem_id in late[three.gem_id].supersedes
    assert [each.valid_until for each in in_order.values()] == [two.created_at, three.created_at, None]


def test_a_fact_that_returns_is_news():
    """After something else was said in between, the old statement said again is stored anew and replaces that."""
    first, second = gem("Redis uses port 6379", "t1"), gem("Redis uses port 6381", "t2", day=1)
    back = gem("Redis uses port 6379", "t3", day=2)
    stored = settled([first], [second], [back])
    assert [one.gem_id for one in stored.values() if one.status == "active"] == [back.gem_id]
    assert stored[back.gem_id].supersedes == (second.gem_id,)
    assert stored[first.gem_id].valid_until == second.created_at


def test_what_is_not_replaced_but_lies_in_between_makes_it_news():
    """After "ask Marta" and "ask Martin", "ask Marta" again is not evidence of the first."""
    first, second, back = (gem(f"ask {who} about it", f"t{day}", day=day) for day, who in enumerate(["Ma", "Mo", "Ma"]))
    assert consolidate([back], among(first, second), SETTINGS).store == (back,)


def test_doing_a_batch_again_changes_nothing():
    """A gem that is stored already is left as it is, and evidence is not added twice."""
    old, new, again = gem("It rains", "t1"), gem("It rains", "t2", day=1), gem("It is warm", "t3", day=1)
    first = consolidate([new, again], among(old, cosine=0.5), SETTINGS)
    stored = {item.gem_id: item for item in (old, *first.store)}.values()
    assert consolidate([new, again], among(*stored, cosine=0.5), SETTINGS).store == ()


def test_replacing_again_changes_nothing():
    """A batch that replaced, merged and took over does nothing when it is done again, and makes up for a crash."""
    old = [gem("Redis uses port 6379", "t1"), gem("It rains", "t2"), gem("Anna likes tea", "t3")]
    new = [
        gem("Redis uses port 6381", "t4", day=1),
        gem("it rains!", "t5", day=1),
        gem("Anna likes green tea", "t6", day=1),
    ]
    stored = settled(old, new)
    assert consolidate(new, among(*stored.values()), SETTINGS).store == ()
    crashed = {**stored, old[0].gem_id: old[0]}
    assert consolidate(new, among(*crashed.values()), SETTINGS).store == (stored[old[0].gem_id],)


def test_a_judge_decides_what_rules_cannot():
    """It is asked about near pairs only, the newer first, and what it does not answer stays two."""
    old, far = gem("Anna's hobby is painting", "t1"), gem("The lease lasts 75 seconds", "t2")
    new = gem("Anna took up running as her hobby", "t3", day=1)
    asked = []

    def judge(verdict):
        return lambda pairs: asked.extend(pairs) or {(new.gem_id, old.gem_id): verdict}

    def found(_):
        return [(old, 0.7), (far, 0.1)]

    assert consolidate([new], found, SETTINGS, judge=judge("different")).store == (new,)
    assert asked == [(new, old)]
    assert consolidate([new], found, SETTINGS, judge=judge("updates")).superseded == {old.gem_id: new.gem_id}
    assert consolidate([new], found, SETTINGS, judge=judge("same")).merged == {old.gem_id: new.gem_id}
    assert consolidate([new], found, SETTINGS, judge=lambda _: {}).store == (new,)


def test_one_batch_merges_within_itself():
    """Two equal gems of one batch are one, with both turns as evidence."""
    one, two = gem("It rains", "t1"), gem("it rains.", "t2")
    outcome = consolidate([one, two], among(), SETTINGS)
    assert outcome.store == (replace(one, evidence=("t1", "t2"), merged=(two.gem_id,)),)
    assert outcome.merged == {two.gem_id: one.gem_id}


@given(st.lists(st.sampled_from(["It rains", "it rains!", "Port 1", "Port 2", "Not today"]), max_size=8))
def test_no_turn_is_lost(contents):
    """Every new gem is stored or merged into a stored one that has its turn."""
    new = [gem(content, f"t{place}") for place, content in enumerate(contents)]
    outcome = consolidate(new, among(), SETTINGS)
    assert {turn for item in outcome.store for turn in item.evidence} == {item.source_turns[0] for item in new}
    assert {item.gem_id for item in outcome.store} == {item.gem_id for item in new} - set(outcome.merged)
