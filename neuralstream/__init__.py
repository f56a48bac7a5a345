"""NeuralStream: memory without end for language-model agents, and a workbench that measures it.

    from neuralstream import NeuralStream, Settings, Turn

    with NeuralStream(Settings.load()) as memory:
        memory.capture(Turn.exchange("Move redis to 6381", "Done, 6379 stays for staging.", session_id="s1"))
        print(memory.context("which port does redis use?", session_id="s1").text)

What is imported from here stays; other modules may change with any release.
"""

import logging

from neuralstream.aio import AsyncNeuralStream
from neuralstream.client import NeuralStreamClient
from neuralstream.config import Settings
from neuralstream.errors import (
    CassetteMissError,
    ContextOverflowError,
    DatasetError,
    EmbeddingError,
    ExtractionError,
    InputError,
    LogFormatError,
    MissingPartError,
    NeuralStreamError,
    NotFoundError,
    SettingsError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from neuralstream.stream import NeuralStream
from neuralstream.types import ContextBlock, Gem, Hit, Part, Source, Status, Summary, Theme, Turn, Usage

__version__ = "0.1.0"

# Silent unless the program configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AsyncNeuralStream",
    "CassetteMissError",
    "ContextBlock",
    "ContextOverflowError",
    "DatasetError",
    "EmbeddingError",
    "ExtractionError",
    "Gem",
    "Hit",
    "InputError",
    "LogFormatError",
    "MissingPartError",
    "NeuralStream",
    "NeuralStreamClient",
    "NeuralStreamError",
    "NotFoundError",
    "Part",
    "Settings",
    "SettingsError",
    "Source",
    "Status",
    "StoreError",
    "StoreLockedError",
    "StoreMismatchError",
    "Summary",
    "Theme",
    "Turn",
    "Usage",
    "__version__",
]
