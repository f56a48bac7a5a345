"""New gems meet the old: what is said again is evidence, what is said anew replaces what holds no more.

Merging and replacing are careful, because a lost fact cannot be told from one that was never said: where neither is
certain, both gems stay. Nothing is deleted: a gem that was replaced keeps the time until which it held; a search as
of an earlier moment finds it. Doing a batch again changes nothing.

A statement that arrives late, after a newer one that replaces it, is kept as replaced from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from neuralstream.extract.particulars import particulars, plain
from neuralstream.extract.updates import replaces

if TYPE_CHECKING:
    from datetime import datetime

    from neuralstream.config import ExtractSettings
    from neuralstream.types import Gem

__all__ = ["Consolidation", "Pair", "Similar", "Verdict", "consolidate", "said_at"]

Verdict = Literal["same", "updates", "different"]
Pair = tuple["Gem", "Gem"]
"""The newer gem and the older one."""
Similar = Callable[["Gem"], Sequence[tuple["Gem", float]]]
Judge = Callable[[Sequence[Pair]], Mapping[tuple[str, str], Verdict]]

_JUDGED = 3
"""Nearest gems that a judge is asked about, for each new one."""


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What became of new gems.

    Attributes:
        store: gems to write, at once: new ones, and old ones that have more evidence or were replaced.
        merged: ids of gems that are part of another now, each with the other's id.
        superseded: ids of gems that were replaced, each with the id of the gem that replaced it.
    """

    store: tuple[Gem, ...]
    merged: Mapping[str, str]
    superseded: Mapping[str, str]


def consolidate(
    new: Sequence[Gem],
    similar: Similar,
    settings: ExtractSettings,
    *,
    cosine: Callable[[Gem, Gem], float] = lambda *_: 0.0,
    judge: Judge | None = None,
) -> Consolidation:
    """Decide for each new gem whether it is stored, is part of another, and what it replaces.

    Two gems of a user say the same when they have the same words; or when they are near, have the same numbers and
    negations, and all words of the shorter one are in the longer one, which is the one that stays. What replaces is
    told by `updates.replaces`; the older of the two is replaced, whichever is distilled first.

    Args:
        new: the gems of a batch, of one user.
        similar: the stored gems nearest to a gem, replaced ones too, each with its cosine, -1 to 1.
        settings: `duplicate_similarity`, `duplicate_overlap`, `update_similarity`, `update_overlap`.
        cosine: of two of the new gems.
        judge: says of pairs that the rules cannot tell what they are; the rules alone where it is None.
    """
    found = {gem.gem_id: [near for near in similar(gem) if near[0].user_id == gem.user_id] for gem in new}
    verdicts = judge(_undecided(new, found, settings)) if judge else {}
    meeting = _Meeting(settings, verdicts, cosine)
    for gem in new:
        meeting.admit(gem, found[gem.gem_id])
    return Consolidation(tuple(meeting.written.values()), meeting.merged, meeting.superseded)


def said_at(gem: Gem) -> datetime:
    """When a statement began to hold, as far as is known."""
    return gem.valid_from or gem.created_at


class _Meeting:
    """What of a batch is settled so far."""

    def __init__(
        self,
        settings: ExtractSettings,
        verdicts: Mapping[tuple[str, str], Verdict],
        cosine: Callable[[Gem, Gem], float],
    ) -> None:
        self._settings = settings
        self._verdicts = verdicts
        self._cosine = cosine
        self._admitted: dict[str, Gem] = {}
        self.written: dict[str, Gem] = {}
        self.merged: dict[str, str] = {}
        self.superseded: dict[str, str] = {}

    def admit(self, gem: Gem, found: Sequence[tuple[Gem, float]]) -> None:
        near = self._neighbours(gem, found)
        for old, _ in near:
            if old.gem_id == gem.gem_id:
                self._finish(old, near)
                return
            if gem.gem_id in old.merged:
                self.merged[gem.gem_id] = old.gem_id
                return
        self._admitted[gem.gem_id] = gem
        same = self._same(gem, near)
        if same is None:
            self._store(gem, near)
        elif _fuller(gem, same):
            self._take_over(gem, same, near)
        else:
            self.merged[gem.gem_id] = same.gem_id
            self._write(replace(same, evidence=_joined(same.evidence, gem.evidence), merged=(*same.merged, gem.gem_id)))

    def _neighbours(self, gem: Gem, found: Sequence[tuple[Gem, float]]) -> list[tuple[Gem, float]]:
        """What is stored, as it is by now, and what of this batch came before; the nearest first."""
        known = {old.gem_id: (self.written.get(old.gem_id, old), cosine) for old, cosine in found}
        for other in self.written.values():
            if other.gem_id not in known and other.user_id == gem.user_id:
                admitted = self._admitted.get(other.gem_id)
                known[other.gem_id] = (other, self._cosine(gem, admitted) if admitted else 0.0)
        return sorted(known.values(), key=lambda item: (-item[1], item[0].gem_id))

    def _finish(self, stored: Gem, near: Sequence[tuple[Gem, float]]) -> None:
        """The gem of a batch that is done again: what a crash left of replacing others is made up for."""
        replaced = {*stored.supersedes, *stored.merged}
        for old, _ in near:
            if old.gem_id in replaced and old.status == "active":
                self._write(replace(old, status="superseded", valid_until=said_at(stored)))

    def _same(self, gem: Gem, near: Sequence[tuple[Gem, float]]) -> Gem | None:
        """The gem that says the same and held when this was said: of several the newest."""
        alike = [
            old for old, cosine in near if _holds(old, said_at(gem)) and self._relation(gem, old, cosine) == "same"
        ]
        same = max(alike, key=lambda old: (old.created_at, old.gem_id), default=None)
        if same is None or self._said_otherwise_since(same, gem, near):
            return None
        return same

    def _said_otherwise_since(self, same: Gem, gem: Gem, near: Sequence[tuple[Gem, float]]) -> bool:
        """Whether something as near, but not the same, came in between: after "6379" and "6381", "6379" is news."""
        between = (old for old, cosine in near if cosine >= self._settings.duplicate_similarity and old is not same)
        return any(
            same.created_at < old.created_at <= gem.created_at and _relation(gem, old, 1.0, self._settings) != "same"
            for old in between
        )

    def _store(self, gem: Gem, near: Sequence[tuple[Gem, float]]) -> None:
        """Keep a gem that says something new, and settle what it replaces and what replaces it."""
        at = said_at(gem)
        gone = [
            old
            for old, cosine in near
            if said_at(old) <= at and _holds(old, at) and self._relation(gem, old, cosine) == "updates"
        ]
        later = [old for old, cosine in near if said_at(old) > at and self._relation(old, gem, cosine) == "updates"]
        gem = replace(gem, supersedes=_joined(gem.supersedes, [old.gem_id for old in gone]))
        if later:
            first = min(later, key=lambda old: (said_at(old), old.gem_id))
            gem = replace(gem, status="superseded", valid_until=said_at(first))
            self._write(replace(first, supersedes=_joined(first.supersedes, [gem.gem_id])))
            self.superseded[gem.gem_id] = first.gem_id
        for old in gone:
            self._write(replace(old, status="superseded", valid_until=at))
            self.superseded[old.gem_id] = gem.gem_id
        self._write(gem)

    def _take_over(self, gem: Gem, old: Gem, near: Sequence[tuple[Gem, float]]) -> None:
        """Let the fuller wording stand for both."""
        evidence = _joined(old.evidence, gem.evidence)
        gem = replace(gem, evidence=evidence, supersedes=old.supersedes, merged=(*old.merged, old.gem_id))
        self._write(replace(old, status="superseded", valid_until=said_at(gem)))
        self.merged[old.gem_id] = gem.gem_id
        self._store(gem, [(other, cosine) for other, cosine in near if other.gem_id != old.gem_id])

    def _relation(self, newer: Gem, older: Gem, cosine: float) -> Verdict:
        told = _relation(newer, older, cosine, self._settings)
        return told or self._verdicts.get((newer.gem_id, older.gem_id), "different")

    def _write(self, gem: Gem) -> None:
        self.written[gem.gem_id] = gem


def _undecided(
    new: Sequence[Gem], found: Mapping[str, Sequence[tuple[Gem, float]]], settings: ExtractSettings
) -> list[Pair]:
    """Pairs that are near and that no rule decides, the newer gem of each first."""
    pairs: list[Pair] = []
    for gem in new:
        near = sorted(found[gem.gem_id], key=lambda item: (-item[1], item[0].gem_id))
        open_pairs = [
            (gem, old) if said_at(old) <= said_at(gem) else (old, gem)
            for old, cosine in near
            if old.gem_id != gem.gem_id and old.status == "active" and cosine >= settings.update_similarity
        ]
        cosine_of = {old.gem_id: cosine for old, cosine in near}
        pairs += [
            (newer, older)
            for newer, older in open_pairs[:_JUDGED]
            if (newer, older) not in pairs
            and _relation(newer, older, cosine_of[older.gem_id if newer is gem else newer.gem_id], settings) is None
        ]
    return pairs


def _relation(newer: Gem, older: Gem, cosine: float, settings: ExtractSettings) -> Verdict | None:
    """What the rules say; None where they cannot tell."""
    if plain(newer.content) == plain(older.content):
        return "same"
    if replaces(newer.content, older.content, cosine, settings):
        return "updates"
    near = cosine >= settings.duplicate_similarity
    return "same" if near and _says_the_same(newer, older, settings.duplicate_overlap) else None


def _says_the_same(one: Gem, other: Gem, overlap: float) -> bool:
    mine, theirs = particulars(one.content), particulars(other.content)
    if not mine.agrees_with(theirs):
        return False
    shorter = min(len(mine.topic), len(theirs.topic))
    return len(mine.topic & theirs.topic) >= overlap * shorter


def _fuller(gem: Gem, old: Gem) -> bool:
    """Whether the new wording says more; where neither does, the one that was there stays."""
    return len(particulars(gem.content).topic) > len(particulars(old.content).topic)


def _holds(gem: Gem, at: datetime) -> bool:
    return gem.status == "active" or (gem.valid_until is not None and gem.valid_until > at)


def _joined(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))
