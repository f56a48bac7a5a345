"""What of a turn or a gem is searched: ids of points, texts that are embedded, tokens that are counted.

Indexing and the search of turns that are not indexed yet share these, so that both read a turn alike.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from neuralstream.analysis import analyse
from neuralstream.types import Turn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from neuralstream.types import Gem

__all__ = [
    "STRETCH",
    "date_text",
    "embedded_text",
    "gem_heading_terms",
    "gem_index",
    "gem_terms",
    "stretch_point_id",
    "turn_heading_terms",
    "turn_point_id",
    "turn_terms",
]

STRETCH = 64
"""Turns in a session's stretch: what indexing one more turn reads again is bounded by it."""

_NAMESPACE = uuid.UUID("0b6c9f1e-5a3d-5f87-8e21-7d4c3b2a1908")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def turn_point_id(user_id: str, turn_id: str) -> str:
    """The id of a turn's point."""
    return _uuid("turn", user_id, turn_id)


def stretch_point_id(user_id: str, session_id: str, number: int) -> str:
    """The id of a session's stretch; a turn lies in the stretch of number `index // STRETCH`."""
    return _uuid("session", user_id, session_id, str(number))


def embedded_text(item: Turn | Gem) -> str:
    """The one text that is embedded: what a turn says, each part after its speaker's name; what a gem states."""
    if isinstance(item, Turn):
        return "\n".join(f"{part.speaker}: {part.text}" if part.speaker else part.text for part in item.parts)
    return item.content


def turn_terms(turn: Turn) -> list[str]:
    """Tokens of what was said."""
    return analyse(turn.text)


def turn_heading_terms(turn: Turn) -> list[str]:
    """Tokens of the date and the speakers' names."""
    return analyse(" ".join((date_text(turn.at()), *turn.speakers)))


def gem_terms(gem: Gem) -> list[str]:
    """Tokens of the content, and those of the summary that the content lacks."""
    content = analyse(gem.content)
    known = set(content)
    return content + [term for term in analyse(gem.summary) if term not in known]


def gem_heading_terms(gem: Gem, speakers: Iterable[str]) -> list[str]:
    """Tokens of the date, of who spoke, of topics and entities, each once, without those that the gem itself holds."""
    known = set(gem_terms(gem))
    about = analyse(" ".join((date_text(gem.created_at), *speakers, *gem.topics, *gem.entities)))
    return [term for term in dict.fromkeys(about) if term not in known]


def gem_index(gem: Gem) -> int:
    """The index of the first source turn within its session; 0 for a gem that comes from no turn."""
    first = gem.source.turn_range.partition("-")[0]
    return int(first) if first.isdecimal() else 0


def date_text(moment: datetime) -> str:
    """A date as people write it in a question, such as "8 May 2023", whatever the locale."""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))
