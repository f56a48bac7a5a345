"""The seam between a batch of turns and the gems distilled from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from neuralstream.types import Gem, Turn

__all__ = ["Batch", "Extraction", "Extractor"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What an extractor works on.

    Attributes:
        batch_id: identifies the batch; the same turns make the same id.
        turns: the turns to distil, oldest first, all of one session and user; never empty.
        history: earlier turns of the session, oldest first, for understanding only.
        trigger: what formed it: "batch", "context", "idle", "end", "compaction", "reset" or "shutdown".
    """

    batch_id: str
    turns: tuple[Turn, ...]
    history: tuple[Turn, ...] = ()
    trigger: str = "batch"


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor answers: gems (maybe none), and what it cost ("calls", "tokens", "seconds", "repairs")."""

    gems: tuple[Gem, ...] = ()
    cost: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class Extractor(Protocol):
    """Distils gems. Every implementation passes `tests/extract/test_contract.py`."""

    @property
    def name(self) -> str:
        """What is recorded in a gem's `model`."""
        ...

    def extract(self, batch: Batch) -> Extraction:
        """Distil `batch.turns`.

        Every gem cites only turns of `batch.turns`, carries their user and session, and has the id that `Gem.make_id`
        gives.

        Raises:
            ExtractionError: the batch cannot be distilled; the turns stay in the buffer or go to the dead letters.
        """
        ...
