"""Versions of a gem: which replaced which, and what becomes of them when one of them is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neuralstream.extract.consolidate import said_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from neuralstream.types import Gem

__all__ = ["stands_for", "versions", "without"]


def stands_for(gem: Gem) -> tuple[str, ...]:
    """Ids of the gems that this one stands for now."""
    return (*gem.supersedes, *gem.merged)


def versions(gem: Gem, gems: Iterable[Gem]) -> list[Gem]:
    """Every gem that is tied to a gem by replacing and merging, itself included, oldest first.

    Args:
        gem: one of them.
        gems: all gems of its user.
    """
    known = {one.gem_id: one for one in gems}
    tied: dict[str, set[str]] = {}
    for one in known.values():
        for old in stands_for(one):
            tied.setdefault(one.gem_id, set()).add(old)
            tied.setdefault(old, set()).add(one.gem_id)
    reached, waiting = {gem.gem_id}, [gem.gem_id]
    while waiting:
        fresh = tied.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh
    return sorted((known[gem_id] for gem_id in reached & known.keys()), key=lambda one: (said_at(one), one.gem_id))


def without(gems: Sequence[Gem], doomed: Collection[Gem]) -> list[Gem]:
    """Gems that stay, as they are once others are forgotten: as if those had never been said.

    What a forgotten gem replaced holds again, or was replaced by what replaced the forgotten one.

    Args:
        gems: those of the user that stay.
        doomed: those that are forgotten.

    Returns:
        Those of `gems` that change.
    """
    gone = {gem.gem_id: gem for gem in doomed}
    heirs = {gem.gem_id: _Inherited(gem, gone) for gem in gems}
    ends: dict[str, Gem] = {}
    for gem in sorted(gems, key=lambda one: (said_at(one), one.gem_id)):
        for old in heirs[gem.gem_id].all:
            ends.setdefault(old, gem)
    orphans = {old for gem in doomed for old in stands_for(gem)}
    changed = []
    for gem in gems:
        now = replace(gem, supersedes=heirs[gem.gem_id].supersedes, merged=heirs[gem.gem_id].merged)
        if gem.gem_id in orphans:
            heir = ends.get(gem.gem_id)
            now = replace(now, status="superseded" if heir else "active", valid_until=said_at(heir) if heir else None)
        if now != gem:
            changed.append(now)
    return changed


class _Inherited:
    """What a gem replaces and merges once the forgotten ones in between are left out."""

    def __init__(self, gem: Gem, gone: dict[str, Gem]) -> None:
        self.supersedes = _left(gem.supersedes, gone)
        self.merged = _left(gem.merged, gone)
        self.all = (*self.supersedes, *self.merged)


def _left(ids: Sequence[str], gone: dict[str, Gem]) -> tuple[str, ...]:
    left: dict[str, None] = {}
    waiting, seen = list(ids), set()
    while waiting:
        gem_id = waiting.pop(0)
        if gem_id in seen:
            continue
        seen.add(gem_id)
        if gem_id in gone:
            waiting += stands_for(gone[gem_id])
        else:
            left[gem_id] = None
    return tuple(left)
