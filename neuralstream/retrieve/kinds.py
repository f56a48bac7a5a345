"""Which kind of conversation a user's memory holds: what finds the evidence in one kind misleads in the other.

Among people every turn is a remark of a line or two, names and dates are what sets turns apart, and words recur because
friends keep to their subjects. With an assistant, a turn is a question and a reply whose lengths differ tenfold, and
later questions use other words. `docs/design/retrieval.md` has the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from neuralstream.store.base import Where
from neuralstream.store.schema import TURNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.store.base import MemoryStore
    from neuralstream.types import Turn

__all__ = ["Kind", "kind_of"]

Kind = Literal["people", "assistant"]

_SAMPLE = 3
"""Newest turns that are looked at: a user's logs rarely change kind, and when they do the newer ones count."""

_ROLES = ("data.parts[].role",)


def kind_of(store: MemoryStore, user_id: str, pending: Sequence[Turn]) -> Kind:
    """Tell "people", where persons speak in most of a user's newest turns, from "assistant".

    Args:
        store: holds the stored turns.
        user_id: whose memory.
        pending: turns that are not stored yet.
    """
    newest = sorted(pending, key=lambda turn: turn.at())[-_SAMPLE:]
    roles = [{part.role for part in turn.parts} for turn in newest]
    if len(roles) < _SAMPLE:
        stored = store.newest(TURNS, Where(user_id, kind="turn"), _SAMPLE - len(roles), keys=_ROLES)
        roles += [{part["role"] for part in record.payload["data"]["parts"]} for record in stored]
    people = sum("person" in spoken for spoken in roles)
    return "people" if 2 * people > len(roles) else "assistant"
