"""What a host writes around the words is removed, and the words stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralstream.hosttext import is_noise, strip_host_text

SENDER = 'Sender (untrusted metadata):\n```json\n{\n  "name": "Ana ``` x"\n}\n```\n'
CONVERSATION = 'Conversation info (untrusted metadata):\n```json\n{"message_id": "81"}\n```\n'
REPLIED = 'Replied message (untrusted, for context):\n```json\n{"body": "old text"}\n```\n'
HISTORY = 'Chat history since last reply (untrusted, for context):\n```json\n[{"body": "earlier"}]\n```\n'
HEARTBEAT = "Read HEARTBEAT.md if it exists. Follow it. If nothing needs attention, reply HEARTBEAT_OK."
NEW_SESSION = "A new session was started via /new or /reset. Greet the user.\nCurrent time: Sunday"

PIECES = st.sampled_from(
    [
        SENDER, CONVERSATION, "[Sat 2026-02-14 18:49 GMT-3] ", "[message_id: 4]", "[[reply_to_current]]", "NO_REPLY",
        "HEARTBEAT_OK", "\n", " ", "```", "text", "Sender (untrusted metadata):", "[", "]]",
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (CONVERSATION + "\n" + SENDER + "\nMove it to 7443", "Move it to 7443"),
        (REPLIED + HISTORY + "\nYes", "Yes"),
        ("[Sat 2026-02-14 18:49 GMT-3] Use port 7443", "Use port 7443"),
        (CONVERSATION + "\n[Sun 2026-03-01 11:22 UTC] hello", "hello"),
        ("hello\n[message_id: om_x100]", "hello"),
        ("[message_id: om_x100]\nhello", "hello"),
        ("hello [message_id: 7]", "hello"),
        ("[[reply_to_current]] Done.", "Done."),
        ("[[reply_to: 123]]Done.", "Done."),
        ("Saved the note.\nNO_REPLY", "Saved the note."),
        (SENDER.replace("\n", "\r\n") + "hi", "hi"),
    ],
)
def test_metadata_is_stripped(raw, words):
    """Headed blocks, timestamps, ids and markers go; the message stays."""
    assert strip_host_text(raw) == words


@pytest.mark.parametrize(
    "text",
    [
        'Here is my JSON:\n```json\n{"a": 1}\n```',
        "[Saturday] is when we meet",
        "The token NO_REPLY means silence",
        "[x] buy milk\n[ ] call Bo",
        "metadata (untrusted metadata): see below",
        "a = b[[0]]",
        "Sender (untrusted metadata):\nno fence follows",
    ],
)
def test_ordinary_text_is_left_alone(text):
    """Text that merely resembles a host's is somebody's words."""
    assert strip_host_text(text) == text
    assert not is_noise(text, "user")


@given(st.lists(PIECES, max_size=8).map("".join))
def test_stripping_twice_is_stripping_once(text):
    """Capture strips what a reader has stripped already, and nothing changes."""
    once = strip_host_text(text)
    assert strip_host_text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        HEARTBEAT,
        NEW_SESSION,
        CONVERSATION + "\n" + NEW_SESSION,
        "Pre-compaction memory flush. Store durable memories now.",
        "[cron:4f2 nightly] Summarise the inbox",
    ],
)
def test_pseudo_prompts_are_noise_from_a_user_only(text):
    """A prompt that the host wrote in the user's name is noise; the same words from an assistant are not."""
    assert is_noise(text, "user")
    assert not is_noise(text, "assistant")


@pytest.mark.parametrize(
    "text", ["NO_REPLY", " NO_REPLY.\n", "**HEARTBEAT_OK**", "[[reply_to_current]] NO_REPLY", "", SENDER]
)
def test_silence_is_noise(text):
    """A silent answer, or nothing but metadata, is noise."""
    assert is_noise(text, "assistant")
    assert is_noise(text, "user")


@pytest.mark.parametrize(
    "text", ["Read HEARTBEAT.md and fix the typo", "How does pre-compaction memory flush work?", "ok"]
)
def test_a_user_may_speak_of_heartbeats(text):
    """Mentioning the host's files is conversation."""
    assert not is_noise(text, "user")
