"""What is asked of memory, and the seam to the graph."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Protocol, get_args, runtime_checkable

from neuralstream.errors import InputError
from neuralstream.types import GemTag, Lane, Mode, checked_tags

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neuralstream.types import Turn

__all__ = ["GraphSignal", "Query"]


@dataclass(frozen=True, slots=True)
class Query:
    """One question to one user's memory.

    Attributes:
        text: the question.
        user_id: whose memory.
        as_of: the moment it is asked: nothing created later is found, and a gem counts as it stood then.
        mode: how hits are ranked.
        k: most hits returned.
        lane: raw turns, gems, or "all": gems together with the turns that no active gem cites.
        since, until: only what was created within this closed range.
        session_id: only what comes from this session.
        tags: only gems with any of these tags; turns have none, so they are left out.
        exclude_turns: turn ids that are not returned, such as those still in the active window.
        pending: turns that were captured and are not in the store yet; they are searched in memory.
        explain: compute every signal, those whose weight is 0 too.
    """

    text: str
    user_id: str
    as_of: datetime
    mode: Mode = "hybrid"
    k: int = 5
    lane: Lane = "all"
    since: datetime | None = None
    until: datetime | None = None
    session_id: str | None = None
    tags: tuple[GemTag, ...] = ()
    exclude_turns: tuple[str, ...] = ()
    pending: tuple[Turn, ...] = ()
    explain: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a query is text, got {self.text!r}")
        for name, value, allowed in (("mode", self.mode, get_args(Mode)), ("lane", self.lane, get_args(Lane))):
            if value not in allowed:
                raise InputError(f"{name} {value!r} is unknown; use one of {', '.join(allowed)}")
        checked_tags(self.tags)
        if not isinstance(self.k, Integral) or self.k < 1:
            raise InputError(f"k is the number of hits, whole and at least 1, got {self.k!r}")


@runtime_checkable
class GraphSignal(Protocol):
    """What the graph of turns, gems, people and things adds to a ranking."""

    def activate(self, user_id: str, text: str) -> Mapping[str, float]:
        """Activation of the user's points by what `text` names: point id to score, above 0 only."""
        ...
