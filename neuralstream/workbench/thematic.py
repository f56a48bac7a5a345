"""Are themes what people would call subjects? Purity and coverage against labelled thematic questions.

A thematic question ("what have we been through with redis?") is labelled with the turns that belong to its subject. Of
all groups, the one that matches question q's turns G best (largest F1) stands for it:

    purity(q) = |group ∩ G| / |group|      coverage(q) = |group ∩ G| / |G|      F1(q) = 2 |group ∩ G| / (|group| + |G|)

Larsen and Aone, "Fast and effective text mining using linear-time document clustering", 1999, score clusters so. Turns
outside of G count against purity, whether another question asks for them or none does. A question without any match has
0 of all three. Means are over questions.

The textbook's purity (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, 16.3) stands beside
it: the share of labelled turns in any group that belong to the question their group holds most turns of. It looks at
labelled turns only, and many small groups are pure by themselves.

Finer groups are purer and cover less, so methods are compared at equal coverage: plain k-means (scikit-learn's, over
the same text vectors) is run from fine to coarse, and its purity read where its coverage is that of the themes.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralstream.config import Settings
from neuralstream.errors import DatasetError
from neuralstream.store.base import Where
from neuralstream.store.schema import TURNS, VECTOR_TEXT
from neuralstream.workbench import datasets
from neuralstream.workbench.filling import filled_memory
from neuralstream.workbench.report import interval_text, markdown_table, p_text
from neuralstream.workbench.runs import write_text
from neuralstream.workbench.stats import Comparison, Verdict, compare, holm, verdict
from neuralstream.workbench.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from neuralstream.embed.base import Embedder
    from neuralstream.stream import NeuralStream

__all__ = [
    "CATEGORY",
    "Against",
    "Match",
    "Scored",
    "ThematicRun",
    "evaluate_themes",
    "k_means",
    "majority",
    "markdown",
    "match",
    "rows",
    "write_markdown",
]

CATEGORY = "thematic"
"""The category of questions that ask for a subject."""

_TURNS_PER_GROUP = (2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 16)
"""How fine k-means is run: turns for each group."""

_SEEDS = 5
"""Runs of k-means that are averaged; the seed of each is its number."""

_STARTS = 10
"""Random starts of one run of k-means, of which it keeps the one with the least inertia."""

Grouping = Sequence[frozenset[str]]
"""Disjoint groups of turn ids."""


class Match(NamedTuple):
    """How well the best group of one question, or the mean of several, matches. Each from 0 to 1."""

    purity: float
    coverage: float
    f1: float


class Scored(NamedTuple):
    """One way of grouping.

    Attributes:
        name: what it is called in tables.
        groups: mean number of groups for each user.
        matches: one a question.
        majority: the textbook's purity.
        grouped: share of labelled turns that are in a group at all.
    """

    name: str
    groups: float
    matches: tuple[Match, ...]
    majority: float
    grouped: float

    @property
    def mean(self) -> Match:
        """Over questions."""
        return Match(*(float(value) for value in np.mean(self.matches, axis=0)))


class Against(NamedTuple):
    """Themes against k-means on one measure; p is corrected for both comparisons."""

    measure: str
    other: str
    comparison: Comparison
    corrected_p: float
    verdict: Verdict


@dataclass(frozen=True)
class ThematicRun:
    """What was measured.

    Attributes:
        dataset: its name and SHA-256.
        embedder: what made the vectors.
        questions: (user, query id), in the order of every `matches`.
        ways: themes, k-means at equal coverage, k-means with as many groups.
        against: the comparisons.
    """

    dataset: tuple[str, str]
    embedder: str
    questions: tuple[tuple[str, str], ...]
    ways: tuple[Scored, ...]
    against: tuple[Against, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        name, sha256 = self.dataset
        return {
            "dataset": {"name": name, "sha256": sha256, "queries": len(self.questions)},
            "embedder": self.embedder,
            "ways": {
                way.name: way.mean._asdict()
                | {"groups": way.groups, "majority": way.majority, "grouped": way.grouped}
                | {
                    "questions": {
                        f"{q}": match._asdict() for (_, q), match in zip(self.questions, way.matches, strict=True)
                    }
                }
                for way in self.ways
            },
            "against": [
                {"measure": one.measure, "other": one.other, "p": one.corrected_p, "verdict": one.verdict}
                | one.comparison._asdict()
                for one in self.against
            ],
        }


class _User(NamedTuple):
    """One user's turns, themes, and labelled questions."""

    name: str
    ids: list[str]
    vectors: NDArray[np.float32]
    themes: Grouping
    questions: dict[str, frozenset[str]]


def match(groups: Grouping, gold: frozenset[str]) -> Match:
    """How the group with the largest F1 matches a question's turns; of equal ones the purest."""
    found = (
        Match(shared / len(group), shared / len(gold), 2 * shared / (len(group) + len(gold)))
        for group in groups
        if (shared := len(group & gold))
    )
    return max(found, key=lambda one: (one.f1, one.purity), default=Match(0.0, 0.0, 0.0))


def majority(groups: Grouping, questions: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    """Labelled turns that belong to the question their group holds most of, and labelled turns in any group."""
    labelled = frozenset().union(*questions.values())
    right = sum(max((len(group & gold) for gold in questions.values()), default=0) for group in groups)
    return right, sum(len(group & labelled) for group in groups)


def k_means(ids: Sequence[str], vectors: NDArray[np.float32], count: int, seed: int) -> Grouping:
    """Plain k-means: `count` groups of turns; one turn alone is no group."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Turns that are equal leave fewer groups than were asked for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(min(count, len(ids)), n_init=_STARTS, random_state=seed).fit_predict(vectors)
    members: dict[int, set[str]] = defaultdict(set)
    for turn_id, label in zip(ids, labels, strict=True):
        members[int(label)].add(turn_id)
    return [frozenset(group) for group in members.values() if len(group) > 1]


def evaluate_themes(
    dataset: datasets.Dataset | str,
    settings: Settings | None = None,
    *,
    embedder: Embedder | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ThematicRun:
    """Score the themes that memory finds, and k-means beside them.

    Args:
        dataset: a loaded set, or its SPEC; its questions of category "thematic" are used.
        settings: of the memory; its home is replaced by a folder that is removed afterwards.
        embedder: used instead of what the settings name.
        progress: told (stage, done, total) as work goes on.

    Raises:
        DatasetError: no thematic question has evidence.
    """
    dataset = datasets.load(dataset) if isinstance(dataset, str) else dataset
    if not any(question.category == CATEGORY and question.evidence for _, question in dataset.questions()):
        raise DatasetError(f"{dataset.name} has no question of category {CATEGORY!r} with evidence to score themes on")
    clock = VirtualClock()
    with (
        tempfile.TemporaryDirectory(prefix="neuralstream-") as folder,
        filled_memory(
            dataset, settings or Settings(), Path(folder), clock=clock, embedder=embedder, progress=progress
        ) as (memory, _),
    ):
        users = [_read(memory, conversation.name, dataset) for conversation in dataset.conversations]
        made_by = memory.parts.embedder.name
    users = [user for user in users if user.questions]
    themes = _score("themes", [[user.themes] for user in users], users)
    curve = [
        _k_means_runs(users, lambda user, per=per: round(len(user.ids) / per))  # type: ignore[misc]
        for per in _TURNS_PER_GROUP
    ]
    as_many = _k_means_runs(users, lambda user: len(user.themes), "k-means, as many groups")
    equal = _at_coverage(curve, themes.mean.coverage)
    clusters = [user.name for user in users for _ in user.questions]
    pairs = [(themes, equal, "purity"), (themes, as_many, "f1")]
    compared = [
        compare([getattr(m, name) for m in new.matches], [getattr(m, name) for m in old.matches], clusters)
        for new, old, name in pairs
    ]
    corrected = holm([one.p for one in compared])
    return ThematicRun(
        dataset=(dataset.name, dataset.sha256),
        embedder=made_by,
        questions=tuple((user.name, query_id) for user in users for query_id in user.questions),
        ways=(themes, equal, as_many),
        against=tuple(
            Against(name, old.name, found, p, verdict(found, p, len(pairs)))
            for (_, old, name), found, p in zip(pairs, compared, corrected, strict=True)
        ),
    )


def rows(run: ThematicRun) -> list[list[Any]]:
    """The ways of grouping as a table: a header, then a row each."""
    header = ["groups by", "groups a user", "purity", "coverage", "F1", "majority purity", "grouped"]
    return [header, *([way.name, way.groups, *way.mean, way.majority, way.grouped] for way in run.ways)]


def markdown(run: ThematicRun) -> str:
    """The run as a short Markdown page."""
    name, sha256 = run.dataset
    about = (
        f"{len(run.questions)} thematic questions of {len({user for user, _ in run.questions})} users. "
        f"Data SHA-256 `{sha256}`, embedder {run.embedder}. The formulas are in `neuralstream/workbench/thematic.py`."
    )
    verdicts: list[list[Any]] = [
        ["themes against", "measure", "difference", "95 % interval", "p (Holm)", "win/tie/loss", "verdict"]
    ]
    for measure, other, found, p, said in run.against:
        counts = f"{found.wins}/{found.ties}/{found.losses}"
        verdicts.append([other, measure, found.difference, interval_text("", found.interval), p_text(p), counts, said])
    parts = [
        f"# Themes of {name}",
        about,
        f"Made by `neuralstream eval-themes --dataset {name} --out FILE`.",
        markdown_table(rows(run)),
        "## Is the difference real?",
        markdown_table(verdicts),
    ]
    return "\n\n".join(parts) + "\n"


def write_markdown(run: ThematicRun, path: Path) -> Path:
    """Write `markdown` to a file."""
    return write_text(path, markdown(run))


def _read(memory: NeuralStream, user: str, dataset: datasets.Dataset) -> _User:
    """What memory holds of a user, and every theme it finds."""
    records = memory.parts.store.scroll(TURNS, Where(user, kind="turn"), with_vectors=True)
    vectors = {r.payload["data"]["turn_id"]: r.vectors[VECTOR_TEXT] for r in records if VECTOR_TEXT in r.vectors}
    ids = sorted(vectors)
    themes = memory.themes(user_id=user, limit=max(1, len(ids)))
    asked = (q for conversation, q in dataset.questions() if conversation.name == user)
    return _User(
        user,
        ids,
        np.array([vectors[turn_id] for turn_id in ids]),
        [frozenset(theme.turn_ids) for theme in themes],
        {q.query_id: frozenset(q.evidence) for q in asked if q.category == CATEGORY and q.evidence},
    )


def _k_means_runs(users: Sequence[_User], count: Callable[[_User], int], name: str = "k-means") -> Scored:
    """K-means of every user from every start, each user with its own number of groups."""
    runs = [[k_means(user.ids, user.vectors, max(1, count(user)), seed) for seed in range(_SEEDS)] for user in users]
    return _score(name, runs, users)


def _score(name: str, runs: Sequence[Sequence[Grouping]], users: Sequence[_User]) -> Scored:
    """The mean over a user's runs, question by question."""
    matches: list[Match] = []
    totals: Counter[str] = Counter()
    for user, groupings in zip(users, runs, strict=True):
        matches += [
            Match(*np.mean([match(groups, gold) for groups in groupings], axis=0)) for gold in user.questions.values()
        ]
        for groups in groupings:
            right, grouped = majority(groups, user.questions)
            labelled = len(frozenset().union(*user.questions.values()))
            totals.update(right=right, grouped=grouped, labelled=labelled)
    count = float(np.mean([len(groups) for groupings in runs for groups in groupings]))
    pure = totals["right"] / totals["grouped"] if totals["grouped"] else 0.0
    return Scored(name, count, tuple(matches), pure, totals["grouped"] / totals["labelled"])


def _at_coverage(curve: Sequence[Scored], coverage: float) -> Scored:
    """What lies between the two neighbours on the curve whose coverage is just above and below.

    Where the curve passes that coverage more than once, its purest point; where it does not reach it, its nearest end.
    """
    found = []
    for fine, coarse in pairwise(curve):
        low, high = fine.mean.coverage, coarse.mean.coverage
        if min(low, high) <= coverage <= max(low, high) and low != high:
            found.append(_between(fine, coarse, (coverage - low) / (high - low)))
    if not found:
        nearest = min(curve, key=lambda one: abs(one.mean.coverage - coverage))
        found = [_between(nearest, nearest, 0.0)]
    return max(found, key=lambda one: one.mean.purity)


def _between(one: Scored, other: Scored, share: float) -> Scored:
    """The first where `share` is 0, the second where it is 1."""

    def mix(first: float, second: float) -> float:
        return (1 - share) * first + share * second

    return Scored(
        "k-means, equal coverage",
        mix(one.groups, other.groups),
        tuple(Match(*map(mix, first, second)) for first, second in zip(one.matches, other.matches, strict=True)),
        mix(one.majority, other.majority),
        mix(one.grouped, other.grouped),
    )
