"""Fusion: whatever any signal finds, scored by every feature, standardised within the query, weighted and summed.

A score is a sum of z-scores: it orders the hits of one query and says nothing across queries.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralstream.retrieve.features import FINDERS, MEASURED
from neuralstream.retrieve.linked import linked
from neuralstream.retrieve.priors import payload_features

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from neuralstream.ranking import Kind
    from neuralstream.retrieve.features import Candidate, Question, Source

__all__ = ["Found", "Table", "fuse", "measure", "tabulate", "trusted"]


class Found(NamedTuple):
    """A candidate, where it was found, its score, and the score of each signal that made it."""

    candidate: Candidate
    source: Source
    score: float
    signals: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """What the linear model reads for one query.

    Attributes:
        kind: the kind of conversation that the query's user has.
        names: the features.
        candidates: what was found.
        sources: where, by candidate.
        raw: (candidates, names) as measured; NaN where a feature does not apply.
    """

    kind: Kind
    names: tuple[str, ...]
    candidates: Sequence[Candidate]
    sources: Sequence[Source]
    raw: NDArray[np.float64]

    @property
    def ids(self) -> list[str]:
        """The candidates' point ids."""
        return [one.id for one in self.candidates]

    @property
    def values(self) -> NDArray[np.float64]:
        """(candidates, names), what the weights multiply: z-scores within the query, 0 where a feature does not apply.

        A prior of a role is standardised among the candidates of that role.
        """
        return _standardised(self.raw)


_EQUAL = 1e-12
"""Deviation relative to the largest value under which values count as equal."""

_AMONG = {"dense_session": ("dense",), "linked": FINDERS}
"""Features of a candidate among the others, and the measured signals that they are derived from."""


def tabulate(
    sources: Sequence[Source], names: Sequence[str], question: Question, *, kind: Kind, limit: int, shortlist: int
) -> Table:
    """The candidates of a query with these features.

    Args:
        sources: where to look; a point that two of them give counts as the first one's.
        names: features. Candidates are what `features.FINDERS` find, whatever is named, so that standardising does not
            depend on it; the graph, which finds what they cannot, adds its own where it is named.
        question: what is asked.
        kind: the kind of conversation.
        limit: points each signal contributes from each source.
        shortlist: candidates that are kept, those with the highest equal-weight sum of what found them.
    """
    names = tuple(dict.fromkeys(names))
    kept = _shortlist(sources, [*FINDERS, *(["graph"] if "graph" in names else [])], question, limit, shortlist)
    candidates: list[Candidate] = []
    places: list[Source] = []
    for source in sources:
        found = source.candidates([point for point, its in kept.items() if its is source])
        candidates += found
        places += [source] * len(found)
    return Table(kind, names, candidates, places, measure(candidates, places, names, question))


def _shortlist(
    sources: Sequence[Source], finders: Sequence[str], question: Question, limit: int, size: int
) -> dict[str, Source]:
    """The most promising points that any finder found, and where.

    What a finder did not find counts as good as the last that it did, or 0 where it has no more.
    """
    source_of: dict[str, Source] = {}
    rankings: list[tuple[Source, int, dict[str, float], float]] = []
    for source in sources:
        tops = source.top(finders, limit)
        for column, finder in enumerate(finders):
            ranked = tops[finder]
            rankings.append((source, column, dict(ranked), ranked[-1].score if len(ranked) >= limit else 0.0))
            for point, _ in ranked:
                source_of.setdefault(point, source)
    if len(source_of) <= size:
        return source_of
    points = list(source_of)
    row_of = {point: row for row, point in enumerate(points)}
    scores = np.zeros((len(points), len(finders)))
    for source, column, known, least in rankings:
        rows = [row_of[point] for point in points if source_of[point] is source]
        scores[rows, column] = [known.get(points[row], least) for row in rows]
    equal = trusted(dict.fromkeys(finders, 1.0), question.trust)
    total = _standardised(scores) @ np.array([equal[finder] for finder in finders])
    best = sorted(range(len(points)), key=lambda row: (-total[row], points[row]))[:size]
    return {points[row]: source_of[points[row]] for row in best}


def _standardised(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns with mean 0 and deviation 1 over what is not NaN; 0 for NaN, and where the values do not differ."""
    applies = ~np.isnan(raw)
    count = np.maximum(applies.sum(axis=0), 1)
    known = np.where(applies, raw, 0.0)
    centred = np.where(applies, known - known.sum(axis=0) / count, 0.0)
    deviation = np.sqrt((centred**2).sum(axis=0) / count)
    # Sums leave a remainder of rounding where all values are equal; dividing by it would make a signal of it.
    differs = deviation > _EQUAL * np.abs(known).max(axis=0, initial=0.0)
    values: NDArray[np.float64] = np.where(differs, centred / np.where(differs, deviation, 1.0), 0.0)
    return values


def trusted(weights: Mapping[str, float], trust: float) -> dict[str, float]:
    """Weights for a question whose embedding can be trusted so far, 0 to 1.

    Of a question in a script that the model cannot read, standardised cosines are noise. What they lose goes to BM25,
    so that priors do not decide alone.
    """
    lost = (1 - trust) * sum(weight for name, weight in weights.items() if name.startswith("dense"))
    scaled = {name: weight * trust if name.startswith("dense") else weight for name, weight in weights.items()}
    return {**scaled, "bm25": scaled.get("bm25", 0.0) + lost}


def fuse(table: Table, weights: Mapping[str, float], limit: int) -> list[Found]:
    """Rank a table by a linear model: the best `limit` candidates, best first, ties by id."""
    weighted = [column for column, name in enumerate(table.names) if weights.get(name)]
    total = table.values[:, weighted] @ np.array([weights[table.names[column]] for column in weighted])
    order = sorted(range(len(total)), key=lambda row: (-total[row], table.candidates[row].id))[:limit]
    return [Found(table.candidates[row], table.sources[row], float(total[row]), _signals(table, row)) for row in order]


def measure(
    candidates: Sequence[Candidate], sources: Sequence[Source], names: Sequence[str], question: Question
) -> NDArray[np.float64]:
    """Features as measured: (candidates, names); NaN where one does not apply.

    Args:
        candidates: whose; those of one source stand together.
        sources: the source of each.
        names: which features.
        question: what is asked.
    """
    raw = np.full((len(candidates), len(names)), np.nan)
    column = {name: place for place, name in enumerate(names)}
    needed = (*names, *(name for derived, needs in _AMONG.items() if derived in column for name in needs))
    from_source = [name for name in dict.fromkeys(needed) if name in MEASURED]
    measured = np.zeros((len(candidates), len(from_source)))
    start = 0
    for _, group in groupby(sources, key=id):
        end = start + len(list(group))
        measured[start:end] = sources[start].scores(from_source, candidates[start:end])
        start = end
    for place, name in enumerate(from_source):
        if name in column:
            raw[:, column[name]] = measured[:, place]
    from_payload = [name for name in names if name not in MEASURED and name not in _AMONG]
    raw[:, [column[name] for name in from_payload]] = payload_features(from_payload, candidates, question)
    if "dense_session" in column:
        raw[:, column["dense_session"]] = _best_of_session(candidates, measured[:, from_source.index("dense")])
    if "linked" in column:
        evidence = measured[:, [from_source.index(name) for name in _AMONG["linked"]]]
        raw[:, column["linked"]] = linked(question.query.text, candidates, evidence)
    return raw


def _best_of_session(candidates: Sequence[Candidate], cosines: NDArray[np.float64]) -> list[float]:
    """The best cosine among the candidates of each one's session: what lies below the top changes no session's best."""
    best: defaultdict[str, float] = defaultdict(lambda: -1.0)
    for one, cosine in zip(candidates, cosines, strict=True):
        best[one.session_id] = max(best[one.session_id], float(cosine))
    return [best[one.session_id] for one in candidates]


def _signals(table: Table, row: int) -> dict[str, float]:
    """What was measured of a candidate, without what does not apply."""
    return {name: float(value) for name, value in zip(table.names, table.raw[row], strict=True) if value == value}  # noqa: PLR0124 - NaN
