"""The seam to a language model: a request in, an answer out.

    with make_language_model(settings) as model:
        print(model.answer(Request("Say hello.")).text)

What is asked twice is answered alike as far as the server allows it: temperature 0 and a fixed seed; where the answers
are recorded on a cassette, exactly alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralstream.errors import MissingPartError
from neuralstream.llm.base import Answer, LanguageModel, Request
from neuralstream.llm.calls import Calls, CountedModel

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["Answer", "Calls", "CountedModel", "LanguageModel", "Request", "make_language_model"]


def make_language_model(settings: Settings) -> CountedModel:
    """The model that the settings name.

    Raises:
        MissingPartError: they name no server.
    """
    from neuralstream.llm.ollama import OllamaModel

    if settings.ollama_url is None:
        raise MissingPartError(
            f"no language model is configured: set ollama_url, such as http://localhost:11434, where "
            f"`ollama pull {settings.gem_model}` was run"
        )
    return CountedModel(OllamaModel(settings.ollama_url.get_secret_value(), settings.gem_model, settings.llm))
