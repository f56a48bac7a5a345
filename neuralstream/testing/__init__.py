"""Fakes for tests of NeuralStream and of what is built on it: embedder, clock, extractor, model servers, a service.

    memory = NeuralStream(settings, clock=FakeClock(), embedder=FakeEmbedder(), extractor=ScriptedExtractor())

They need no network and no weights, and what they answer is the same on every machine.
"""

from neuralstream.testing.fakes import FakeClock, FakeEmbedder, ScriptedExtractor
from neuralstream.testing.ollama import OllamaReply, ScriptedOllama
from neuralstream.testing.openai import OpenAIReply, ScriptedOpenAI
from neuralstream.testing.server import ScriptedChat, ServerRequest
from neuralstream.testing.service import serving

__all__ = [
    "FakeClock",
    "FakeEmbedder",
    "OllamaReply",
    "OpenAIReply",
    "ScriptedChat",
    "ScriptedExtractor",
    "ScriptedOllama",
    "ScriptedOpenAI",
    "ServerRequest",
    "serving",
]
