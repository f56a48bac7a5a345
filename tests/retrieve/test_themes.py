"""Themes."""

from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.config import RetrievalSettings
from neuralstream.indexing import Indexer, fingerprint
from neuralstream.retrieve.themes import find_themes
from neuralstream.store.edge import EdgeStore
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Gem, Source, Turn

START = datetime(2026, 5, 1, 9, tzinfo=UTC)
SUBJECTS = {
    "boiler": ["boiler", "cellar", "plumber", "heating", "radiator", "valve"],
    "sailing": ["sailing", "harbour", "mast", "regatta", "anchor", "rudder"],
    "violin": ["violin", "orchestra", "rehearsal", "sonata", "concert", "strings"],
}


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    store = EdgeStore(tmp_path / "store", fingerprint(FakeEmbedder(256)))
    yield store
    store.close()


def fill(store, turns):
    """Index turns."""
    Indexer(store, FakeEmbedder(256), RetrievalSettings()).index_turns(turns)


def say(number, text, user_id="u"):
    """A turn said `number` days in."""
    return Turn.utterance(
        "Ana",
        text,
        session_id="s1",
        turn_id=f"t{number}",
        user_id=user_id,
        index=number,
        created_at=START + timedelta(days=number),
    )


def talk(sizes, user_id="u"):
    """So many turns of each subject, each of four of its six words, in turns."""
    texts = [
        " ".join(SUBJECTS[subject][(at + step) % 6] for step in range(4))
        for at in range(max(sizes.values()))
        for subject, size in sizes.items()
        if at < size
    ]
    return [say(number, text, user_id) for number, text in enumerate(texts)]


def gem(number, *turn_ids, status="active", content="The boiler in the cellar leaks"):
    """A gem distilled from some turns at the time of the first."""
    return Gem(
        gem_id=Gem.make_id("u", "s1", turn_ids, f"{content} {number}"),
        content=f"{content} {number}",
        source=Source("s1", "2026-05-01", "0-1"),
        source_turns=turn_ids,
        created_at=START + timedelta(days=int(turn_ids[0][1:])),
        user_id="u",
        status=status,
    )


def themes(store, **fields):
    """Find themes with defaults."""
    return find_themes(store, "u", **({"since": None, "until": None, "limit": 10} | fields))


def subject(turn):
    """What a turn of `talk` is about."""
    return next(name for name, words in SUBJECTS.items() if turn.text.split()[0] in words)


def test_turns_about_one_subject_make_a_theme(store):
    """No theme mixes subjects, most turns belong to one, and its name is of its own words."""
    turns = talk({"boiler": 12, "sailing": 9, "violin": 6})
    fill(store, turns)
    by_id = {turn.turn_id: turn for turn in turns}
    found = themes(store)
    for theme in found:
        (about,) = {subject(by_id[turn_id]) for turn_id in theme.turn_ids}
        assert set(theme.terms) <= set(SUBJECTS[about])
        assert theme.name == ", ".join(theme.terms[:3])
    assert sum(theme.size for theme in found) >= 20
    assert {subject(theme.exemplars[0]) for theme in found} == set(SUBJECTS)


def test_a_theme_says_its_size_span_and_turns(store):
    """Largest first; turns oldest first; no turn in two themes; exemplars are turns of it that differ."""
    fill(store, talk({"boiler": 12, "sailing": 9, "violin": 6}))
    found = themes(store)
    assert [theme.size for theme in found] == sorted((theme.size for theme in found), reverse=True)
    assert found[0].size > found[-1].size >= 2
    everything = [turn_id for theme in found for turn_id in theme.turn_ids]
    assert len(everything) == len(set(everything))
    for theme in found:
        assert theme.size == len(theme.turn_ids)
        days = [int(turn_id[1:]) for turn_id in theme.turn_ids]
        assert days == sorted(days)
        assert (theme.first_at, theme.last_at) == (START + timedelta(days[0]), START + timedelta(days[-1]))
        assert {turn.turn_id for turn in theme.exemplars} <= set(theme.turn_ids)
        texts = [" ".join(sorted(turn.text.split())) for turn in theme.exemplars]
        assert len(texts) == len(set(texts))


def test_the_limit_keeps_the_largest(store):
    """And a limit of none gives none."""
    fill(store, talk({"boiler": 12, "sailing": 9, "violin": 6}))
    found = themes(store)
    assert themes(store, limit=1) == found[:1]
    assert themes(store, limit=0) == []


def test_the_same_turns_give_the_same_themes(store, tmp_path):
    """Whatever the order in which they were stored."""
    turns = talk({"boiler": 8, "sailing": 8, "violin": 8})
    fill(store, turns)
    other = EdgeStore(tmp_path / "other", fingerprint(FakeEmbedder(256)))
    for turn in reversed(turns):
        fill(other, [turn])
    assert themes(other) == themes(store) == themes(store)
    other.close()


def test_only_turns_of_the_user_and_the_range_count(store):
    """Both ends of the range belong to it."""
    fill(store, talk({"boiler": 12, "sailing": 12}))
    fill(store, talk({"violin": 12}, user_id="u2"))
    since, until = START + timedelta(days=6), START + timedelta(days=11)
    found = themes(store, since=since, until=until)
    assert {turn_id for theme in found for turn_id in theme.turn_ids} <= {f"t{day}" for day in range(6, 12)}
    assert min(theme.first_at for theme in found) == since
    assert max(theme.last_at for theme in found) == until


def test_small_talk_makes_no_theme(store):
    """Greetings belong to none, however many there are."""
    greetings = ["Thanks, bye!", "Hello again, how are you?", "Great, thank you.", "ok", "Sounds good!"]
    turns = talk({"boiler": 9, "violin": 9})
    small = [say(100 + number, greetings[number % 5]) for number in range(40)]
    fill(store, turns + small)
    found = {turn_id for theme in themes(store) for turn_id in theme.turn_ids}
    assert found
    assert found <= {turn.turn_id for turn in turns}


def test_words_that_are_said_all_the_time_make_no_theme(store):
    """A chat's pleasantries may be long: what they are made of is in many turns."""
    pleasant = ["great", "photo", "amazing", "looks", "awesome", "cool"]
    turns = talk({"boiler": 9, "violin": 9})
    small = [say(100 + number, " ".join(pleasant[(number + step) % 6] for step in range(4))) for number in range(40)]
    fill(store, turns + small)
    found = {turn_id for theme in themes(store) for turn_id in theme.turn_ids}
    assert found
    assert found <= {turn.turn_id for turn in turns}


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_turns_are_fine(store, count):
    """None and one make no theme."""
    fill(store, talk({"boiler": 3})[:count])
    assert [theme.size for theme in themes(store)] == ([count] if count > 1 else [])


def test_equal_turns_and_turns_without_vectors_are_fine(store):
    """They have no direction to differ by, or none at all."""
    fill(store, [say(number, "the boiler in the cellar leaks") for number in range(9)] + [say(9, "   ")])
    found = themes(store)
    assert sum(theme.size for theme in found) == 9
    assert all(len(theme.exemplars) == 1 for theme in found)


def test_terms_are_written_as_people_wrote_them(store):
    """In the form used most often, compounds whole; no theme is named by a bare number."""
    fill(store, [say(number, f"The Kubernetes pods of ERR-1042 restarted 6381 {number}") for number in range(6)])
    terms = {term for theme in themes(store) for term in theme.terms}
    assert {"Kubernetes", "pods", "ERR-1042", "restarted"} <= terms
    assert not any(term.isdecimal() for term in terms)


def test_a_gem_belongs_to_the_theme_of_most_of_its_turns(store):
    """Every active gem is cited where its turns are; one whose turns have no theme, or a superseded one, nowhere."""
    fill(store, [*talk({"boiler": 9, "violin": 9}), say(90, "Thanks, bye!")])
    theme = max(themes(store), key=lambda one: one.first_at)
    inside, outside = theme.turn_ids[:2], next(one for one in themes(store) if one != theme).turn_ids[0]
    gems = [gem(1, inside[0], outside, inside[1]), gem(2, inside[0], status="superseded"), gem(3, "t90")]
    Indexer(store, FakeEmbedder(256), RetrievalSettings()).index_gems(gems)
    found = {one.gem_ids: one.gems for one in themes(store) if one.gem_ids}
    assert found == {(gems[0].gem_id,): (gems[0],)}
    assert [one.turn_ids for one in themes(store) if one.gem_ids] == [theme.turn_ids]


def test_the_most_telling_gems_differ(store):
    """Three at most, nearest to what the theme is about first, none that repeats another; all are counted."""
    fill(store, talk({"boiler": 9}))
    of = themes(store)[0].turn_ids
    words = ["boiler cellar plumber heating radiator valve", "boiler cellar plumber", "tea", "valve", "radiator"]
    gems = [gem(number, of[0], content=text) for number, text in enumerate([*words, words[0]])]
    Indexer(store, FakeEmbedder(256), RetrievalSettings()).index_gems(gems)
    theme = next(one for one in themes(store) if one.gem_ids)
    assert set(theme.gem_ids) == {one.gem_id for one in gems}
    assert len(theme.gems) == 3
    assert theme.gems[0].content.startswith(words[0])
    assert not any(one.content.startswith("tea") for one in theme.gems)


def test_a_turn_that_nothing_else_is_about_belongs_to_no_theme(store):
    """It is left out rather than put where it fits least badly."""
    alone = say(50, "penguins glaciers tobogganing icebergs krill plankton")
    fill(store, [*talk({"boiler": 12, "violin": 12}), alone])
    grouped = {turn_id for theme in themes(store) for turn_id in theme.turn_ids}
    assert len(grouped) >= 20
    assert "t50" not in grouped


def test_stop_words_of_other_languages_name_no_theme(store):
    """In a German turn "die" is an article."""
    texts = [
        "Die Heizung ist kaputt und der Kessel tropft in den Keller",
        "Der Kessel und die Heizung sind nicht dicht, das ist der Grund",
        "Ich habe die Heizung und den Kessel nicht repariert, das war zu teuer",
        "Wann kommt der Klempner, der die Heizung und den Kessel repariert?",
    ]
    fill(store, [say(number, text) for number, text in enumerate(texts)])
    terms = {term for theme in themes(store) for term in theme.terms}
    assert {"Heizung", "Kessel"} <= terms
    assert terms.isdisjoint({"der", "Der", "die", "Die", "und", "ist", "nicht", "das", "den"})
