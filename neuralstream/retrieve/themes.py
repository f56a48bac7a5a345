"""Themes: what conversations keep returning to, over the whole memory rather than for one query.

Turns are grouped by the direction of their vectors, after the direction that all of them share is taken away: it
differs from embedder to embedder and says what kind of log it is, not what is talked about. A group is named by the
words that more of its turns than of the others hold.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralstream.analysis import analyse
from neuralstream.store.base import Where
from neuralstream.store.schema import TERMS, TURNS, VECTOR_TEXT
from neuralstream.types import Theme, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from neuralstream.embed.base import Vectors
    from neuralstream.store.base import MemoryStore

__all__ = ["find_themes"]

_LEAST_TERMS = 3
"""Distinctive words of a turn that can belong to a theme: greetings and thanks have fewer."""

_COMMON = 0.03
"""Share of all turns from which a word is not distinctive: in a chat, such as "great" or "photo"."""

_FEW = 10
"""Turns in which a word is distinctive however few turns there are."""

_PER_ROOT = 2
"""Groups for each square root of the number of turns. On workdays' development split, with about 50 turns a person, 16
groups match the evidence of thematic questions best, by Ward linkage better than by spherical k-means.
"""

_GROUPED_AT_ONCE = 1500
"""Turns that are linked pair by pair; more of them are first gathered into so many close groups."""

_ROUNDS = 10
"""Most rounds of gathering."""

_NAME_TERMS, _TERMS, _EXEMPLARS = 3, 8, 3

_TOO_ALIKE = 0.95
"""Cosine from which an exemplar says nothing new."""

_SURFACE = re.compile(r"[^\W_]+(?:[._-][^\W_]+)*")
_PARTS = re.compile(r"[._-]")


class _Said(NamedTuple):
    """A turn, its distinct tokens, and its vector."""

    turn: Turn
    terms: frozenset[str]
    vector: Vectors


def find_themes(
    store: MemoryStore, user_id: str, *, since: datetime | None, until: datetime | None, limit: int
) -> list[Theme]:
    """Recurring subjects of a user's turns.

    A turn belongs to one theme or, standing alone, to none. Turns that are not in the store yet do not count.

    Args:
        store: where the turns are.
        user_id: whose.
        since, until: only turns of this closed range.
        limit: most themes.

    Returns:
        Largest first; the same turns always give the same themes.
    """
    everything = _read(store, Where(user_id, kind="turn", since=since, until=until))
    names = _Names(everything)
    said = [one for one in everything if len(names.distinctive(one.terms)) >= _LEAST_TERMS]
    groups = _groups(np.array([one.vector for one in said])) if len(said) > 1 else []
    themes = [_theme([said[at] for at in group], names) for group in groups]
    return sorted(themes, key=lambda theme: (-theme.size, theme.first_at, theme.turn_ids))[:limit]


def _read(store: MemoryStore, where: Where) -> list[_Said]:
    """The turns that say something, oldest first."""
    found = [
        _Said(
            Turn.from_dict(record.payload["data"]),
            frozenset(record.payload[TERMS].split()),
            record.vectors[VECTOR_TEXT],
        )
        for record in store.scroll(TURNS, where, with_vectors=True)
        if VECTOR_TEXT in record.vectors
    ]
    return sorted(found, key=lambda one: (one.turn.at(), one.turn.session_id, one.turn.index or 0, one.turn.turn_id))


def _groups(vectors: Vectors) -> list[list[int]]:
    """Rows that belong together, at least two each."""
    from scipy.cluster.hierarchy import fcluster, linkage

    centred = _directions(vectors - vectors.mean(axis=0))
    gathered = _gather(centred, _GROUPED_AT_ONCE)
    centres = _directions(np.array([centred[gathered == group].sum(axis=0) for group in range(gathered.max() + 1)]))
    if len(centres) == 1:
        return [list(range(len(vectors)))]
    wanted = max(1, min(round(_PER_ROOT * len(vectors) ** 0.5), len(vectors) // 3))
    merged = fcluster(linkage(centres, "ward"), wanted, "maxclust")[gathered]
    members: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(merged):
        members[int(group)].append(row)
    return [rows for rows in members.values() if len(rows) > 1]


def _gather(vectors: Vectors, most: int) -> NDArray[np.int64]:
    """The close group of each row, numbered from 0: each alone where there are few, else spherical k-means.

    Dhillon and Modha, "Concept decompositions for large sparse text data using clustering", 2001.
    """
    if len(vectors) <= most:
        return np.arange(len(vectors))
    centres = vectors[np.linspace(0, len(vectors) - 1, most).astype(np.int64)]
    nearest = np.zeros(len(vectors), np.int64)
    for _ in range(_ROUNDS):
        before, nearest = nearest, np.argmax(vectors @ centres.T, axis=1)
        if np.array_equal(before, nearest):
            break
        total = np.zeros_like(centres)
        np.add.at(total, nearest, vectors)
        centres = _directions(total)
    _, numbered = np.unique(nearest, return_inverse=True)
    return numbered


def _directions(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; those without a direction stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 1e-6, lengths, 1), np.float32)


def _theme(said: Sequence[_Said], names: _Names) -> Theme:
    terms = names.terms(said)
    return Theme(
        name=", ".join(terms[:_NAME_TERMS]),
        terms=terms,
        size=len(said),
        first_at=said[0].turn.at(),
        last_at=said[-1].turn.at(),
        exemplars=_exemplars(said),
        turn_ids=tuple(one.turn.turn_id for one in said),
    )


def _exemplars(said: Sequence[_Said]) -> tuple[Turn, ...]:
    """The most central turns, none of which repeats another."""
    vectors = _directions(np.array([one.vector for one in said]))
    centrality = vectors @ vectors.sum(axis=0)
    chosen: list[int] = []
    for row in np.argsort(-centrality, kind="stable"):
        if len(chosen) < _EXEMPLARS and not (chosen and (vectors[chosen] @ vectors[row]).max() >= _TOO_ALIKE):
            chosen.append(int(row))
    return tuple(said[row].turn for row in chosen)


class _Names:
    """What is distinctive within all turns that are looked at."""

    def __init__(self, said: Sequence[_Said]) -> None:
        self._turns = len(said)
        self._frequency = Counter(term for one in said for term in one.terms)
        self._common = max(_FEW, _COMMON * len(said))

    def distinctive(self, terms: Iterable[str]) -> list[str]:
        """Those of the terms that are not said all the time."""
        return [term for term in terms if self._frequency[term] <= self._common]

    def terms(self, said: Sequence[_Said]) -> tuple[str, ...]:
        """Terms said in these turns more often than in others, best first, as they are mostly written there."""
        inside = Counter(term for one in said for term in one.terms if len(term) > 1 and not term.isdecimal())
        gain = {term: self._gain(term, count, len(said)) for term, count in inside.items()}
        written = _surfaces(one.turn.text for one in said)
        chosen: list[str] = []
        for term in sorted(inside, key=lambda term: (-gain[term], -inside[term], -len(term), term)):
            surface = written.get(term, term)
            if len(chosen) < _TERMS and not any(_overlap(surface, other) for other in chosen):
                chosen.append(surface)
        return tuple(chosen)

    def _gain(self, term: str, count: int, size: int) -> float:
        """What the term tells about a turn being one of these: its part of the Kullback-Leibler divergence."""
        return count * math.log(count * self._turns / (size * self._frequency[term]))


def _surfaces(texts: Iterable[str]) -> Mapping[str, str]:
    """How each token is written most often, compounds whole and by their parts."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for surface in _SURFACE.findall(text):
            for part in {surface, *_PARTS.split(surface)}:
                token = _token(part)
                if token:
                    counts[token][part] += 1
    return {token: min(seen, key=lambda part: (-seen[part], part)) for token, seen in counts.items()}


@lru_cache(maxsize=65_536)
def _token(surface: str) -> str | None:
    """The token that stands for a word or compound as a whole."""
    tokens = analyse(surface)
    return tokens[-1] if tokens else None


def _overlap(one: str, other: str) -> bool:
    return one.casefold() in other.casefold() or other.casefold() in one.casefold()
