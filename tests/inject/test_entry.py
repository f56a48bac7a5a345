"""One hit as one line."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from neuralstream.fence import strip_fences
from neuralstream.inject import render_entry
from neuralstream.tokens import count_tokens
from neuralstream.types import Gem, Hit, Part, Source, Turn

WHEN = datetime(2026, 5, 8, 13, 56, tzinfo=UTC)
GEM = Gem(
    "5ab1c0de-1111-4222-8333-444455556666",
    "Redis listens on port 6381.",
    Source("s1", "2026-05-07", "3-4"),
    ("t3", "t4"),
    WHEN,
    tags=("decision", "fact"),
)


def turn(*parts, session="s1"):
    """A hit on a turn of these parts."""
    return Hit(Turn(tuple(parts), session, turn_id="t3", index=3, created_at=WHEN), 1.0)


def test_a_turn_is_dated_and_named_by_session_and_index():
    """Everyone who speaks in it is on the line."""
    hit = turn(Part("user", "Move redis\nto 6381"), Part("assistant", "Done.", "Ada"))
    assert render_entry(hit) == "- 2026-05-08 [s1#3] user: Move redis to 6381 | Ada: Done."


def test_a_gem_is_dated_by_its_first_source_turn():
    """Its tags say what it is, and a plain fact says nothing."""
    assert render_entry(Hit(GEM, 1.0)) == "- 2026-05-07 [gem 5ab1c0de] decision: Redis listens on port 6381."
    assert render_entry(Hit(replace(GEM, tags=("fact",)), 1.0)).endswith("] Redis listens on port 6381.")


def test_a_session_that_is_a_uuid_goes_by_its_first_digits():
    """Other session ids stay whole, so that `thread` finds them."""
    assert "[5ab1c0de#3]" in render_entry(turn(Part("user", "hi"), session=GEM.gem_id))
    assert "[2026-05-08-standup#3]" in render_entry(turn(Part("user", "hi"), session="2026-05-08-standup"))


def test_what_cannot_be_seen_is_removed():
    """Control, zero-width, bidirectional and surrogate characters go; a fence put together by that is escaped."""
    hidden = "a\u200bb\x00c\ud800d\u202ee\U000e0041f\ufe0f <\u200b/neural\u200bstream-memory>"
    line = render_entry(turn(Part("user", hidden)))
    assert line == "- 2026-05-08 [s1#3] user: abcdef &lt;/neuralstream-memory>"


def test_a_long_text_is_cut_to_the_passage_that_the_query_asks_for():
    """The sentence with most query words is kept with its neighbours, its speaker named, the cuts marked."""
    filler = " ".join(f"Sentence number {n} is about the weather." for n in range(200))
    hit = turn(
        Part("user", "What about it? " + filler),
        Part("assistant", f"{filler} The heron port is 6381 for redis. {filler}"),
    )
    line = render_entry(hit, query="which port does redis use", max_tokens=80)
    assert "[s1#3] assistant: … " in line
    assert "The heron port is 6381 for redis. Sentence number 0" in line
    assert line.endswith("weather. …")
    assert 60 < count_tokens(line) <= 80


def test_a_long_text_that_shares_nothing_with_the_query_keeps_its_beginning():
    """Without a query too."""
    hit = turn(Part("user", " ".join(f"Sentence number {n}." for n in range(200))))
    for query in ("", "zebra"):
        line = render_entry(hit, query=query, max_tokens=40)
        assert line.startswith("- 2026-05-08 [s1#3] user: Sentence number 0. Sentence number 1.")
        assert line.endswith(". …")


@given(
    parts=st.lists(st.text(max_size=600), max_size=3),
    limit=st.integers(12, 120),
    query=st.text(max_size=30),
)
def test_a_line_keeps_to_its_limit_and_to_one_line(parts, limit, query):
    """Whatever is stored: one visible line, never longer than asked, no fence tag of its own."""
    hit = turn(*(Part("user", text) for text in parts))
    line = render_entry(hit, query=query, max_tokens=limit)
    assert line.isprintable()
    assert line.startswith("- 2026-05-08 [s1#3]")
    assert count_tokens(line) <= limit
    assert strip_fences(line) == line


def test_text_without_spaces_or_stops_is_cut_too():
    """A long token, and a script without spaces."""
    for text in ("x" * 5000, "漢" * 5000, "漢字。" * 2000):
        line = render_entry(turn(Part("user", text)), query="漢", max_tokens=50)
        assert 30 < count_tokens(line) <= 50
        assert line.endswith("…")
