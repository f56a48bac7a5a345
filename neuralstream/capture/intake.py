"""What becomes of a turn before it is kept: cleaned, its secrets masked, dated, given to its user."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from neuralstream.capture.clean import clean_turn
from neuralstream.capture.redact import redact_turn
from neuralstream.types import DEFAULT_USER, Turn

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["prepare"]


def prepare(turn: Turn, settings: Settings, now: datetime) -> Turn | None:
    """The turn as it is kept, or None where nothing is left of it.

    Args:
        turn: as the host or a log gave it.
        settings: `max_turn_chars`, `redact`, and the user whose turn it is where it names nobody.
        now: its time, where it has none; aware UTC.
    """
    if turn.user_id == DEFAULT_USER:
        turn = replace(turn, user_id=settings.user_id)
    cleaned = clean_turn(turn, max_chars=settings.max_turn_chars)
    if cleaned is None:
        return None
    if settings.redact:
        cleaned = redact_turn(cleaned).turn
    return cleaned if cleaned.created_at else replace(cleaned, created_at=now)
