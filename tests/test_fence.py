import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.fence import FENCE_CLOSE, FENCE_OPEN, escape_fences, strip_fences

PIECES = st.sampled_from(
    [
        FENCE_OPEN,
        FENCE_CLOSE,
        "<NeuralStream-Memory>",
        "</ neuralstream_memory >",
        "<",
        ">",
        "neuralstream-memory",
        "a",
        "\n",
    ]
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("nothing here, 1 < 2", "nothing here, 1 < 2"),
        ("  spaces stay  ", "  spaces stay  "),
        (f"{FENCE_OPEN}\nold\n{FENCE_CLOSE}\n\nWhich port?", "Which port?"),
        (f"Hi {FENCE_OPEN}a{FENCE_CLOSE} there {FENCE_OPEN}b{FENCE_CLOSE}", "Hi\nthere"),
        (f"{FENCE_OPEN}a{FENCE_OPEN}b{FENCE_CLOSE}c{FENCE_CLOSE}after", "after"),
        (f"before {FENCE_OPEN} cut off", "before"),
        (f"{FENCE_OPEN}cut {FENCE_OPEN}b{FENCE_CLOSE} one {FENCE_OPEN}c{FENCE_CLOSE} two", "one\ntwo"),
        (f"tail of a block {FENCE_CLOSE} after", "tail of a block\nafter"),
        ("< NEURALSTREAM-MEMORY date='x' >a</ NeuralStream-Memory > b", "b"),
        (FENCE_OPEN + FENCE_CLOSE, ""),
    ],
)
def test_strips_blocks_however_they_are_broken(text, left):
    """Whole, repeated, nested, unclosed and oddly written blocks go; everything around them stays."""
    assert strip_fences(text) == left


@given(st.lists(PIECES, max_size=12).map("".join))
def test_stripping_once_is_enough(text):
    """What is left holds no fence tag and is not stripped further."""
    once = strip_fences(text)
    assert strip_fences(once) == once


@given(st.lists(PIECES, max_size=12).map("".join))
def test_escaped_text_cannot_open_or_close_a_fence(text):
    """An escaped text is left whole by stripping."""
    assert strip_fences(escape_fences(text)) == escape_fences(text)


def test_many_openings_take_linear_time():
    """A text made of opening tags alone is done at once."""
    assert strip_fences(FENCE_OPEN * 20_000) == ""
