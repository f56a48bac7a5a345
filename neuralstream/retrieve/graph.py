"""The graph of a user's memory, and spreading activation over it.

Nodes are points (turns and gems), words, names (entities, topics and speakers of more than one word; one word is its
own node), noun phrases and sessions. A point is linked to all of these that it holds, by their inverse document
frequency; a turn to the next one of its session; a gem to its source turns. A query starts at the words, phrases and
names it holds, and activation spreads as personalised PageRank (Haveliwala, "Topic-sensitive PageRank", WWW 2002): a
walker follows links by weight and returns to the start with probability `graph_restart`.

What it can do: find a turn that shares no word with the query, because it stands beside one that does or is told by a
gem that does; `reports/graph.md` shows that it ranks about as well as BM25. What it cannot do: add to the sum of BM25,
neighbourhoods and vectors, which know the same links. So hybrid leaves it out unless a configuration says otherwise,
and follows names from what it finds first (`linked`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralstream.analysis import analyse
from neuralstream.entities import find_phrases, link_entities
from neuralstream.retrieve.documents import turn_point_id
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TERMS_DATED, TURNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from neuralstream.config import RetrievalSettings
    from neuralstream.store.base import MemoryStore, Record

__all__ = ["MemoryGraph"]

_USERS = 8
"""Graphs kept in memory, those used last: about 1 KB for each turn."""

_STEPS = 8
"""Steps of the walk: at a restart of 0.3 what comes later moves no more than 6 % of the activation."""

_REACHED = 2000
"""Points that a query activates, the strongest ones."""

_DECIMALS = 12
"""Activation is rounded, so that the order in which points were read does not show."""

_LATE = 32
"""Points read beyond the number of new ones: concurrent sessions are not stored in the order of their times."""

_LENGTH = 0.75
"""How far a point's activation is divided by its degree; undivided, long turns come first whatever is asked. Two people
talking would like less, a user with an assistant, whose turns differ tenfold in length, needs this much.
"""


class MemoryGraph:
    """The graphs of all users of a store, built when first asked and kept up to date. Safe to use from several threads.

    Args:
        store: where turns and gems are.
        settings: `graph_restart`.
    """

    def __init__(self, store: MemoryStore, settings: RetrievalSettings) -> None:
        self._store = store
        self._restart = settings.graph_restart
        self._graphs: OrderedDict[str, _UserGraph] = OrderedDict()
        self._lock = threading.Lock()

    def activate(self, user_id: str, text: str) -> Mapping[str, float]:
        """Activation of the user's turns and gems by what `text` names: point id to score, above 0 only.

        Points that were stored since the last call are noticed by their number. The strongest 2,000 are returned, none
        where nothing in the text is known.
        """
        with self._lock:
            graph = self._current(user_id)
            return graph.spread(graph.named(text), self._restart)

    def drop(self, user_id: str) -> None:
        """Let go of what is remembered of a user's points; the next call reads them anew."""
        with self._lock:
            self._graphs.pop(user_id, None)

    def _current(self, user_id: str) -> _UserGraph:
        graph = self._graphs.pop(user_id, None)
        if graph is None or not self._extended(graph, user_id):
            graph = _UserGraph(user_id)
            for collection, where in _collections(user_id):
                graph.add(self._store.scroll(collection, where))
        self._graphs[user_id] = graph
        while len(self._graphs) > _USERS:
            self._graphs.popitem(last=False)
        return graph

    def _extended(self, graph: _UserGraph, user_id: str) -> bool:
        """Whether the graph knows all points, after adding the newest ones where it did not."""
        for collection, where in _collections(user_id):
            stored, known = self._store.count(collection, where), graph.points[collection]
            if stored == known:
                continue
            new = stored - known
            if not 0 < new <= known:
                return False
            read = self._store.newest(collection, where, new + _LATE)
            if graph.add(read) != new:
                return False
        return True


class _UserGraph:
    """One user's graph: points by row, names by column.

    A point's row lists the columns of its names; a name's weight is its inverse document frequency, kept beside.
    """

    def __init__(self, user_id: str) -> None:
        self.points = {TURNS: 0, GEMS: 0}
        self._user_id = user_id
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._turns: dict[tuple[str, int], int] = {}
        self._columns: dict[str, dict[str, int]] = {"word": {}, "name": {}, "phrase": {}, "session": {}}
        self._names = 0
        self._incidence = _Lists()
        self._links = _Lists()
        self._matrices: _Matrices | None = None

    def add(self, records: Iterable[Record]) -> int:
        """Take in points that are not known yet, and return how many; gems come after the turns they cite."""
        new = [record for record in records if record.id not in self._rows]
        for record in new:
            self._add(record)
        if new:
            self._matrices = None
        return len(new)

    def named(self, text: str) -> list[int]:
        """Columns of the words, phrases and names that a text holds."""
        words, phrases, names = (self._columns[kind] for kind in ("word", "phrase", "name"))
        found = [words[word] for word in dict.fromkeys(analyse(text)) if word in words]
        found += [phrases[phrase] for phrase in find_phrases(text) if phrase in phrases]
        return found + [names[name] for name in link_entities(text, names)]

    def spread(self, columns: list[int], restart: float) -> dict[str, float]:
        """Activation by point id, when the walk starts at these names."""
        if not columns:
            return {}
        if self._matrices is None:
            self._matrices = _Matrices(self._incidence, self._links, len(self._ids), self._names)
        activation = self._matrices.walk(np.array(columns), restart)
        strongest = np.argpartition(-activation, min(_REACHED, len(activation)) - 1)[:_REACHED]
        return {self._ids[row]: float(activation[row]) for row in strongest if activation[row] > 0}

    def _add(self, record: Record) -> None:
        payload, row = record.payload, len(self._ids)
        self._ids.append(record.id)
        self._rows[record.id] = row
        self._incidence.append(sorted({self._column(kind, name) for kind, name in _names(payload)}))
        if payload["kind"] == "turn":
            self.points[TURNS] += 1
            session, index = payload["session_id"], payload["index"]
            self._turns[session, index] = row
            beside = (self._turns.get((session, index + step)) for step in (-1, 1))
            self._links.append([other for other in beside if other is not None])
        else:
            self.points[GEMS] += 1
            cited = (turn_point_id(self._user_id, turn_id) for turn_id in payload["data"]["source_turns"])
            self._links.append([self._rows[point] for point in cited if point in self._rows])

    def _column(self, kind: str, name: str) -> int:
        known = self._columns[kind]
        column = known.get(name)
        if column is None:
            column = known[name] = self._names
            self._names += 1
        return column


class _Lists:
    """A list of lists of numbers, as the arrays that a sparse matrix is made of."""

    def __init__(self) -> None:
        self._new: list[list[int]] = []
        self._indices = np.zeros(0, np.int32)
        self._ends = np.zeros(1, np.int64)

    def append(self, numbers: list[int]) -> None:
        self._new.append(numbers)

    def matrix(self, columns: int) -> Any:
        """A row for each list, 1 where the list names the column: (lists, columns) float64, CSR."""
        from scipy.sparse import csr_array

        if self._new:
            added = np.fromiter(chain.from_iterable(self._new), np.int32)
            ends = np.cumsum([len(numbers) for numbers in self._new]) + self._ends[-1]
            self._indices = np.concatenate((self._indices, added))
            self._ends = np.concatenate((self._ends, ends))
            self._new = []
        return csr_array((np.ones(len(self._indices)), self._indices, self._ends), shape=(len(self._ends) - 1, columns))


class _Matrices:
    """What the walk multiplies by."""

    def __init__(self, incidence: _Lists, links: _Lists, points: int, names: int) -> None:
        self._names_of = incidence.matrix(names)
        self._points_of = self._names_of.T
        forward = links.matrix(points)
        self._linked = forward + forward.T
        self._frequency = np.maximum(self._points_of @ np.ones(points), 1)
        self._idf = np.log1p((points - self._frequency + 0.5) / (self._frequency + 0.5))
        held = self._names_of @ self._idf
        # The two neighbours of a turn together weigh as much as the names of an average turn.
        self._link = float(held.mean()) / 2
        self._degree = np.maximum(held + self._link * (self._linked @ np.ones(points)), 1e-12)

    def walk(self, start: NDArray[np.int64], restart: float) -> NDArray[np.float64]:
        """Where a walker from these names is found: (points,) float64, relative to the degree of a point."""
        home = np.zeros(len(self._idf))
        home[start] = self._idf[start]
        home /= home.sum()
        names, points = home, np.zeros(len(self._degree))
        for _ in range(_STEPS):
            leaving = points / self._degree
            points = (1 - restart) * (
                self._names_of @ (names / self._frequency) + self._link * (self._linked @ leaving)
            )
            names = restart * home + (1 - restart) * self._idf * (self._points_of @ leaving)
        found: NDArray[np.float64] = np.round(points / self._degree**_LENGTH, _DECIMALS)
        return found


def _collections(user_id: str) -> tuple[tuple[str, Where], ...]:
    """Turns, then the gems that cite them."""
    return (TURNS, Where(user_id, kind="turn")), (GEMS, Where(user_id, kind="gem"))


def _names(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and name of everything that a point holds."""
    yield "session", payload["session_id"]
    for word in payload[TERMS_DATED].split():
        yield "word", word
    for phrase in find_phrases(_said(payload["data"])):
        yield "phrase", phrase
    for field in ("entities", "topics", "speakers"):
        for name in payload.get(field, ()):
            if not name.isalnum():
                yield "name", name.casefold()


def _said(data: Mapping[str, Any]) -> str:
    """What a turn or a gem says."""
    return "\n".join(part["text"] for part in data["parts"]) if "parts" in data else str(data["content"])
