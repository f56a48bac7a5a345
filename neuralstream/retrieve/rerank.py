"""The optional last word on a ranking: a cross-encoder reads the question together with each of the best hits.

It sees what no signal sees, how the two fit, and costs a pass of its model for every hit: off unless
`retrieval.reranker` names a model on this machine.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from neuralstream.embed.sentence_transformer import require, without_progress_bars
from neuralstream.errors import SettingsError
from neuralstream.retrieve.documents import date_text, embedded_text
from neuralstream.retrieve.hybrid import Found
from neuralstream.text import encodable
from neuralstream.types import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neuralstream.config import RetrievalSettings
    from neuralstream.types import Gem

__all__ = ["CrossEncoderReranker", "Reranker", "make_reranker", "reranked"]

RERANK = "rerank"
"""What the reranker's score is called among a hit's signals."""

_WINDOW = 512
"""Tokens of question and text together that are read at once, where the model's own limit is not lower."""

_OVERLAP = 32
"""Tokens that neighbouring windows of a long text share."""

_BATCH = 32


class Reranker(Protocol):
    """Says how well texts answer a question."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score for each text, higher is better; comparable within one call only."""
        ...


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder on this machine's CPU, loaded at the first question; no network call.

    A text that does not fit into the model's window beside the question is read in overlapping windows and scores as
    its best. Equal calls give equal scores. Safe to use from several threads; one call runs at a time.

    Args:
        path: folder of the model.

    Raises:
        MissingPartError: sentence-transformers is not installed.
        SettingsError: the folder holds no cross-encoder.
    """

    def __init__(self, path: Path | str) -> None:
        self._folder = Path(path).expanduser()
        require("sentence_transformers", otherwise="unset retrieval.reranker")
        if not _is_cross_encoder(self._folder):
            raise SettingsError(
                f"retrieval.reranker = {str(self._folder)!r} is not the folder of a cross-encoder; name one that was "
                "saved by sentence_transformers.CrossEncoder, or unset it"
            )
        self._lock = threading.Lock()
        self._loaded: Any = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question, as the model's logits, higher is better.

        Raises:
            SettingsError: the model cannot be loaded, gives several scores for a pair, or none that is finite.
        """
        if not texts:
            return []
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._folder)
            windows = [(row, window) for row, text in enumerate(texts) for window in self._windows(query, text)]
            answers = self._predict([pair for _, pair in windows])
        best = [-math.inf] * len(texts)
        for (row, _), score in zip(windows, answers, strict=True):
            best[row] = max(best[row], score)
        return best

    def _predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        from torch.nn import Identity

        # The model's own activation may be a sigmoid, which makes equals of all good hits.
        answer = self._loaded.predict(list(pairs), batch_size=_BATCH, activation_fn=Identity(), show_progress_bar=False)
        scores = [float(score) for score in answer]
        if not all(map(math.isfinite, scores)):
            raise SettingsError(f"retrieval.reranker: the model in {self._folder} answered with NaN; name another")
        return scores

    def _windows(self, query: str, text: str) -> Iterator[tuple[str, str]]:
        """The question with each part of the text that fits beside it; the question itself has half of the window."""
        tokenizer = self._loaded.tokenizer
        limits = (getattr(self._loaded, "max_seq_length", None), tokenizer.model_max_length, _WINDOW)
        room = min(limit for limit in limits if limit) - tokenizer.num_special_tokens_to_add(pair=True)
        query, text = encodable(query), encodable(text)
        asked = self._places(query)
        if len(asked) > room // 2:
            asked = asked[: room // 2]
            query = query[: asked[-1][1]]
        width = room - len(asked)
        places = self._places(text)
        if len(places) <= width:
            yield query, text
            return
        step = width - min(_OVERLAP, width // 4)
        for start in range(0, len(places) - (width - step), step):
            part = places[start : start + width]
            yield query, text[part[0][0] : part[-1][1]]

    def _places(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends, in characters."""
        found = self._loaded.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        places: list[tuple[int, int]] = found["offset_mapping"]
        return places


def make_reranker(settings: RetrievalSettings) -> CrossEncoderReranker | None:
    """The reranker that the settings name, or None."""
    return None if settings.reranker is None else CrossEncoderReranker(settings.reranker)


def reranked(
    found: Sequence[Found], items: Mapping[str, Turn | Gem], reranker: Reranker, query: str, depth: int
) -> list[Found]:
    """A ranking whose first hits stand in the reranker's order, and the rest after them as before.

    Hits read anew get "rerank" among their signals. Scores stay the ranking's own, the first hit's the highest, so that
    they still fall from hit to hit.

    Args:
        found: best first.
        items: turns and gems by point id; of the first hits, those without one are left out.
        reranker: reads question and hits.
        query: the question; one that says nothing leaves the order alone.
        depth: how many hits are read.

    Returns:
        The hits, best first; ties of the reranker by id.
    """
    if not query.strip():
        return list(found)
    head = [one for one in found[:depth] if one.candidate.id in items]
    scores = reranker.scores(query, [_read_text(items[one.candidate.id]) for one in head])
    order = sorted(zip(scores, head, strict=True), key=lambda scored: (-scored[0], scored[1].candidate.id))
    best = [
        one._replace(score=place.score, signals={**one.signals, RERANK: score})
        for place, (score, one) in zip(head, order, strict=True)
    ]
    return [*best, *found[depth:]]


def _read_text(item: Turn | Gem) -> str:
    """What the reranker reads: without the date, it would undo what was found by one."""
    moment = item.at() if isinstance(item, Turn) else item.created_at
    return f"{date_text(moment)}\n{embedded_text(item)}"


def _is_cross_encoder(folder: Path) -> bool:
    """Whether a folder says that its model scores pairs: any other would be given random weights to score with."""
    about = _read_json(folder / "config_sentence_transformers.json")
    if "model_type" in about:
        return bool(about["model_type"] == "CrossEncoder")
    return any(
        "SequenceClassification" in str(name) for name in _read_json(folder / "config.json").get("architectures") or ()
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _load(folder: Path) -> Any:
    from safetensors import SafetensorError
    from sentence_transformers import CrossEncoder

    try:
        with without_progress_bars():
            model = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise SettingsError(
            f"retrieval.reranker: {folder} cannot be loaded as a cross-encoder: {error}; save it anew"
        ) from error
    if model.num_labels != 1:
        raise SettingsError(
            f"retrieval.reranker: the model in {folder} gives a pair {model.num_labels} scores; name one that gives 1"
        )
    if not getattr(model.tokenizer, "is_fast", False):
        raise SettingsError(f"retrieval.reranker: {folder} has no fast tokenizer; name a model that has one")
    return model.eval()
