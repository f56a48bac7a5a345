"""Rankings to beat that the core does not serve: rank_bm25's Okapi, over our analysis and over text split at spaces.

They rank what the evaluated memory holds, so a run compares like with like.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from neuralstream.analysis import analyse
from neuralstream.store.base import MemoryStore, Record, Where
from neuralstream.store.schema import GEMS, TERMS_DATED, TURNS
from neuralstream.types import Gem, Hit, Lane, Turn
from neuralstream.workbench import require

__all__ = ["BASELINES", "Baseline", "OkapiRanking"]

Baseline = Literal["okapi", "whitespace-bm25"]
"""`okapi`: the store's tokens of date, speaker and text. `whitespace-bm25`: raw text split at spaces."""

BASELINES: tuple[str, ...] = get_args(Baseline)


class OkapiRanking:
    """BM25Okapi with its own defaults (k1 1.5, b 0.75, epsilon 0.25) over one user's points.

    Args:
        name: which of the two.
        store: the memory that was filled.
        user_id: whose points.
        lane: turns, gems, or active gems with the turns that none of them covers.
    """

    def __init__(self, name: Baseline, store: MemoryStore, user_id: str, lane: Lane) -> None:
        self._name = name
        records = [record for collection, where in _places(user_id, lane) for record in store.scroll(collection, where)]
        self._items = [_item(record) for record in records]
        if name == "okapi":
            self._terms = [record.payload[TERMS_DATED].split() for record in records]
        else:
            self._terms = [(item.text if isinstance(item, Turn) else item.content).split() for item in self._items]
        # rank_bm25 divides by the corpus size and by the average length.
        self._okapi = require("rank_bm25").BM25Okapi(self._terms) if any(self._terms) else None

    def search(self, query: str, *, k: int, as_of: datetime) -> list[Hit]:
        """The k best of what was created by `as_of`; like the core's modes, nothing without a term of the query."""
        wanted = analyse(query) if self._name == "okapi" else query.split()
        if self._okapi is None or not wanted:
            return []
        found = [
            Hit(item, float(score), {self._name: float(score)})
            for item, terms, score in zip(self._items, self._terms, self._okapi.get_scores(wanted), strict=True)
            if not set(wanted).isdisjoint(terms) and item.created_at is not None and item.created_at <= as_of
        ]
        return sorted(found, key=lambda hit: (-hit.score, hit.id))[:k]


def _places(user_id: str, lane: Lane) -> tuple[tuple[str, Where], ...]:
    turns = (TURNS, Where(user_id, kind="turn", covered=False if lane == "all" else None))
    gems = (GEMS, Where(user_id, kind="gem", status="active"))
    return {"turns": (turns,), "gems": (gems,), "all": (turns, gems)}[lane]


def _item(record: Record) -> Turn | Gem:
    data = record.payload["data"]
    return Gem.from_dict(data) if record.payload["kind"] == "gem" else Turn.from_dict(data)
