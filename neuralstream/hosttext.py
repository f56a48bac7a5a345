"""What agent hosts write around the words of a conversation: metadata blocks, timestamps, ids, markers, pseudo-prompts.

The strings are those of OpenClaw and pi. Log readers and capture both apply this, so everything here is idempotent.
"""

from __future__ import annotations

import re

__all__ = ["is_noise", "strip_host_text"]

_HOST_TEXT = (
    # "Sender (untrusted metadata):", "Replied message (untrusted, for context):" and their kin, each over fenced JSON.
    re.compile(
        r"^[A-Z][\w ]{0,80} \(untrusted(?: metadata|, for context)\):[ \t\r]*\n"
        r"```(?:json)?[ \t\r]*\n.*?^```[ \t\r]*$\s*",
        re.MULTILINE | re.DOTALL,
    ),
    # A leading timestamp, such as "[Sat 2026-02-14 18:49 GMT-3] ".
    re.compile(r"\A\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]{0,40}\]\s*"),
    re.compile(r"^\[message_id:[^\]\n]*\][ \t\r]*$\n?|(?<![ \t])[ \t]*\[message_id:[^\]\n]*\]\Z", re.MULTILINE),
    re.compile(r"\[\[ ?reply_to(?:_current|: ?[^\]\n]*) ?\]\][ \t]*"),
    # The silent answers, alone or as the first or last line.
    re.compile(
        r"\A[ \t*_`]*(?:NO_REPLY|HEARTBEAT_OK)[ \t*_`.!]*(?:\n|\Z)|\n[ \t*_`]*(?:NO_REPLY|HEARTBEAT_OK)[ \t*_`.!]*\Z"
    ),
)

_PSEUDO_PROMPT = re.compile(
    r"""\A(?:
        A\ new\ session\ was\ started\ via\ /new\ or\ /reset\b
      | Read\ HEARTBEAT\.md\b .* \bHEARTBEAT_OK\b
      | Pre-compaction\ memory\ flush\.
      | \[cron:[^\]\n]*\]
    )""",
    re.VERBOSE | re.DOTALL,
)


def strip_host_text(text: str) -> str:
    """The words alone, without what a host wrote around them.

    Args:
        text: one message, from either side.

    Returns:
        The message without metadata blocks, leading timestamp, message ids, reply markers and silent answers, and
        without white space at its ends. Applying it again changes nothing.
    """
    stripped = text.strip()
    while True:
        before = stripped
        for pattern in _HOST_TEXT:
            stripped = pattern.sub("", stripped).strip()
        if stripped == before:
            return stripped


def is_noise(text: str, role: str) -> bool:
    """Whether a message is the host's own traffic: silent answers, and prompts that no user wrote.

    Args:
        text: one message, stripped or not.
        role: who speaks; only a user's message can be a pseudo-prompt (new session, heartbeat, memory flush, cron job).

    Returns:
        True when nothing a person or a model meant to say is left.
    """
    stripped = strip_host_text(text)
    return not stripped or (role == "user" and _PSEUDO_PROMPT.match(stripped) is not None)
