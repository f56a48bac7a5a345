"""Turns that belong together: by meaning, by shared words, and a little by what was said right before and after.

A turn is three things side by side. Its text vector, after the direction that all turns share is taken away: that
differs from embedder to embedder and says what kind of log it is, not what is talked about. Its words, as TF-IDF:
names and identifiers, which a small embedder hardly tells apart. And a small share of both from its neighbours in the
session, because "yes, do that" is about what was asked. Ward linkage joins turns into groups; a turn that is not near
the others of its group is left out, for most logs hold things that were said once and belong to no theme.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from neuralstream.embed.base import Vectors

__all__ = ["Groups", "directions", "gather", "group_turns"]

# Chosen on workdays' development people, where any other within a third of these scores about as well.
_NEIGHBOUR = 0.08
"""Share of the turns right before and after in a turn's own features."""

_GROWTH = 0.65
"""n turns make n to this power groups: 13 for 50 turns, 57 for 500, 625 for 20,000."""

_LEAST_AFFINITY = 0.15
"""Cosine to the sum of the others of its group under which a turn belongs to no theme."""

_SMALLEST, _SMALLEST_MEAN = 2, 3
"""Fewest turns of a theme, and fewest on average."""

_MANY = 10
"""Turns from which their mean says what all share, rather than what these few are about."""

_AT_ONCE = 1500
"""Turns that are linked pair by pair; more of them are first gathered into so many close groups."""

_PROJECTED = 256
"""Dimensions that words are projected to where turns are many; dot products are kept within about .06."""

_LEARNT_FROM, _ROUNDS = 6000, 10
"""Turns that the close groups are learnt from, evenly spread, and the most rounds it takes."""

_BLOCK = 4096
_ROUNDING = 1e-5


class Groups(NamedTuple):
    """What belongs together.

    Attributes:
        rows: of each group at least two, in ascending order; no row is in two.
        features: (n, d) float32, length 1 or 0: what was compared.
    """

    rows: list[list[int]]
    features: Vectors


def group_turns(vectors: Vectors, words: Sequence[Sequence[str]], sessions: Sequence[str]) -> Groups:
    """Group turns; the same turns in the same order always give the same groups.

    Args:
        vectors: (n, dim) float32, L2-normalised, n at least 1.
        words: of each turn, the tokens that count, repeated as often as they occur.
        sessions: of each turn, its session; turns of a session stand in order.

    Returns:
        Groups by their first row. Memory grows with n, never with its square.
    """
    features = _features(vectors, words, sessions)
    gathered = gather(features, _AT_ONCE)
    centres = directions(_sums(features, gathered))
    wanted = max(1, min(round(len(features) ** _GROWTH), len(features) // _SMALLEST_MEAN))
    members: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(_ward(centres, wanted)[gathered]):
        members[int(group)].append(row)
    kept = (_near_ones(features, rows) for rows in members.values())
    return Groups([rows for rows in kept if len(rows) >= _SMALLEST], features)


def gather(features: Vectors, most: int) -> NDArray[np.int64]:
    """The close group of each row, numbered from 0: each alone where there are few, else spherical k-means.

    Dhillon and Modha, "Concept decompositions for large sparse text data using clustering", 2001.
    """
    if len(features) <= most:
        return np.arange(len(features))
    sample = _spread(features, _LEARNT_FROM)
    centres = _spread(features, most)
    nearest = np.zeros(len(sample), np.int64)
    for _ in range(_ROUNDS):
        before, nearest = nearest, _nearest(sample, centres)
        if np.array_equal(before, nearest):
            break
        centres = directions(_sums(sample, nearest, len(centres)))
    _, numbered = np.unique(_nearest(features, centres), return_inverse=True)
    return numbered


def directions(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; those without a direction stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 1e-6, lengths, 1), np.float32)


def _features(vectors: Vectors, words: Sequence[Sequence[str]], sessions: Sequence[str]) -> Vectors:
    """What is compared: (n, d) float32, length 1 or 0."""
    shared = vectors.mean(axis=0) if len(vectors) >= _MANY else 0
    own = np.hstack([directions(vectors - shared), _word_features(words)])
    return directions(np.asarray(own + _NEIGHBOUR * (_adjacent(sessions) @ own), np.float32))


def _word_features(words: Sequence[Sequence[str]]) -> Vectors:
    """TF-IDF of the tokens that at least two turns hold, (n, d) float32, rows of length 1 or 0.

    (1 + ln tf) ln(1 + n / df); Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, 6.4, with
    the 1 that keeps what every turn says from weighing nothing where turns are few.
    """
    from scipy.sparse import csr_array

    counts = [Counter(tokens) for tokens in words]
    frequency = Counter(token for counted in counts for token in counted)
    place = {token: number for number, token in enumerate(t for t, df in frequency.items() if df > 1)}
    weight = {token: math.log1p(len(words) / frequency[token]) for token in place}
    cells = [
        (row, place[token], (1 + math.log(tf)) * weight[token])
        for row, counted in enumerate(counts)
        for token, tf in counted.items()
        if token in place
    ]
    if not cells:
        return np.zeros((len(words), 0), np.float32)
    rows, columns, values = zip(*cells, strict=True)
    shape = (len(words), len(place))
    table = csr_array((np.array(values, np.float32), (np.array(rows), np.array(columns))), shape=shape)
    if len(words) <= _AT_ONCE:
        return directions(table.toarray())
    # Johnson and Lindenstrauss, 1984; the seed makes the projection the same every time.
    projection = np.random.default_rng(0).standard_normal((len(place), _PROJECTED), np.float32)
    return directions(np.asarray(table @ projection, np.float32))


def _adjacent(sessions: Sequence[str]) -> Any:
    """(n, n) sparse: 1 where two turns follow each other in a session."""
    from scipy.sparse import csr_array

    last: dict[str, int] = {}
    pairs = []
    for row, session in enumerate(sessions):
        if session in last:
            pairs += [(row, last[session]), (last[session], row)]
        last[session] = row
    rows, columns = np.array(pairs, np.int64).reshape(-1, 2).T
    return csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(sessions), len(sessions)))


def _ward(centres: Vectors, wanted: int) -> NDArray[np.int64]:
    """The group of each centre, at most `wanted` of them, by Ward's linkage (1963) over Euclidean distances."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(centres) == 1:
        return np.zeros(1, np.int64)
    # One matrix product; measuring pair by pair takes seconds where there are thousands of words.
    squared = np.einsum("ij,ij->i", centres, centres)
    first, second = np.triu_indices(len(centres), 1)
    apart = squared[first] + squared[second] - 2 * (centres @ centres.T)[first, second]
    # Equal turns differ by rounding alone and must not be told apart by it.
    apart[apart < _ROUNDING] = 0
    return np.asarray(fcluster(linkage(np.sqrt(apart), "ward"), wanted, "maxclust"), np.int64)


def _near_ones(features: Vectors, rows: Sequence[int]) -> list[int]:
    """Those of a group's rows that are near enough to the sum of the others."""
    members = features[rows]
    others = directions(members.sum(axis=0) - members)
    affinity = np.einsum("ij,ij->i", members, others)
    return [row for row, near in zip(rows, affinity, strict=True) if near >= _LEAST_AFFINITY]


def _spread(features: Vectors, most: int) -> Vectors:
    """At most so many rows, evenly spread."""
    return features[np.linspace(0, len(features) - 1, min(most, len(features))).astype(np.int64)]


def _nearest(features: Vectors, centres: Vectors) -> NDArray[np.int64]:
    blocks = (features[start : start + _BLOCK] @ centres.T for start in range(0, len(features), _BLOCK))
    return np.concatenate([np.argmax(block, axis=1) for block in blocks])


def _sums(features: Vectors, groups: NDArray[np.int64], count: int | None = None) -> Vectors:
    """The sum of each group's rows."""
    from scipy.sparse import csr_array

    shape = (count or int(groups.max()) + 1, len(groups))
    belongs = csr_array((np.ones(len(groups), np.float32), (groups, np.arange(len(groups)))), shape=shape)
    return np.asarray(belongs @ features, np.float32)
