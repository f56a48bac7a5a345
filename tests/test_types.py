"""The nouns: what they accept, how they are stored and read back."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.errors import InputError
from neuralstream.types import Gem, Hit, Part, Source, Theme, Turn, Usage

NOON = datetime(2026, 5, 8, 12, 0, tzinfo=UTC)

times = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - their zone is drawn
names = st.text(min_size=1, max_size=12).filter(str.strip)
parts = st.builds(Part, st.sampled_from(["user", "assistant", "tool", "person"]), st.text(), st.none() | names)
turns = st.builds(
    Turn,
    parts=st.lists(parts, max_size=3).map(tuple),
    session_id=names,
    turn_id=names,
    user_id=names,
    index=st.none() | st.integers(0, 10**6),
    created_at=st.none() | times,
    time_estimated=st.booleans(),
    source=st.none() | st.text(),
)
unit = st.floats(0, 1)
words = st.lists(names, max_size=3).map(tuple)
gems = st.builds(
    Gem,
    gem_id=names,
    content=names,
    source=st.builds(Source, names, st.just("2026-05-08"), st.just("15-20")),
    source_turns=words,
    created_at=times,
    user_id=names,
    summary=st.text(),
    topics=words,
    tags=st.lists(st.sampled_from(["decision", "fact", "preference", "todo", "code"]), unique=True).map(tuple),
    importance=unit,
    confidence=unit,
    entities=words,
    valid_from=st.none() | times,
    valid_until=st.none() | times,
    supersedes=words,
    status=st.sampled_from(["active", "superseded"]),
    evidence=words,
)


def gem(**fields) -> Gem:
    """A gem with some fields other than usual."""
    plain = {
        "gem_id": "g1",
        "content": "Redis listens on 6381",
        "source": Source("s1", "2026-05-08", "15-20"),
        "source_turns": ("t15", "t20"),
        "created_at": NOON,
    }
    return Gem(**plain | fields)


@given(turns)
def test_a_turn_survives_being_stored(turn):
    """`from_dict` gives back what `to_dict` took."""
    assert Turn.from_dict(turn.to_dict()) == turn


@given(gems)
def test_a_gem_survives_being_stored(gem):
    """`from_dict` gives back what `to_dict` took."""
    assert Gem.from_dict(gem.to_dict()) == gem


def test_a_gem_is_stored_in_the_seed_format():
    """The seed's field names are there, exactly."""
    stored = gem().to_dict()
    assert list(stored["source"]) == ["session_id", "date", "turn_range"]
    assert {"gem_id", "content", "summary", "topics", "importance", "source", "tags", "created_at"} <= set(stored)
    assert stored["created_at"] == "2026-05-08T12:00:00Z"
    assert stored["source_turns"] == ["t15", "t20"]


def test_a_gem_of_a_later_version_is_read():
    """Keys that are not known yet are passed over."""
    assert Gem.from_dict(gem().to_dict() | {"mood": "good"}) == gem()


def test_evidence_is_the_source_turns_until_more_say_the_same():
    """A gem's evidence starts as its source turns."""
    assert gem().evidence == ("t15", "t20")
    assert gem(evidence=("t15", "t20", "t31")).evidence == ("t15", "t20", "t31")


def test_the_same_gem_made_twice_has_one_id():
    """User, session, source turns and content make a gem's id; any other makes another."""
    made = Gem.make_id("u", "s", ["t1", "t2"], "content")
    assert made == Gem.make_id("u", "s", ("t1", "t2"), "content")
    others = {
        Gem.make_id("v", "s", ["t1", "t2"], "content"),
        Gem.make_id("u", "r", ["t1", "t2"], "content"),
        Gem.make_id("u", "s", ["t1"], "content"),
        Gem.make_id("u", "s", ["t1", "t2"], "other"),
    }
    assert len(others | {made}) == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"content": "  "}, "no content"),
        ({"importance": 1.1}, "importance lies between 0 and 1, got 1.1"),
        ({"confidence": -0.1}, "confidence"),
        ({"tags": ("fact", "gossip")}, r"unknown gem tag \['gossip'\]; use decision"),
    ],
)
def test_a_gem_refuses_what_it_cannot_be(fields, message):
    """A gem without content, out of range or with an unknown tag is refused."""
    with pytest.raises(InputError, match=message):
        gem(**fields)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"source": None},
        {"source": {"session_id": "s"}},
        {"created_at": "yesterday"},
        {"content": None},
        {"importance": "high"},
    ],
)
def test_what_is_not_a_gem_is_refused(broken):
    """A mapping that is not a gem is an input error, whatever is wrong with it."""
    data = gem().to_dict() | broken if broken else {}
    with pytest.raises(InputError):
        Gem.from_dict(data)


@pytest.mark.parametrize(
    "broken",
    [
        {"parts": None},
        {"parts": [{"role": "user"}]},
        {"parts": [{"role": "wizard", "text": "x"}]},
        {"parts": [3]},
        {"session_id": ""},
        {"turn_id": None},
        {"index": -1},
        {"index": "first"},
        {"created_at": "yesterday"},
    ],
)
def test_what_is_not_a_turn_is_refused(broken):
    """A mapping that is not a turn is an input error, whatever is wrong with it."""
    with pytest.raises(InputError):
        Turn.from_dict(Turn.exchange("a", "b", session_id="s").to_dict() | broken)


def test_an_exchange_keeps_the_order_of_what_was_said():
    """An exchange is the user's message, tool lines, then the reply; empty parts are left out."""
    turn = Turn.exchange("Which port?", "6381.", session_id="s", tools=["grep port -> 6381", ""])
    assert [part.role for part in turn.parts] == ["user", "tool", "assistant"]
    assert turn.text == "Which port?\ngrep port -> 6381\n6381."
    assert turn.transcript.startswith("user: Which port?\ntool: ")
    assert Turn.exchange("Hello?", "", session_id="s").text == "Hello?"


def test_an_utterance_names_its_speaker():
    """An utterance's transcript carries the name, and speakers lists each name once."""
    turn = Turn.utterance("Mel", "Hi", session_id="s")
    assert turn.transcript == "Mel: Hi"
    assert turn.with_parts([*turn.parts, *turn.parts]).speakers == ("Mel",)


def test_a_turn_gets_an_id_of_its_own():
    """Turns without an id get different ones."""
    assert Turn((), "s").turn_id != Turn((), "s").turn_id


def test_a_turn_has_no_time_before_it_is_captured():
    """Asking an uncaptured turn for its time is refused; a given time becomes aware UTC."""
    with pytest.raises(InputError, match="no created_at yet"):
        Turn((), "s").at()
    assert Turn((), "s", created_at=datetime(2026, 5, 8, 12)).at() == NOON  # noqa: DTZ001 - naive on purpose


def test_nouns_do_not_change():
    """Turns and gems are frozen."""
    with pytest.raises(FrozenInstanceError):
        Turn((), "s").session_id = "r"
    with pytest.raises(FrozenInstanceError):
        gem().content = "other"


def test_usage_works_out_the_percentage():
    """Tokens of a known window make a percentage; without a window it stays unknown."""
    assert Usage(tokens=500, context_window=2000).percent == 25
    assert Usage(tokens=500).percent is None
    assert Usage(percent=60, tokens=500, context_window=2000).percent == 60


@pytest.mark.parametrize("percent", [-1, 1001, float("nan")])
def test_usage_refuses_what_is_no_percentage(percent):
    """A percentage outside of the scale is refused."""
    with pytest.raises(InputError, match="0 to 100"):
        Usage(percent=percent)


def test_a_hit_speaks_for_its_item():
    """A hit has the id, kind, text and turns of what it found."""
    turn = Turn.utterance("Mel", "Hi", session_id="s", turn_id="t1")
    assert (Hit(turn, 1.0).id, Hit(turn, 1.0).kind, Hit(turn, 1.0).text) == ("t1", "turn", "Mel: Hi")
    assert Hit(turn, 1.0).turn_ids == ("t1",)
    found = Hit(gem(), 0.5, {"bm25": 2.0})
    assert (found.id, found.kind, found.text, found.turn_ids) == ("g1", "gem", "Redis listens on 6381", ("t15", "t20"))
    assert found.to_dict() == {
        "id": "g1",
        "kind": "gem",
        "score": 0.5,
        "signals": {"bm25": 2.0},
        "gem": gem().to_dict(),
    }


def test_a_theme_is_json_ready():
    """A theme gives its exemplars in full and the other turns by id."""
    turn = Turn.utterance("Mel", "Hi", session_id="s", turn_id="t1", created_at=NOON)
    theme = Theme("greeting", ("hi",), 2, NOON, NOON + timedelta(days=1), (turn,), ("t1", "t2"))
    assert theme.to_dict() == {
        "name": "greeting",
        "terms": ["hi"],
        "size": 2,
        "first_at": "2026-05-08T12:00:00Z",
        "last_at": "2026-05-09T12:00:00Z",
        "exemplars": [turn.to_dict()],
        "turn_ids": ["t1", "t2"],
        "gems": [],
        "gem_ids": [],
        "summary": "",
    }


def test_replacing_a_field_keeps_the_checks():
    """A changed copy is checked like a new one."""
    with pytest.raises(InputError):
        replace(gem(), importance=2)


@pytest.mark.parametrize("part", [("person", "hi", 5), ("person", None, None), ("person", "hi", {"a": 1})])
def test_a_part_that_is_no_text_is_refused(part):
    """Text and speaker are text: a number would break whatever joins them later."""
    with pytest.raises(InputError, match="text and speaker are text"):
        Part(*part)
