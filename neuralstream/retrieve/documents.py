"""What of a turn or a gem is searched: ids of points, texts that are embedded, tokens that are counted.

Indexing and the search of turns that are not indexed yet share these, so that both read a turn alike.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from neuralstream.analysis import analyse, analyse_whole_words
from neuralstream.types import Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neuralstream.types import Gem

__all__ = [
    "EXCHANGE",
    "REMEMBERED",
    "STRETCH",
    "date_text",
    "embedded_text",
    "gem_heading_terms",
    "gem_index",
    "gem_terms",
    "gem_texts",
    "part_terms",
    "role_of",
    "stretch_point_id",
    "traits",
    "turn_heading_terms",
    "turn_point_id",
    "turn_terms",
    "user_text",
]

STRETCH = 64
"""Turns in a session's stretch: what indexing one more turn reads again is bounded by it."""

REMEMBERED = "remembered"
"""The session of what a user asked to be remembered: statements that have nothing to do with each other."""

EXCHANGE = "exchange"
"""The role of a turn in which a user speaks and an assistant replies."""

_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
"""Latin, full-width, Arabic."""

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


def user_text(item: Turn | Gem) -> str:
    """What the user says in an exchange, which is embedded by itself too; empty for all else."""
    return _said_by(item, "user") if isinstance(item, Turn) and role_of(item) == EXCHANGE else ""


def part_terms(turn: Turn) -> dict[str, list[str]]:
    """Tokens of what each role said; together they are those of the turn."""
    terms: dict[str, list[str]] = {}
    for part in turn.parts:
        terms.setdefault(part.role, []).extend(analyse(part.text))
    return terms


def traits(item: Turn | Gem, role: str, terms: Sequence[str]) -> dict[str, Any]:
    """What priors read of a turn or gem: role, question (0, .5 or 1), digits, length in tokens.

    What ends by asking is a question; what asks in passing is half of one. Of an exchange, the user's part says whether
    it asks.

    Args:
        item: the turn or gem.
        role: `role_of` the turn, or of the turn that the gem comes from.
        terms: its tokens.
    """
    text = item.text if isinstance(item, Turn) else item.content
    said = (user_text(item) or text).strip()
    asks = any(mark in said for mark in _QUESTION_MARKS)
    return {
        "role": role,
        "question": 1.0 if said.endswith(_QUESTION_MARKS) else 0.5 if asks else 0.0,
        "digits": any(char.isdecimal() for char in text),
        "length": len(terms),
    }


def turn_terms(turn: Turn) -> list[str]:
    """Tokens of what was said."""
    return [term for terms in part_terms(turn).values() for term in terms]


def turn_heading_terms(turn: Turn) -> list[str]:
    """Tokens of the date and the speakers' names."""
    return analyse_whole_words(" ".join((date_text(turn.at()), *turn.speakers)))


def gem_terms(gem: Gem) -> list[str]:
    """Tokens of the content, and those that it lacks of the summary and of the questions that it answers."""
    terms = analyse(gem.content)
    for text in (gem.summary, *gem.questions):
        known = set(terms)
        terms += [term for term in analyse(text) if term not in known]
    return terms


def gem_texts(gem: Gem) -> tuple[str, ...]:
    """What a gem states, and the questions it answers: any of them may be what is asked for."""
    return (gem.content, *(question for question in gem.questions if question.strip()))


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


def role_of(turn: Turn) -> str:
    """Who speaks: the one role, or the exchange of a user and an assistant, whatever tools say in it."""
    roles = {part.role for part in turn.parts}
    return EXCHANGE if {"user", "assistant"} <= roles else turn.parts[0].role if turn.parts else "user"


def _said_by(turn: Turn, role: str) -> str:
    return "\n".join(part.text for part in turn.parts if part.role == role)


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))
