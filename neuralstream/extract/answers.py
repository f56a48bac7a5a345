"""From what a model wrote to the gems it meant, whatever stands around them.

Models think aloud, explain themselves, fence their JSON, leave out the outer object, rename keys, forget a bracket or
are cut off. Here the shape is made good; whether a gem is acceptable is `parse`'s concern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from neuralstream.extract.schemas import KIND_KEYS

__all__ = ["ParseError", "Written", "read_answer"]

_THOUGHT = re.compile(r"\A.*</think>|<think>.*\Z", re.DOTALL)
_THOUGHT_BEFORE = re.compile(r"\A(?:\s*<think>.*?</think>)*\s*(?=```|[{\[]\s*[\[{\"\]}])", re.DOTALL)
"""Thinking, and thinking that ends where the JSON of the answer begins: there such a tag is something that was said."""

_START = re.compile(r'\{|\[(?=\s*[\[\]{"])')
"""Where JSON may begin: an object, or a list that does not look like a turn's number in brackets."""

_MOST_STARTS = 10
_CONTENT_KEYS = ("content", "statement", "text", "gem", "memory", "fact", "note")
_GEMS_KEY = "gems"


class ParseError(ValueError):
    """An answer cannot be used; the message is fit to be shown to the model."""


class Written(NamedTuple):
    """The gems of an answer as the model wrote them, and whether the text breaks off after them."""

    items: tuple[Mapping[str, Any], ...]
    cut: bool


def read_answer(text: str) -> Written:
    """The gems in an answer; none where it is an empty list.

    Returns:
        Mappings with a `content`, under whatever keys the model chose for the rest. A gem that was cut off is left out.

    Raises:
        ParseError: there is no answer in the text.
    """
    before = _THOUGHT_BEFORE.match(text)
    said = (text[before.end() :] if before else _THOUGHT.sub("", text)).strip()
    if not said:
        raise ParseError("The answer is empty.")
    found: list[Mapping[str, Any]] | None = None
    cut = echoed = False
    for value in _values(said):
        items = _items(value.read)
        if items is None:
            echoed = echoed or (isinstance(value.read, dict) and "properties" in value.read)
            continue
        found = (found or []) + items
        cut = value.cut
        if value.repaired:
            break
    if found is not None and (found or not cut):
        return Written(tuple(found), cut)
    if cut:
        raise ParseError("The answer breaks off before its first gem is whole.")
    if echoed:
        raise ParseError("The JSON schema came back instead of gems that follow it.")
    raise ParseError('There is no JSON object with a list "gems" in the answer.')


class _Value(NamedTuple):
    """A JSON value in a text: what it is, whether it breaks off, and whether it had to be repaired to its end."""

    read: Any
    cut: bool = False
    repaired: bool = False


def _values(said: str) -> Iterator[_Value]:
    """The JSON values in a text, in order; after one that had to be repaired come those inside it."""
    position, decoder = 0, json.JSONDecoder()
    for _ in range(_MOST_STARTS):
        start = _START.search(said, position)
        if start is None:
            return
        try:
            read, position = decoder.raw_decode(said, start.start())
            yield _Value(read)
        except (ValueError, RecursionError):
            position = start.end()
            whole, cut = _whole_part(said[start.start() :])
            yield _Value(_repaired(whole), cut, repaired=True)


def _repaired(text: str) -> Any:
    from json_repair import loads

    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None


def _items(value: Any) -> list[Mapping[str, Any]] | None:
    """The gems in a JSON value; None where it is no answer."""
    if isinstance(value, list):
        return _listed(value)
    if not isinstance(value, Mapping):
        return None
    plain = {_plain(key): entry for key, entry in value.items()}
    if _GEMS_KEY in plain:
        entry = plain[_GEMS_KEY]
        return _listed(entry if isinstance(entry, list) else [entry]) if entry else []
    content = next((plain[key] for key in _CONTENT_KEYS if isinstance(plain.get(key), str)), None)
    if content is not None:
        return [{**plain, "content": content}]
    kinds = {key: entry for key, entry in plain.items() if key in KIND_KEYS and isinstance(entry, list)}
    return _by_kind(kinds) if kinds else _renamed(plain)


def _by_kind(lists: Mapping[str, list[Any]]) -> list[Mapping[str, Any]]:
    return [{**item, "tags": KIND_KEYS[key]} for key, entries in lists.items() for item in _listed(entries) or ()]


def _renamed(plain: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Gems under another name, where there is only one thing that they can be."""
    if _is_schema(plain.get("properties")):
        return None
    places = [
        entry
        for entry in plain.values()
        if isinstance(entry, dict) or (isinstance(entry, list) and not any(isinstance(item, str) for item in entry))
    ]
    found = [items for entry in places if (items := _items(entry)) is not None]
    return found[0] if len(found) == 1 else None


def _listed(entries: list[Any]) -> list[Mapping[str, Any]] | None:
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        if isinstance(entry, str):
            found.append({"content": entry})
        elif isinstance(entry, dict | list):
            found += _items(entry) or ()
    return found if found or not entries else None


def _is_schema(properties: Any) -> bool:
    """Whether these are properties as a schema describes them, not filled in."""
    return isinstance(properties, Mapping) and any(
        isinstance(entry, Mapping) and "type" in entry for entry in properties.values()
    )


def _plain(key: object) -> str:
    return re.sub(r"[^a-z]+", "_", str(key).casefold()).strip("_")


def _whole_part(text: str) -> tuple[str, bool]:
    """JSON up to the last object that was closed, and whether it breaks off there; all of it where nothing is open."""
    depth, closed, quoted, escaped = 0, 0, False, False
    for position, char in enumerate(text, start=1):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{[":
            depth += 1
        elif not quoted and char in "}]":
            depth -= 1
            closed = position if char == "}" else closed
            if depth == 0:
                return text, False
    return text[:closed], True
