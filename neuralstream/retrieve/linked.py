"""Multi-hop: what of the candidates is told of the same people, places and things as the best of them.

A question about two facts often shares words with one of them only; the other is reached through a name that both
mention. So candidates are the nodes of a small graph, linked by every name that two or more of them hold, a rare one
more strongly, and activation spreads from those that words and vectors rank first: personalised PageRank (Haveliwala,
"Topic-sensitive PageRank", WWW 2002), as Gutiérrez et al., "HippoRAG" (NeurIPS 2024), start it from passages.

Two things keep it from saying again what BM25 says. Names that the question holds link nothing. And what a candidate
gives to its own names does not come back to it. It needs no state and no pass over the memory: a name's frequency is
that among the candidates, so new, changed and deleted points count at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neuralstream.entities import link_entities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from neuralstream.retrieve.features import Candidate

__all__ = ["linked"]

_TEMPERATURE = 2.0
"""Of the softmax over the sum of four z-scores that says where the walk starts: a deviation of that sum is about 3."""

_RESTART = 0.5
_STEPS = 8
"""Hops from candidate to candidate: what comes later moves no more than 0.4 % of the activation."""

_LENGTH = 0.5
"""How far activation is divided by a candidate's degree: undivided, long texts lead; divided fully, short ones do."""


def linked(text: str, candidates: Sequence[Candidate], evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Activation that reaches each candidate from others through shared names: (candidates,), 0 where nothing does.

    Args:
        text: the question.
        candidates: what was found, with payload `entities` and, of gems, `topics`.
        evidence: (candidates, signals), scores of the signals that the walk starts by.
    """
    from scipy.sparse import csr_array

    rows, columns, names = _incidence(text, candidates)
    if not names:
        return np.zeros(len(candidates))
    shape = (len(candidates), names)
    holds = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    held_by = holds.T.tocsr()
    frequency = np.bincount(columns, minlength=names)
    weight = np.log1p((len(candidates) - frequency + 0.5) / (frequency + 0.5))
    degree = holds @ weight
    divisor = np.where(degree > 0, degree, 1.0)
    onward = weight / frequency
    back = holds @ onward
    # Every name of a candidate starts with the candidate's share: more names, more ways to go.
    arriving = _start(evidence) * degree
    reached = np.zeros(len(candidates))
    for _ in range(_STEPS):
        leaving = arriving / divisor
        arriving = (1 - _RESTART) * (holds @ (onward * (held_by @ leaving)) - back * leaving)
        reached += arriving
    # Where a name's only other holder was never reached, subtraction leaves a remainder of rounding.
    activation: NDArray[np.float64] = np.where(reached > 1e-12, reached, 0.0) / divisor**_LENGTH
    return activation


def _incidence(text: str, candidates: Sequence[Candidate]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Which candidate (row) holds which name (column), and the number of names: those that link, and no others."""
    holders: dict[str, list[int]] = {}
    for row, one in enumerate(candidates):
        for name in dict.fromkeys((*one.payload.get("entities", ()), *one.payload.get("topics", ()))):
            holders.setdefault(name.casefold(), []).append(row)
    shared = {name: rows for name, rows in holders.items() if len(rows) > 1}
    for name in link_entities(text, shared):
        del shared[name]
    sizes = [len(rows) for rows in shared.values()]
    rows = np.array([row for rows in shared.values() for row in rows], np.int64)
    return rows, np.repeat(np.arange(len(shared)), sizes), len(shared)


def _start(evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the walk starts: a distribution over the candidates, softmax of their summed z-scores."""
    deviation = evidence.std(axis=0)
    total = ((evidence - evidence.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)).sum(axis=1)
    share = np.exp((total - total.max()) / _TEMPERATURE)
    start: NDArray[np.float64] = share / share.sum()
    return start
