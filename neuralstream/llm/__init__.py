"""The seam to a language model: a request in, an answer out.

    with make_language_model(settings) as model:
        print(model.answer(Request("Say hello.")).text)

What is asked twice is answered alike as far as the server allows it: temperature 0 and a fixed seed; where the answers
are recorded on a cassette, exactly alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralstream.errors import MissingPartError
from neuralstream.llm.base import Answer, LanguageModel, LiveModel, Request
from neuralstream.llm.calls import Calls, CountedModel

if TYPE_CHECKING:
    from neuralstream.config import Settings

__all__ = ["Answer", "Calls", "CountedModel", "LanguageModel", "Request", "live_model", "make_language_model"]


def make_language_model(settings: Settings) -> CountedModel:
    """The model that the settings name, its calls counted: asked live, recorded, or replayed.

    Raises:
        MissingPartError: they name no server, and it is not replayed.
        InputError: the cassette has a line that is no recording.
    """
    if settings.llm.mode == "live" or settings.llm.cassette is None:
        return CountedModel(live_model(settings))
    from neuralstream.llm.cassette import Cassette
    from neuralstream.llm.recorded import RecordedModel

    live = live_model(settings) if settings.llm.mode == "record" else None
    return CountedModel(RecordedModel(Cassette(settings.llm.cassette), settings.gem_model, settings.llm, live))


def live_model(settings: Settings) -> LiveModel:
    """The model on its server: the OpenAI-compatible one, or Ollama's.

    Raises:
        MissingPartError: the settings name no server.
    """
    if settings.openai_url is not None:
        from neuralstream.llm.openai_compatible import OpenAICompatibleModel

        key = settings.openai_api_key
        return OpenAICompatibleModel(
            settings.openai_url.get_secret_value(),
            settings.gem_model,
            settings.llm,
            api_key=key.get_secret_value() if key else None,
        )
    if settings.ollama_url is not None:
        from neuralstream.llm.ollama import OllamaModel

        return OllamaModel(settings.ollama_url.get_secret_value(), settings.gem_model, settings.llm)
    raise MissingPartError(
        f"no language model is configured: set ollama_url, such as http://localhost:11434, where "
        f"`ollama pull {settings.gem_model}` was run; or openai_url, or llm.mode = 'replay' with llm.cassette"
    )
