"""Distilled gems against reference gems: how much of what a person would have kept is there, and how much else.

A set may hold reference gems for some batches of turns. A distilled gem *says* a reference gem when it cites a turn of
that batch and their texts are near: by the cosine of their vectors, or by the words they share. Each gem says at most
one reference gem and each reference gem is said by at most one, so that saying it twice, or all of it at once, earns
nothing; of all such pairings the one with the highest sum counts (`scipy.optimize.linear_sum_assignment`).

*Recall* is the share of the reference gems that are said. *Precision* is the share of the gems that say one, over those
whose source turns all lie in labelled batches: about what nobody labelled nothing is known. Gems count as the extractor
gave them, before they met older ones.

Neither measure reads: "port 6379" and "port 6381" are near in both. They tell extractors apart; evidence at a budget
says what a gem is worth.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from neuralstream.analysis import analyse
from neuralstream.errors import DatasetError
from neuralstream.workbench.stats import Interval, bootstrap_interval

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from neuralstream.embed.base import Embedder
    from neuralstream.types import Gem
    from neuralstream.workbench.datasets import Dataset

__all__ = [
    "OVERLAP",
    "SIMILARITY",
    "Agreement",
    "Outcome",
    "ReferenceBatch",
    "agreement",
    "read_reference_gems",
    "references_facts",
    "token_f1",
]

SIMILARITY = 0.5
"""Least cosine of a gem and the reference gem it says.

Chosen on workdays@dev with the packaged all-MiniLM-L6-v2 by reading 80 of the 279 nearest pairs of the extractive
extractor's gems: from .5 about nine in ten say the same, between .4 and .5 about two in three. Reference gems of one
batch, which say different things, are this near in 3 of 100 pairs. Another embedder has other cosines; compare runs of
the same one.
"""

OVERLAP = 0.3
"""Least F1 of shared words.

It keeps 71 of 100 of the pairs above that share a source turn and none of those that do not; 1 in 100 pairs of
different reference gems of one batch reach it.
"""


class ReferenceBatch(NamedTuple):
    """What a person distilled from a batch of one user's turns."""

    user_id: str
    turn_ids: frozenset[str]
    contents: tuple[str, ...]


class Outcome(NamedTuple):
    """Whether a reference gem is said, or a gem says one: by vectors, and by words."""

    user_id: str
    by_vectors: bool
    by_words: bool


class Agreement(NamedTuple):
    """An outcome for each reference gem, and for each gem that precision is about."""

    references: tuple[Outcome, ...]
    gems: tuple[Outcome, ...]

    def scores(self) -> dict[str, float]:
        """Recall and precision, 0 to 1; without any gem precision is 0."""
        return {name: float(np.mean(values)) if values else 0.0 for name, (values, _) in self._measures().items()}

    def intervals(self, *, seed: int) -> dict[str, Interval]:
        """95 % intervals, users drawn with replacement."""
        return {
            name: bootstrap_interval(values, users, seed=seed) if values else Interval(float("nan"), float("nan"))
            for name, (values, users) in self._measures().items()
        }

    def _measures(self) -> dict[str, tuple[list[float], list[str]]]:
        found = {}
        for name, outcomes in (("recall", self.references), ("precision", self.gems)):
            users = [one.user_id for one in outcomes]
            found[f"reference_{name}"] = ([float(one.by_vectors) for one in outcomes], users)
            found[f"reference_{name}_words"] = ([float(one.by_words) for one in outcomes], users)
        return found


def read_reference_gems(dataset: Dataset) -> list[ReferenceBatch]:
    """The labelled batches of a set's conversations; none where it has no reference gems.

    Raises:
        DatasetError: a line is not an object with `batch` and `gems`.
    """
    folder = dataset.spec.path / "gems"
    return [
        batch
        for conversation in dataset.conversations
        for batch in _read(folder / f"{conversation.name}.jsonl", conversation.name)
    ]


def references_facts(batches: Sequence[ReferenceBatch]) -> dict[str, Any]:
    """What gems are held against, as far as it changes a result; empty where a set has none."""
    if not batches:
        return {}
    plain = [[batch.user_id, sorted(batch.turn_ids), batch.contents] for batch in batches]
    digest = hashlib.sha256(json.dumps(plain).encode()).hexdigest()
    return {"references_sha256": digest, "similarity": SIMILARITY, "overlap": OVERLAP}


def agreement(gems: Sequence[Gem], batches: Sequence[ReferenceBatch], embedder: Embedder) -> Agreement:
    """Match each user's gems to that user's reference gems.

    Args:
        gems: as an extractor gave them, of any users.
        batches: what was labelled.
        embedder: whose cosines `SIMILARITY` is held against.
    """
    labelled: dict[str, list[ReferenceBatch]] = defaultdict(list)
    for batch in batches:
        labelled[batch.user_id].append(batch)
    references: list[Outcome] = []
    judged: list[Outcome] = []
    for user_id, own in labelled.items():
        turn_ids = frozenset[str]().union(*(batch.turn_ids for batch in own))
        near = [gem for gem in gems if gem.user_id == user_id and not turn_ids.isdisjoint(gem.source_turns)]
        wanted = [(content, batch.turn_ids) for batch in own for content in batch.contents]
        texts, contents = [gem.content for gem in near], [content for content, _ in wanted]
        together = np.array([[not ids.isdisjoint(gem.source_turns) for _, ids in wanted] for gem in near], dtype=bool)
        together = together.reshape(len(near), len(wanted))
        by_vectors = _pair(_cosines(texts, contents, embedder), together, SIMILARITY)
        by_words = _pair(_overlaps(texts, contents), together, OVERLAP)
        references += [Outcome(user_id, n in by_vectors.values(), n in by_words.values()) for n in range(len(wanted))]
        judged += [
            Outcome(user_id, n in by_vectors, n in by_words)
            for n, gem in enumerate(near)
            if turn_ids.issuperset(gem.source_turns)
        ]
    return Agreement(tuple(references), tuple(judged))


def token_f1(one: Counter[str], other: Counter[str]) -> float:
    """2 |A ∩ B| / (|A| + |B|) over two bags of tokens; 0 where they share none. SQuAD's F1 (Rajpurkar et al., 2016)."""
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) if shared else 0.0


def _cosines(texts: Sequence[str], contents: Sequence[str], embedder: Embedder) -> NDArray[np.float64]:
    if not texts or not contents:
        return np.zeros((len(texts), len(contents)))
    vectors = embedder.embed_documents([*texts, *contents]).astype(np.float64)
    return vectors[: len(texts)] @ vectors[len(texts) :].T


def _overlaps(texts: Sequence[str], contents: Sequence[str]) -> NDArray[np.float64]:
    ours, theirs = ([Counter(analyse(text)) for text in side] for side in (texts, contents))
    rows = [[token_f1(one, other) for other in theirs] for one in ours]
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(contents))


def _pair(nearness: NDArray[np.float64], together: NDArray[np.bool_], least: float) -> dict[int, int]:
    """The reference gem that each gem says, by their places: one to one, only pairs that are `together`."""
    worth = np.where(together & (nearness >= least), nearness, 0.0)
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return {int(row): int(column) for row, column in zip(rows, columns, strict=True) if worth[row, column] > 0}


def _read(file: Path, user_id: str) -> Iterator[ReferenceBatch]:
    if not file.is_file():
        return
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row: dict[str, Any] = json.loads(line)
            yield ReferenceBatch(user_id, frozenset(row["batch"]), tuple(gem["content"] for gem in row["gems"]))
        except (ValueError, TypeError, KeyError) as error:
            raise DatasetError(f"{file} line {number} needs an object with batch and gems: {error!r}") from error
