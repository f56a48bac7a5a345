"""New gems meet the old: what is said again becomes evidence of the gem that says it already.

Merging is careful, because a lost fact cannot be told from one that was never said: two gems that differ in a number, a
name or a negation stay two, however near their vectors are. Doing a batch again changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neuralstream.analysis import words
from neuralstream.entities import find_entities

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neuralstream.config import ExtractSettings
    from neuralstream.types import Gem

__all__ = ["Consolidation", "consolidate"]

# Words that turn a statement round. Two gems of which only one has such a word do not say the same.
_TURNING_WORDS = """
    not no never none neither nor without cannot t nicht kein keine keinen nie niemals ohne pas jamais sans sin
    nunca non mai senza nao sem niet geen nooit zonder bez nigdy inte aldrig utan on off enabled disabled enable
    disable true false before after more less above below over under up down in out open closed opened close start
    stop started stopped add remove added removed increase decrease increased decreased first last min max allow
    deny allowed denied accept reject accepted rejected always sometimes old new yes primary secondary left right
"""
_TURNING = frozenset(_TURNING_WORDS.split())

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_CAPITAL = re.compile(r"[^\W\d_]\w*")


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What became of new gems.

    Attributes:
        store: gems to write: new ones, and old ones with more evidence.
        merged: ids of new gems that are not stored, each with the id of the gem that has its turns as evidence now.
    """

    store: tuple[Gem, ...]
    merged: Mapping[str, str]


def consolidate(
    new: Sequence[Gem], similar: Callable[[Gem], Sequence[tuple[Gem, float]]], settings: ExtractSettings
) -> Consolidation:
    """Decide for each new gem whether it is stored or is evidence of another.

    It merges into a gem of the same user with the same words, or with a cosine of at least `duplicate_similarity` and
    the same numbers, names and negations. It does not where something in between said otherwise: after "port 6379" and
    "port 6381", a new "port 6379" is news.

    Args:
        new: the gems of a batch, of one user.
        similar: the active stored gems nearest to a gem, with their cosine, -1 to 1.
        settings: `duplicate_similarity`.
    """
    written: dict[str, Gem] = {}
    merged: dict[str, str] = {}
    for gem in new:
        neighbours = _neighbours(gem, similar(gem), written, settings.duplicate_similarity)
        if any(old.gem_id == gem.gem_id for old in neighbours):
            continue
        # The newest of those: what was said again after a contradiction is the one to add to.
        same = max(
            (old for old in neighbours if _says_the_same(gem, old)),
            key=lambda old: (old.created_at, old.gem_id),
            default=None,
        )
        if same is None or _contradicted_since(same, neighbours):
            written[gem.gem_id] = gem
            continue
        merged[gem.gem_id] = same.gem_id
        evidence = tuple(dict.fromkeys((*same.evidence, *gem.evidence)))
        if evidence != same.evidence:
            written[same.gem_id] = replace(same, evidence=evidence)
    return Consolidation(tuple(written.values()), merged)


def _neighbours(gem: Gem, found: Sequence[tuple[Gem, float]], written: Mapping[str, Gem], least: float) -> list[Gem]:
    """Gems that may say the same, the likeliest first: those with the same words, then by cosine."""
    scored = {
        old.gem_id: (written.get(old.gem_id, old), cosine)
        for old, cosine in found
        if old.user_id == gem.user_id and (cosine >= least or _plain(old) == _plain(gem))
    }
    for other in written.values():
        if other.user_id == gem.user_id and _plain(other) == _plain(gem):
            scored.setdefault(other.gem_id, (other, 1.0))
    ranked = sorted(scored.values(), key=lambda item: (_plain(item[0]) != _plain(gem), -item[1], item[0].gem_id))
    return [old for old, _ in ranked]


def _says_the_same(gem: Gem, old: Gem) -> bool:
    return _plain(gem) == _plain(old) or _particulars(gem) == _particulars(old)


def _contradicted_since(same: Gem, neighbours: Sequence[Gem]) -> bool:
    return any(other.created_at > same.created_at and not _says_the_same(other, same) for other in neighbours)


def _plain(gem: Gem) -> str:
    return " ".join(gem.content.casefold().split()).rstrip(".!… ")


def _particulars(gem: Gem) -> tuple[frozenset[str], ...]:
    """Numbers, names and turning words: what makes two nearly equal sentences say different things."""
    capitals = frozenset(word.casefold() for word in _CAPITAL.findall(gem.content) if word[0].isupper())
    return (
        frozenset(_NUMBER.findall(gem.content)),
        capitals | frozenset(find_entities(gem.content)),
        frozenset(words(gem.content)) & _TURNING,
    )
