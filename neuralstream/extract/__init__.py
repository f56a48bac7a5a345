"""From a batch of turns to gems: the extractors, their prompts, and how new gems meet the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.extract.base import Extractor

__all__ = ["make_extractor"]


def make_extractor(settings: Settings) -> Extractor:
    """The extractor that `extract.extractor` names.

    "auto" is the language model where a server is named or recorded answers are replayed, else rules. An extractor with
    a model has a `close`.

    Raises:
        MissingPartError: a model is asked for, and no server is named.
        SettingsError: the prompt does not exist, or cannot be used.
    """
    if _by_model(settings):
        from neuralstream.extract.llm_extractor import LlmExtractor
        from neuralstream.extract.prompts import load_prompt
        from neuralstream.llm import make_language_model

        prompt = load_prompt(settings.extract.prompt, settings.extract.prompts)
        return LlmExtractor(make_language_model(settings), prompt, settings)
    from neuralstream.extract.extractive import ExtractiveExtractor

    return ExtractiveExtractor(settings.extract)


def _by_model(settings: Settings) -> bool:
    if settings.extract.extractor != "auto":
        return settings.extract.extractor == "llm"
    return bool(settings.ollama_url or settings.openai_url) or settings.llm.mode == "replay"
