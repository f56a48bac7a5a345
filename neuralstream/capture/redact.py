"""Secrets out of a turn before anything is stored: each value becomes `[redacted:kind]`, the text around it stays.

Two ways to be found: a value in the format of a known service (`secret_rules`), or any value that is assigned to a
password or key by name. An assigned value is left alone where it is a placeholder, a variable, a call, or a plain word.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.capture.secret_rules import secret_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neuralstream.types import Turn

__all__ = ["Redacted", "RedactedTurn", "redact_text", "redact_turn"]


class Redacted(NamedTuple):
    """A text without secrets, and the kinds of secrets that were in it, in order, each once."""

    text: str
    kinds: tuple[str, ...]


class RedactedTurn(NamedTuple):
    """A turn without secrets, and the kinds of secrets that were in it, in order, each once."""

    turn: Turn
    kinds: tuple[str, ...]


def redact_turn(turn: Turn) -> RedactedTurn:
    """Redact every part of a turn; the very same turn where it holds no secret."""
    done = [redact_text(part.text) for part in turn.parts]
    kinds = tuple(dict.fromkeys(kind for each in done for kind in each.kinds))
    if not kinds:
        return RedactedTurn(turn, ())
    parts = [replace(part, text=each.text) for part, each in zip(turn.parts, done, strict=True)]
    return RedactedTurn(turn.with_parts(parts), kinds)


def redact_text(text: str) -> Redacted:
    """Replace the secrets in a text. Redacting a redacted text changes nothing."""
    kinds: list[str] = []
    # What replaces one secret can end the word before another, which is then seen in the next round.
    while secrets := _without_overlaps(sorted(_find(text), key=_by_place)):
        pieces = []
        position = 0
        for secret in secrets:
            pieces += [text[position : secret.start], f"[redacted:{secret.kind}]"]
            position = secret.end
            kinds.append(secret.kind)
        text = "".join([*pieces, text[position:]])
    return Redacted(text, tuple(dict.fromkeys(kinds)))


class _Secret(NamedTuple):
    start: int
    end: int
    kind: str


_DONE = re.compile(r"\[redacted:[a-z-]+\]")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s:/?#@\"'<>]*:([^\s/@\"'<>]+)@")
"""RFC 3986: user and password before a host."""

_LOGIN_NAME = r"pass(?:word|wd|phrase)|pwd|contraseña"
_KEY_NAME = (
    r"(?:api|auth|access|account|secret|private|client|service|encryption|signing|master|db|database)[_-]?(?:key|secret)"
    r"|secret|token|credential"
)
_NAME = rf"(?:(?P<password>{_LOGIN_NAME})|{_KEY_NAME})"
_VALUE = r"""(?:(?P<quote>["'`])(?P<quoted>[^"'`\n]{4,})(?P=quote)|(?P<bare>[^\s"'`,;(){}<>\[\]]{4,}+)(?![(\[]))"""
_ASSIGNED = re.compile(
    _NAME + r"[\"'\]]{0,2}(?P<sign>[ \t]*(?::=|=>|={1,3}|:)[ \t]*|[ \t]+(?:is|was)[ \t]+(?:now[ \t]+)?)" + _VALUE,
    re.IGNORECASE,
)
_FLAG = re.compile(r"(?<!\S)--(?:[a-z]+-){0,3}" + _NAME + r"(?P<sign>[ \t]+)" + _VALUE, re.IGNORECASE)
_NAMES = re.compile(rf"{_LOGIN_NAME}|key|secret|token|credential", re.IGNORECASE)
"""A quick look whether the two above are worth a try."""

_PLACEHOLDER = re.compile(
    r"""
      \$\w+ | \$\{.* | \$\(.* | %\w+% | %[sd(].* | \{.* | <.* | \[.*      # a variable, a template
    | [~.]{0,2}/.* | \w+://.* | (?-i:(?:[a-z0-9_.-]+/){2,}[a-z0-9_.-]+)     # a path, a URL
    | [*•.xX_-]+ | (.)\1*                                                   # stars, or one character again and again
    | (?:your|my|the|some|an?|example|sample|dummy|fake|changeme|placeholder|redacted|insert|enter|todo|none|null|nil
        |true|false|undefined|required|optional|string|str|bytes)(?:[_.\-\s]+[a-z]+)*
    | (?:.*[_.\-\s])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|credentials?|string)s?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PLAIN_WORDS = re.compile(r"[^\W\d_]+(?:[._/\-'][^\W\d_]+)*[.!?:]*")
_ENCODING = re.compile(r"(?:base|sha|md|utf|argon|aes|rsa|ed|bcrypt|pbkdf|oauth|v)[_-]?\d+\w*[.!?:]*", re.IGNORECASE)
_SHORTEST_PASSWORD = 6
_SHORTEST_KEY = 16
_LEAST_ENTROPY = 3.0
"""Bits per character, detect-secrets' own limit for hexadecimal strings."""


def _find(text: str) -> Iterator[_Secret]:
    """Secrets in any order; they may overlap."""
    taken = [match.span() for match in _DONE.finditer(text)]
    for secret in chain(_in_known_formats(text), _in_urls(text), _assigned(text)):
        if all(secret.end <= start or end <= secret.start for start, end in taken):
            yield secret


def _in_known_formats(text: str) -> Iterator[_Secret]:
    lower = text.lower()
    for rule in secret_rules():
        if any(hint in lower for hint in rule.hints):
            for match in rule.pattern.finditer(text):
                start, end = match.span(rule.group)
                if _stands_alone(text, start, end) and not _is_filler(text[start:end]):
                    yield _Secret(start, end, rule.kind)


def _in_urls(text: str) -> Iterator[_Secret]:
    if "://" in text:
        for match in _URL.finditer(text):
            if not _PLACEHOLDER.fullmatch(match[1]):
                yield _Secret(*match.span(1), "url-password")


def _assigned(text: str) -> Iterator[_Secret]:
    if _NAMES.search(text):
        for match in chain(_ASSIGNED.finditer(text), _FLAG.finditer(text)):
            if _is_secret_value(match):
                span = match.span("quoted" if match["quoted"] else "bare")
                yield _Secret(*span, "password" if match["password"] else "secret")


def _is_secret_value(match: re.Match[str]) -> bool:
    """Whether what is assigned to a password or key can be one."""
    value: str = match["quoted"] or match["bare"]
    if _PLACEHOLDER.fullmatch(value) or _ENCODING.fullmatch(value):
        return False
    has_digit = any(char.isdigit() for char in value)
    if not match["password"]:
        return len(value) >= _SHORTEST_KEY and has_digit and " " not in value and _entropy(value) > _LEAST_ENTROPY
    is_plain = _PLAIN_WORDS.fullmatch(value) is not None
    if match["quoted"]:
        # `"password": "Passwort"` names a field in another language.
        return " " not in value and not (is_plain and value[0].isupper())
    if "is" in match["sign"] or "was" in match["sign"]:
        return len(value) >= _SHORTEST_PASSWORD and has_digit and "-" not in value
    # A plain word is a variable in code and a word in prose, but in `PASSWORD=swordfish` it is the value.
    return len(value) >= _SHORTEST_PASSWORD and (not is_plain or (match["password"].isupper() and match["sign"] == "="))


def _entropy(value: str) -> float:
    return float(_entropy_plugin().calculate_shannon_entropy(value))


@cache
def _entropy_plugin() -> Any:
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString

    return Base64HighEntropyString()


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a value is not a stretch of a longer run of letters and digits, such as an image in base64."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() or (after.isalnum() and text[end - 1].isalnum()))


def _is_filler(value: str) -> bool:
    """Whether a value of the right form ends in "xxxxxxxxxxxx", as in documentation, or spells a strand of DNA."""
    return len(set(value[-12:])) < 4 or set(value) <= set("ACGT")


def _by_place(secret: _Secret) -> tuple[int, int]:
    return secret.start, -secret.end


def _without_overlaps(secrets: list[_Secret]) -> list[_Secret]:
    """Overlapping secrets as one, of the kind of the first and longest."""
    joined: list[_Secret] = []
    for secret in secrets:
        if joined and secret.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, secret.end))
        else:
            joined.append(secret)
    return joined
