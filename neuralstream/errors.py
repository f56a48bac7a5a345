"""Every error NeuralStream raises on purpose.

    NeuralStreamError
    ├── SettingsError          a setting is unknown, malformed or out of range
    ├── InputError             a value passed to a call cannot be used
    │   ├── LogFormatError     a file is in none of the known log formats
    │   ├── DatasetError       a data set SPEC or file cannot be used
    │   └── NotFoundError      an id names nothing
    ├── MissingPartError       a part is not installed, or does not answer
    │   └── CassetteMissError  an answer is to be replayed that was not recorded
    ├── StoreError             the vector store refused an operation
    │   ├── StoreMismatchError the store was filled by another embedder, analyser or schema
    │   └── StoreLockedError   another process holds the embedded store
    ├── EmbeddingError         an embedder answered with something that is not an embedding
    ├── ExtractionError        a batch of turns could not be distilled
    │   └── ContextOverflowError  a prompt and its answer do not fit into the model's context
    └── RefusedError           what was measured is not good enough to be served

A message says what was wrong, the value that was seen, and what to do next. `exit_code` is what the command line exits
with: 1 failed, 2 wrong use, 3 a part is missing or down, 4 the gate or a promotion refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CassetteMissError",
    "ContextOverflowError",
    "DatasetError",
    "EmbeddingError",
    "ExtractionError",
    "InputError",
    "LogFormatError",
    "MissingPartError",
    "NeuralStreamError",
    "NotFoundError",
    "RefusedError",
    "SettingsError",
    "StoreError",
    "StoreLockedError",
    "StoreMismatchError",
]


class NeuralStreamError(Exception):
    """Root of every error raised on purpose."""

    exit_code = 1


class SettingsError(NeuralStreamError, ValueError):
    """A setting is unknown, malformed or out of range."""

    exit_code = 2


class InputError(NeuralStreamError, ValueError):
    """A value passed to a call cannot be used."""

    exit_code = 2


class LogFormatError(InputError):
    """A file is in none of the known log formats."""


class DatasetError(InputError):
    """A data set SPEC or one of its files cannot be used."""


class NotFoundError(InputError, LookupError):
    """An id names nothing that is stored."""


class MissingPartError(NeuralStreamError):
    """A part (a package, a server) is not installed, or does not answer."""

    exit_code = 3


class CassetteMissError(MissingPartError):
    """An answer is to be replayed that was not recorded; the message says how to record it."""


class StoreError(NeuralStreamError):
    """The vector store refused an operation."""


class StoreMismatchError(StoreError):
    """The store was filled by another embedder, analyser or schema."""


class StoreLockedError(StoreError):
    """Another process holds the embedded store."""

    exit_code = 3


class EmbeddingError(NeuralStreamError):
    """An embedder answered with something that is not an embedding."""


class ExtractionError(NeuralStreamError):
    """A batch of turns could not be distilled; the batch goes to the dead-letter stream with this message.

    Attributes:
        answer: what a language model answered that could not be used, kept beside the batch; None where none did.
        cost: what was spent on it, named as in `Extraction.cost`.
    """

    def __init__(self, message: str, *, answer: str | None = None) -> None:
        super().__init__(message)
        self.answer = answer
        self.cost: dict[str, Any] = {}


class ContextOverflowError(ExtractionError):
    """A prompt and its answer do not fit into the model's context, or the server cut the prompt."""


class RefusedError(NeuralStreamError):
    """What was measured is not good enough to be served; the message names every rule that it breaks."""

    exit_code = 4
