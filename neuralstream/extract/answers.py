"""From what a model wrote to the gems it meant, whatever stands around them.

Models think aloud, explain themselves, fence their JSON, leave out the outer object, rename keys, forget a bracket or
are cut off. Here the shape is made good; whether a gem is acceptable is `parse`'s concern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from neuralstream.extract.schemas import KIND_KEYS

__all__ = ["ParseError", "Written", "read_answer"]

_THOUGHT = re.compile(r"\A.*</think>|<think>.*\Z", re.DOTALL)
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
    said = _THOUGHT.sub("", text).strip()
    if not said:
        raise ParseError("The answer is empty.")
    found: list[Mapping[str, Any]] | None = None
    cut = echoed = False
    position, decoder = 0, json.JSONDecoder()
    for _ in range(_MOST_STARTS):
        start = _START.search(said, position)
        if start is None:
            break
        try:
            value, position = decoder.raw_decode(said, start.start())
        except (ValueError, RecursionError):
            value, position = _repaired(said[start.start() :]), start.end()
            items = _items(value)
            if items is not None:
                cut = _breaks_off(said[start.start() :])
                found = (found or []) + (items if not cut or said.rstrip(", \n").endswith("}") else items[:-1])
                break
        else:
            items = _items(value)
            if items is not None:
                found = (found or []) + items
        echoed = echoed or (items is None and isinstance(value, dict) and "properties" in value)
    if found is None and echoed:
        raise ParseError("The JSON schema came back instead of gems that follow it.")
    if found is None:
        raise ParseError('There is no JSON object with a list "gems" in the answer.')
    return Written(tuple(found), cut)


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


def _breaks_off(text: str) -> bool:
    """Whether a bracket or a string is still open at the end."""
    depth, quoted, escaped = 0, False, False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char in "{[") - (char in "}]")
            if depth == 0:
                return False
    return True
