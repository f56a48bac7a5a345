"""What every room does to a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.text import encodable, excerpt, shortened


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_what_is_encodable_can_be_written(text):
    """Lone surrogates become question marks, and nothing else changes."""
    encodable(text).encode("utf-8")
    assert encodable(text) == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in text)


@given(st.text(), st.integers(2, 40))
def test_an_excerpt_is_one_line_of_at_most_its_length(text, limit):
    """White space is one blank each, and the end says where something is missing."""
    line = excerpt(text, limit)
    assert len(line) <= limit
    assert line == " ".join(text.split()) or line.endswith("…")


def test_an_excerpt_of_a_script_without_spaces_is_no_empty_one():
    """Chinese is cut between characters."""
    assert excerpt("记住：端口是六三八一" * 10, 8) == "记住：端口是六…"


@pytest.mark.parametrize(
    ("text", "cut"),
    [("as it stands", "as it stands"), ("one two three four", "one two…"), ("a" * 20, "a" * 12 + "…")],
)
def test_a_text_is_shortened_between_words(text, cut):
    """Where one ends in its second half, else within a word."""
    assert shortened(text, 12) == cut
