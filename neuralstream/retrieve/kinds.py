"""Which kind of conversation a user's memory holds: what finds the evidence in one kind misleads in the other.

Among people every turn is a remark of a line or two, names and dates are what sets turns apart, and words recur because
friends keep to their subjects. With an assistant, turns differ tenfold in length, later questions use other words, and
what the user said is asked for more than what was answered; where a turn is a whole exchange, the latter tells nothing.
`reports/tuning.md` has the figures.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from neuralstream.retrieve.documents import EXCHANGE, REMEMBERED, role_of
from neuralstream.store.base import Where
from neuralstream.store.schema import TURNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuralstream.ranking import Kind
    from neuralstream.store.base import MemoryStore
    from neuralstream.types import Turn

__all__ = ["kind_of", "kind_of_role"]

_SAMPLE = 5
"""Newest turns that are looked at: a user's logs rarely change kind, and when they do the newer ones count."""


def kind_of(store: MemoryStore, user_id: str, pending: Sequence[Turn]) -> Kind:
    """The kind that most of a user's newest turns are of; of equals, the newest's.

    Args:
        store: holds the stored turns.
        user_id: whose memory.
        pending: turns that are not stored yet.
    """
    said = [turn for turn in pending if turn.session_id != REMEMBERED]
    newest = sorted(said, key=lambda turn: turn.at(), reverse=True)[:_SAMPLE]
    roles = [role_of(turn) for turn in newest]
    if len(roles) < _SAMPLE:
        talk = Where(user_id, kind="turn", not_session_ids=(REMEMBERED,))
        stored = store.newest(TURNS, talk, _SAMPLE - len(roles), keys=("role",))
        roles += [record.payload["role"] for record in stored]
    kinds = Counter(kind_of_role(role) for role in roles)
    return kinds.most_common(1)[0][0] if kinds else "exchange"


def kind_of_role(role: str) -> Kind:
    """The kind of conversation that a turn of this role (`documents.role_of`) comes from."""
    if role == EXCHANGE:
        return "exchange"
    return "people" if role == "person" else "assistant"
