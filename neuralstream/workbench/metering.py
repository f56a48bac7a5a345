"""What an extractor gave and what it cost, seen from outside: the core needs no hook for being measured."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import ExtractionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from neuralstream.config import LlmSettings
    from neuralstream.extract.base import Batch, Extraction, Extractor
    from neuralstream.types import Gem

__all__ = ["COUNTED", "MeteredExtractor", "close_after", "extractor_facts"]

COUNTED = ("calls", "tokens", "prompt_tokens", "answer_tokens", "invalid", "repairs", "split")
"""What recorded answers determine, of `Extraction.cost`; seconds and what came from a cassette they do not."""


class MeteredExtractor:
    """Adds up what an extractor's answers cost, those that led to nothing too, and keeps the gems of each batch.

    Attributes:
        cost: totals by the names in `COUNTED`, and "recorded": answers that came from a cassette.
        seconds: spent in the extractor.
        model_seconds: what its calls took, or took when they were recorded.
    """

    def __init__(self, extractor: Extractor) -> None:
        self._extractor = extractor
        self._gems: dict[str, tuple[Gem, ...]] = {}
        self._first: dict[str, Mapping[str, int]] = {}
        self.cost: Counter[str] = Counter()
        self.seconds = 0.0
        self.model_seconds = 0.0

    @property
    def name(self) -> str:
        """The extractor's own."""
        return self._extractor.name

    def extract(self, batch: Batch) -> Extraction:
        """What the extractor says."""
        began = time.perf_counter()
        try:
            extraction = self._extractor.extract(batch)
        except ExtractionError as error:
            self._add(batch, error.cost)
            raise
        finally:
            self.seconds += time.perf_counter() - began
        self._add(batch, extraction.cost)
        self._gems[batch.batch_id] = extraction.gems
        return extraction

    @property
    def valid_answers(self) -> float | None:
        """Share of answers that could be used as they came, 0 to 1; None where no model was asked.

        Answers to repairs, and tries after the first of a batch, are left out: they follow from a bad answer.
        """
        total: Counter[str] = Counter()
        for counts in self._first.values():
            total.update(counts)
        answers = total["calls"] - total["repairs"]
        return 1 - total["invalid"] / answers if answers > 0 else None

    def gems(self, dead: Iterable[str] = ()) -> list[Gem]:
        """The gems of every batch, as they were before they met older ones, but for those of `dead` batches."""
        left_out = frozenset(dead)
        return [gem for batch_id, gems in self._gems.items() if batch_id not in left_out for gem in gems]

    def _add(self, batch: Batch, cost: Mapping[str, Any]) -> None:
        counts = {name: int(cost[name]) for name in (*COUNTED, "recorded") if name in cost}
        self.cost.update(counts)
        self._first.setdefault(batch.batch_id, counts)
        self.model_seconds += float(cost.get("seconds", 0))


def extractor_facts(extractor: Extractor, settings: LlmSettings) -> dict[str, Any]:
    """What distils, as far as it can change a result: model, prompt, and the recorded answers it may draw on.

    Returns:
        name; for a language model also "prompt", "digest" (of prompt and options) and, where answers are recorded or
        replayed, "cassette_sha256", of the file as it is now; None without one.
    """
    facts: dict[str, Any] = {"name": extractor.name}
    if hasattr(extractor, "prompt"):
        facts |= {"prompt": extractor.prompt, "digest": getattr(extractor, "digest", "")}
        facts["cassette_sha256"] = None if settings.mode == "live" else _sha256(settings.cassette)
    return facts


def close_after(extractor: Extractor) -> Callable[[], object]:
    """What lets go of an extractor's connections."""
    close: Callable[[], object] = getattr(extractor, "close", lambda: None)
    return close


def _sha256(file: Path | None) -> str | None:
    if file is None or not file.is_file():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
