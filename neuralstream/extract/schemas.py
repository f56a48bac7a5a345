"""What an answer looks like: JSON schemas by version, which a prompt names in its front matter.

1. one source turn, statement and kind: the fewest words a model has to write for a gem
2. with importance, confidence and topics
3. with the questions that a gem would answer
4. like 2, after `drafts`: candidates in a line each, written before the gems are
5. a list for each kind of gem, so that the model comes past each

Source turns come first: a model that has named a turn writes about that turn, and goes on to the next. The other way
round a small one writes a single statement and cites everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

from neuralstream.types import GemTag

__all__ = ["KIND_KEYS", "SCHEMAS", "AnswerSchema"]

KIND_KEYS: Mapping[str, GemTag] = {
    "decisions": "decision",
    "facts": "fact",
    "preferences": "preference",
    "todos": "todo",
    "code": "code",
}
"""Keys of version 5, and the kind of the gems under them."""

_GEMS_PER_TURN = 2
"""Most gems a schema allows: a small model that repeats itself stops there instead of at the end of its context."""

_TURNS_PER_GEM = 3
"""Most turns a gem can cite, but for version 1: what rests on more is a summary."""

_TEXT = {"type": "string"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_TEXTS = {"type": "array", "items": _TEXT, "maxItems": 5}


class AnswerSchema(NamedTuple):
    """The fields of a gem, the most turns it cites, and whether gems stand after drafts or by kind."""

    fields: tuple[str, ...]
    turns: int = _TURNS_PER_GEM
    drafts: bool = False
    by_kind: bool = False

    def json_schema(self, numbers: Sequence[int]) -> dict[str, Any]:
        """The JSON schema for a batch.

        Args:
            numbers: of the turns to distil; no other can be cited.
        """
        kinds = {
            "content": _TEXT,
            "tags": {"type": "array", "items": {"enum": list(get_args(GemTag)), "type": "string"}, "maxItems": 3},
            "source_turns": {
                "type": "array",
                "items": {"type": "integer", "enum": list(numbers)},
                "minItems": 1,
                "maxItems": min(self.turns, len(numbers)),
            },
            "importance": _SHARE,
            "confidence": _SHARE,
            "topics": _TEXTS,
            "questions": _TEXTS,
        }
        gem = _object({field: kinds[field] for field in self.fields})
        gems = {"type": "array", "items": gem, "maxItems": _GEMS_PER_TURN * len(numbers)}
        if self.by_kind:
            return _object(dict.fromkeys(KIND_KEYS, gems))
        return _object(({"drafts": {**_TEXTS, "maxItems": gems["maxItems"]}} if self.drafts else {}) | {"gems": gems})


_BRIEF = ("source_turns", "content", "tags")
_FULL = (*_BRIEF, "importance", "confidence", "topics")

SCHEMAS: Mapping[int, AnswerSchema] = {
    1: AnswerSchema(_BRIEF, turns=1),
    2: AnswerSchema(_FULL),
    3: AnswerSchema((*_FULL, "questions")),
    4: AnswerSchema(_FULL, drafts=True),
    5: AnswerSchema(("source_turns", "content", "importance"), by_kind=True),
}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
