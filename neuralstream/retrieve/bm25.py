"""BM25 over the engine's token fields, and the same formula over turns that are not in the engine yet."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.retrieve.documents import STRETCH, stretch_point_id
from neuralstream.store.base import Where
from neuralstream.store.schema import TERMS, TERMS_DATED, TERMS_NEAR, TERMS_REPLY, TERMS_SESSION, TERMS_USER, TURNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neuralstream.ranking import RankingSettings
    from neuralstream.retrieve.features import Candidate
    from neuralstream.store.base import MemoryStore

__all__ = ["FIELDS", "Corpus", "corpus", "score", "session_scores"]

FIELDS = {
    "bm25": TERMS_DATED,
    "bm25_text": TERMS,
    "bm25_near": TERMS_NEAR,
    "bm25_user": TERMS_USER,
    "bm25_reply": TERMS_REPLY,
    "coverage": TERMS_NEAR,
}
"""The token field that each signal ranks."""

_SAMPLE = 50
"""Newest turns whose mean length stands for all turns' where the engine does not tell its own."""


class Corpus(NamedTuple):
    """What BM25 needs to know of all documents: how many, how many hold each term, and their mean length in tokens."""

    size: int
    frequency: Mapping[str, int]
    mean_length: float


def score(terms: Iterable[str], document: Sequence[str], known: Corpus, *, k1: float, b: float) -> float:
    """BM25 of one document as the store computes it (see `MemoryStore.text`): Lucene's times (k1 + 1)."""
    counts = Counter(document)
    norm = k1 * (1 - b + b * len(document) / known.mean_length) if known.mean_length else k1
    total = 0.0
    for term in set(terms):
        if count := counts[term]:
            with_term = known.frequency[term]
            idf = math.log1p((known.size - with_term + 0.5) / (with_term + 0.5))
            total += idf * count * (k1 + 1) / (count + norm)
    return total


def corpus(store: MemoryStore, user_id: str, terms: Sequence[str], field: str, more: Sequence[Sequence[str]]) -> Corpus:
    """A user's stored turns (or, by their field, stretches) together with `more` documents that are not stored yet.

    The engine tells no document frequencies, but with k1 = 0 a term's score is its IDF, which gives the exact frequency
    back. The mean length is that of the newest stored turns and of `more`.

    Args:
        store: holds the stored turns.
        user_id: whose turns.
        terms: the terms whose frequency is needed.
        field: the token field.
        more: tokens of each further document.
    """
    where = Where(user_id, kind="session" if field == TERMS_SESSION else "turn")
    size = store.count(TURNS, where)
    frequency = dict.fromkeys(terms, 0)
    for term in frequency if size else ():
        best = store.text(TURNS, [term], field, where, 1, k1=0.0, b=0.0)
        if best:
            frequency[term] = round((size + 1) / math.exp(best[0].score) - 0.5)
    for term in frequency:
        frequency[term] += sum(term in document for document in more)
    newest = (turn.payload.get(field) for turn in store.newest(TURNS, where, _SAMPLE, keys=(field,)))
    lengths = [len(held.split()) for held in newest if held is not None]
    lengths += [len(document) for document in more]
    return Corpus(size + len(more), frequency, sum(lengths) / len(lengths) if lengths else 0.0)


def session_scores(
    store: MemoryStore,
    user_id: str,
    terms: Sequence[str],
    candidates: Sequence[Candidate],
    ranking: RankingSettings,
) -> dict[str, float]:
    """BM25 of the stretch of conversation that each candidate lies in."""
    place_of = {one.id: (one.session_id, one.index // STRETCH) for one in candidates}
    if not terms or not place_of:
        return dict.fromkeys(place_of, 0.0)
    stretches = {place: stretch_point_id(user_id, *place) for place in set(place_of.values())}
    where = Where(user_id, kind="session", ids=tuple(stretches.values()))
    ranked = store.text(TURNS, terms, TERMS_SESSION, where, len(stretches), k1=ranking.bm25_k1, b=ranking.bm25_b)
    known = dict(ranked)
    return {point: known.get(stretches[place], 0.0) for point, place in place_of.items()}
