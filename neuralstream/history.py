"""What is on record about a gem: its versions, what merged into it, and who said so. And corrections by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neuralstream.entities import find_entities
from neuralstream.errors import InputError
from neuralstream.extract.chains import stands_for, versions
from neuralstream.indexing import turn_point_id
from neuralstream.retrieve.recency import find_gem
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS
from neuralstream.types import Gem, Part, Turn

if TYPE_CHECKING:
    from neuralstream.parts import Parts
    from neuralstream.store.base import MemoryStore

__all__ = ["Version", "correct", "history"]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a gem.

    Attributes:
        gem: it.
        replaced_by: ids of the gems that say otherwise now, or the same more fully.
        evidence: the turns that say it and are still kept, oldest first.
    """

    gem: Gem
    replaced_by: tuple[str, ...]
    evidence: tuple[Turn, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "gem": self.gem.to_dict(),
            "replaced_by": list(self.replaced_by),
            "evidence": [turn.to_dict() for turn in self.evidence],
        }


def history(store: MemoryStore, user_id: str, gem_id: str) -> list[Version]:
    """Every version of a gem, oldest first; see `NeuralStream.history`."""
    gem = find_gem(store, user_id, gem_id)
    everything = [Gem.from_dict(one.payload["data"]) for one in store.scroll(GEMS, Where(user_id, kind="gem"))]
    chain = versions(gem, everything)
    return [
        Version(
            one,
            tuple(other.gem_id for other in chain if one.gem_id in stands_for(other)),
            _turns(store, user_id, one.evidence),
        )
        for one in chain
    ]


def correct(parts: Parts, user_id: str, gem_id: str, text: str) -> Gem:
    """Replace what a gem says by hand; see `NeuralStream.correct`."""
    from neuralstream.capture.intake import prepare

    now = parts.clock()
    old = find_gem(parts.store, user_id, gem_id)
    # Cleaned and masked as everything that is kept.
    told = prepare(Turn((Part("user", text),), old.source.session_id, user_id=user_id), parts.settings, now)
    if told is None:
        raise InputError(f"there is nothing to correct gem {old.gem_id} to in {text[:60]!r}; write what it says")
    with parts.worker.paused(), parts.buffer.alone(f"gems:{user_id}"):
        old = find_gem(parts.store, user_id, old.gem_id)
        if old.status != "active":
            raise InputError(
                f"gem {old.gem_id} was replaced already; `neuralstream gems show {old.gem_id[:8]} --history` shows by "
                "which, correct that one"
            )
        if told.text == old.content:
            return old
        new = replace(
            old,
            gem_id=Gem.make_id(user_id, old.source.session_id, old.source_turns, told.text),
            content=told.text,
            summary="",
            context="",
            snippet=told.text,
            questions=(),
            entities=find_entities(told.text),
            confidence=1.0,
            created_at=now,
            valid_from=now,
            supersedes=(old.gem_id,),
            merged=(),
            model="correct",
            prompt="",
            embedder=parts.embedder.name,
        )
        parts.indexer.index_gems([new, replace(old, status="superseded", valid_until=now)])
    return new


def _turns(store: MemoryStore, user_id: str, turn_ids: tuple[str, ...]) -> tuple[Turn, ...]:
    records = store.retrieve(TURNS, [turn_point_id(user_id, turn_id) for turn_id in turn_ids])
    turns = (Turn.from_dict(record.payload["data"]) for record in records)
    return tuple(sorted(turns, key=lambda turn: (turn.at(), turn.index or 0)))
