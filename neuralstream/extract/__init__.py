"""From a batch of turns to gems: the extractors, and how new gems meet the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.extract.base import Extractor

__all__ = ["make_extractor"]


def make_extractor(settings: Settings) -> Extractor:
    """The extractor that the settings name: `extract.extractor`."""
    from neuralstream.extract.extractive import ExtractiveExtractor

    return ExtractiveExtractor(settings.extract)
