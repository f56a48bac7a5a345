import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.capture.clean import clean_turn
from neuralstream.fence import FENCE_CLOSE, FENCE_OPEN
from neuralstream.types import Part, Turn

BLOCK = f"{FENCE_OPEN}\n2026-01-01 Redis listens on 6381.\n{FENCE_CLOSE}"


def cleaned(user, assistant="Done.", **options):
    """Texts left of an exchange, or None."""
    turn = clean_turn(Turn.exchange(user, assistant, session_id="s", turn_id="t"), **options)
    return None if turn is None else [part.text for part in turn.parts]


@pytest.mark.parametrize(
    ("user", "left"),
    [
        ("Which port?", "Which port?"),
        (f"{BLOCK}\n\nWhich port?", "Which port?"),
        (f"{BLOCK}{BLOCK}Which port?{BLOCK}", "Which port?"),
        (f"Which port?\n{FENCE_OPEN} cut off", "Which port?"),
        (f"[Sat 2026-02-14 18:49 GMT-3] {BLOCK}Which port?", "Which port?"),
        (f"{BLOCK}[Sat 2026-02-14 18:49 GMT-3] Which port?", "Which port?"),
        ("Which\0 port\ud83d?", "Which port?"),
        ("<neuralstream\0-memory>old</neuralstream-memory>Which port?", "Which port?"),
        ("🙂", "🙂"),
    ],
)
def test_only_what_was_said_is_left(user, left):
    """Injected blocks, host metadata, NUL and lone surrogates go in whatever order they come; the words stay."""
    assert cleaned(user) == [left, "Done."]


@pytest.mark.parametrize("user", ["", " \n", BLOCK, "NO_REPLY", "Read HEARTBEAT.md if it exists. Reply HEARTBEAT_OK."])
def test_a_turn_that_says_nothing_is_none(user):
    """A turn of injected memory, heartbeats and tool calls alone is no turn."""
    parts = (Part("user", user), Part("tool", "read(HEARTBEAT.md) -> -"), Part("assistant", "HEARTBEAT_OK"))
    assert clean_turn(Turn(parts, "s")) is None


def test_an_empty_part_goes_and_the_rest_stays():
    """A reply to a pseudo-prompt is kept without the prompt."""
    assert cleaned("A new session was started via /new or /reset. Greet the user.", "Hello Anna!") == ["Hello Anna!"]


def test_tool_output_keeps_its_own_timestamps():
    """What looks like a host's timestamp belongs to a tool's output, which may be a log."""
    log = "[Sat 2026-02-14 18:49 GMT-3] server started"
    turn = clean_turn(Turn.exchange("Read the log", "It started.", session_id="s", tools=[log]))
    assert turn.parts[1].text == log


def test_a_clean_turn_is_returned_as_it_is():
    """Nothing is copied when nothing is taken out."""
    turn = Turn.exchange("Which port?", "6381.", session_id="s")
    assert clean_turn(turn) is turn


def test_the_longest_part_is_cut_and_marked():
    """Beyond the limit the long part is cut with a mark, the short one stays whole, and both fit."""
    user, assistant = cleaned("x" * 5000, "Too long for me.", max_chars=1000)
    assert assistant == "Too long for me."
    assert user.endswith("[cut: 5000 characters]")
    assert 950 < len(user) + len(assistant) <= 1000


HOST_TEXT = [
    "[[reply_to_current]]",
    "[message_id: 1]",
    "[Sat 2026-02-14 18:49 GMT-3] ",
    "NO_REPLY",
    "(untrusted metadata)",
]
PIECES = st.sampled_from(
    [FENCE_OPEN, FENCE_CLOSE, BLOCK, "<neuralstream-", "memory>", "\0", "\ud800", "\n", " ", "word " * 80, *HOST_TEXT]
)


@given(st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=5), st.integers(0, 3))
def test_cleaning_again_changes_nothing(texts, tools):
    """Cleaning is idempotent, keeps the limit, and never loses the turn's identity."""
    roles = ["user", "tool", "assistant", "person"]
    turn = Turn(tuple(Part(roles[(n + tools) % 4], text) for n, text in enumerate(texts)), "s", turn_id="t")
    once = clean_turn(turn, max_chars=200)
    if once is not None:
        assert clean_turn(once, max_chars=200) == once
        assert sum(len(part.text) for part in once.parts) <= 200
        assert (once.turn_id, once.session_id) == ("t", "s")
