"""What all points of a collection have in common, so that a query need not ask for it.

The embedded engine tries a condition on every point, which takes as long as ranking them. Where one user holds all the
points that a query can rank, the condition on the user says nothing, and BM25's statistics need not be counted for that
user alone. One process owns the engine's files, so what it wrote since it last looked is all that can have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from neuralstream.clock import parse_time
from neuralstream.store.base import Point, Where
from neuralstream.store.schema import TEXT_FIELDS, VECTORS

__all__ = ["Scope"]

_OWNERS = ("user_id", "kind")
_MOST = 1000
"""Answers kept: a user that has none asks again."""


class Scope:
    """What is known of one collection. Its store's lock guards it.

    Args:
        others: whether a point that holds a field (of tokens, or a vector) has another value in a payload field than
            this: `others("terms", "user_id", "ann")`.
        holds: whether any point holds this vector.
        newest: the latest `created_at` of all points; `datetime.max` where a point has none, so that no limit of time
            can be left out, and `datetime.min` where there are no points.
    """

    def __init__(
        self,
        others: Callable[[str, str, str], bool],
        holds: Callable[[str], bool],
        newest: Callable[[], datetime],
    ) -> None:
        self._others = others
        self._holds = holds
        self._held: dict[str, bool] = {}
        self._newest = newest
        self._common: dict[tuple[str, str, str], bool] = {}
        self._latest: datetime | None = None

    def narrowest(self, where: Where, field: str) -> Where:
        """A `Where` that lets through the same of the points that hold `field`, by as few conditions as it takes."""
        user_id = None if self._is_common(field, "user_id", where.user_id) else where.user_id
        kind = None if self._is_common(field, "kind", where.kind) else where.kind
        # `until` also says which gems cover a turn.
        until = None if where.covered is None and self._is_past(where.until) else where.until
        return replace(where, user_id=user_id, kind=kind, until=until)

    def holds(self, vector: str) -> bool:
        """Whether any point has a vector of this name."""
        if vector not in self._held:
            self._held[vector] = self._holds(vector)
        return self._held[vector]

    def add(self, points: Sequence[Point]) -> None:
        """Points are about to be written."""
        held: dict[tuple[str, str], set[str]] = {}
        for point in points:
            for field in (*point.vectors, *(name for name in TEXT_FIELDS if name in point.payload)):
                for owner in _OWNERS:
                    held.setdefault((field, owner), set()).add(point.payload[owner])
        self._held.update((field, True) for field, _ in held if field in VECTORS)
        for (field, owner, value), common in self._common.items():
            if common and held.get((field, owner), {value}) != {value}:
                self._common[field, owner, value] = False
        if self._latest is not None:
            self._latest = max([self._latest, *(_created_at(point.payload) for point in points)])

    def forget(self, changed: Mapping[str, Any] | None = None) -> None:
        """Points were deleted, or these payload fields of some changed: what is known may not hold any more."""
        if changed is None or not changed.keys().isdisjoint((*_OWNERS, *TEXT_FIELDS, "created_at")):
            self._common.clear()
            self._held.clear()
            self._latest = None

    def _is_common(self, field: str, owner: str, value: str | None) -> bool:
        if value is None:
            return False
        key = (field, owner, value)
        if key not in self._common:
            if len(self._common) >= _MOST:
                self._common.clear()
            self._common[key] = not self._others(*key)
        return self._common[key]

    def _is_past(self, until: datetime | None) -> bool:
        if until is None:
            return True
        if self._latest is None:
            self._latest = self._newest()
        return self._latest <= until


def _created_at(payload: Mapping[str, Any]) -> datetime:
    created_at = payload.get("created_at")
    return datetime.max.replace(tzinfo=UTC) if created_at is None else parse_time(created_at)
