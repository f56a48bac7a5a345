"""From texts to vectors: the backends, and the choice between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neuralstream.errors import SettingsError

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder

__all__ = ["make_embedder"]

_LOCAL = "sentence-transformers:"
"""Before a path in the setting `embedding`: a model on this machine."""


def make_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name, with the disk cache in front of it unless `embed.cache` is off.

    `embedding = "sentence-transformers:PATH"` is a model on this machine, "sentence-transformers:all-MiniLM-L6-v2" the
    packaged one. Any other name is a model on the Ollama server at `ollama_url`. Without a server, the default name
    stands for the packaged model.

    Raises:
        SettingsError: the named model needs an Ollama server and `ollama_url` is unset, or the path holds no model.
        MissingPartError: a package is not installed.
    """
    embedder = _make_backend(settings)
    if not settings.embed.cache:
        return embedder
    from neuralstream.embed.cache import CachedEmbedder

    return CachedEmbedder(embedder, settings.cache_dir, query_prefix=settings.embed.query_prefix)


def _make_backend(settings: Settings) -> Embedder:
    from neuralstream.embed.sentence_transformer import PACKAGED_MODEL, SentenceTransformerEmbedder

    name = settings.embedding
    default: str = type(settings).model_fields["embedding"].default
    if name.startswith(_LOCAL):
        path = name.removeprefix(_LOCAL)
        return SentenceTransformerEmbedder(None if path == PACKAGED_MODEL else Path(path), settings.embed)
    if settings.ollama_url is not None:
        from neuralstream.embed.ollama import OllamaEmbedder

        return OllamaEmbedder(settings.ollama_url.get_secret_value(), name, settings.embed)
    if name == default:
        return SentenceTransformerEmbedder(None, settings.embed)
    raise SettingsError(
        f'embedding = "{name}" is a model on an Ollama server, and ollama_url is unset: set ollama_url, such as '
        f'"http://127.0.0.1:11434", or write "{_LOCAL}PATH" for a model on this machine'
    )
