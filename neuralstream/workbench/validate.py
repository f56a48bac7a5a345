"""Is a labelled set fit to measure with? Every rule computed, none claimed.

What any set must meet: unique ids, and reference gems that cite their own batch. Shipped sets with splits, on which the
project's claims rest, also have to be large enough, free of boilerplate, neither trivial nor hopeless for BM25, and
labelled twice; on other sets those rules are reported and pass.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.analysis import analyse, words
from neuralstream.errors import DatasetError
from neuralstream.testing import FakeEmbedder, ScriptedExtractor
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from neuralstream.config import Settings
    from neuralstream.logs.base import Conversation, Question
    from neuralstream.workbench.datasets import Dataset

__all__ = ["Check", "cohen_kappa", "validate"]

CATEGORIES = (
    "identifier", "paraphrase", "multi-hop", "temporal", "knowledge-update", "preference", "thematic", "unanswerable",
)  # fmt: skip

SEQUENCE = 8
"""Words in a row that count as boilerplate when they recur in more than `MAX_SAME` turns."""

MAX_SAME = 3


class Check(NamedTuple):
    """One rule: what was computed, and what it must be. A rule without a bound for this set passes."""

    name: str
    passed: bool
    value: Any
    rule: str


def validate(spec: str, settings: Settings | None = None) -> list[Check]:
    """Check a data set.

    Sizes are judged on a whole shipped set, not on one of its splits.

    Raises:
        DatasetError: it cannot be loaded at all.
    """
    dataset = datasets.load(spec)
    ours = dataset.shipped and dataset.spec.split is None and "splits" in datasets.description(dataset.spec)
    checks = [*_identity(dataset), *_sizes(dataset, ours), *_texts(dataset, ours)]
    if dataset.spec.format == "native" and dataset.spec.path.is_dir():
        checks += [*_second_labels(dataset, ours), *_reference_gems(dataset, ours)]
    if any(question.evidence for _, question in dataset.questions()):
        checks.append(_bm25(dataset, settings, ours))
    return checks


def cohen_kappa(first: Iterable[bool], second: Iterable[bool]) -> float:
    """Agreement of two labellings of the same items beyond chance; 1 when both say the same of everything.

    (p_o - p_e) / (1 - p_e), with p_o the share of items they agree on and p_e the share expected of two labellers who
    give each label as often as these do, at random. Cohen, "A coefficient of agreement for nominal scales", 1960.

    Raises:
        ValueError: the lengths differ.
    """
    pairs = list(zip(first, second, strict=True))
    observed = sum(a == b for a, b in pairs) / len(pairs) if pairs else 1.0
    yes = [sum(labels) / len(pairs) for labels in zip(*pairs, strict=True)] or [0.0, 0.0]
    expected = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    return 1.0 if expected == 1 else (observed - expected) / (1 - expected)


def _identity(dataset: Dataset) -> Iterator[Check]:
    turns = Counter((c.name, turn.turn_id) for c in dataset.conversations for turn in c.turns)
    queries = Counter(question.query_id for _, question in dataset.questions())
    repeated = sorted(str(key) for key, count in (turns + queries).items() if count > 1)
    yield Check("ids given twice", not repeated, repeated, "none, over turns of a user and over queries")
    unreadable = {q.query_id: q.unreadable_evidence for _, q in dataset.questions() if q.unreadable_evidence}
    yield Check(
        "evidence that names no turn", not (unreadable and dataset.shipped), unreadable, "none in a shipped set"
    )


def _sizes(dataset: Dataset, ours: bool) -> Iterator[Check]:
    facts = datasets.stats(dataset)
    splits = {name: len(users) for name, users in datasets.description(dataset.spec).get("splits", {}).items()}
    if splits:
        yield Check(
            "users per split", not ours or splits == {"dev": 8, "test": 8}, splits, _rule("8 dev, 8 test", ours)
        )
    for name, least in (("sessions", 48), ("turns", 700), ("questions", 320)):
        yield Check(name, not ours or facts[name] >= least, facts[name], _rule(f"at least {least}", ours))
    by_category = facts["by_category"]
    missing = [category for category in CATEGORIES if category not in by_category]
    yield Check(
        "questions per category",
        not (ours and missing),
        by_category,
        _rule(f"some of each: {', '.join(CATEGORIES)}", ours),
    )
    odd = sorted(q.query_id for _, q in dataset.questions() if (q.category == "unanswerable") == bool(q.evidence))
    rule = "exactly the questions called unanswerable"
    yield Check(
        "questions without evidence", not (ours and odd), {"wrong": odd, "count": facts["unscored"]}, _rule(rule, ours)
    )


def _texts(dataset: Dataset, ours: bool) -> Iterator[Check]:
    recurring = [" ".join(run) for run, count in _sequences(dataset).items() if count > MAX_SAME]
    rule = f"no {SEQUENCE} words in a row in more than {MAX_SAME} turns"
    yield Check("boilerplate", not (ours and recurring), sorted(recurring)[:10], _rule(rule, ours))
    shares = [
        _shares_a_stem(conversation, question) for conversation, question in dataset.questions() if question.evidence
    ]
    apart = round(shares.count(False) / len(shares), 4) if shares else None
    rule = "at least 0.30 of the answerable questions share no content stem with their evidence"
    yield Check("questions in other words", not ours or (apart is not None and apart >= 0.3), apart, _rule(rule, ours))


def _bm25(dataset: Dataset, settings: Settings | None, ours: bool) -> Check:
    # BM25 over turns uses neither vectors nor gems, so fakes that cost nothing stand in for both.
    with tempfile.TemporaryDirectory(prefix="neuralstream-validate-") as out:
        run = evaluate(
            dataset,
            settings,
            modes=("bm25",),
            out=out,
            embedder=FakeEmbedder(),
            extractor=ScriptedExtractor(lambda _: ()),
        )
    recall = run.metrics["lanes"]["turns"]["bm25"]["overall"]["R@5"]
    return Check("R@5 of BM25", not ours or 0.35 <= recall <= 0.75, recall, _rule("between 0.35 and 0.75", ours))


def _second_labels(dataset: Dataset, ours: bool) -> Iterator[Check]:
    second = {
        row["query_id"]: frozenset(row["evidence"])
        for row in _lines(dataset.spec.path / "second_labels.jsonl", "query_id", "evidence")
    }
    first, again = [], []
    labelled = 0
    for conversation, question in dataset.questions():
        if question.query_id in second:
            labelled += 1
            for turn in conversation.turns:
                first.append(turn.turn_id in question.evidence)
                again.append(turn.turn_id in second[question.query_id])
    unknown = sorted(second.keys() - {question.query_id for _, question in dataset.questions()})
    yield Check(
        "second labels",
        not ours or (labelled >= 60 and not unknown),
        labelled,
        _rule("at least 60 known queries", ours),
    )
    rule = "Cohen's kappa (p_o - p_e) / (1 - p_e), Cohen 1960, over (query, turn) pairs of the query's user"
    yield Check("agreement of both labellings", True, round(cohen_kappa(first, again), 4) if first else None, rule)


def _reference_gems(dataset: Dataset, ours: bool) -> Iterator[Check]:
    batches = gems = 0
    wrong = []
    for conversation in dataset.conversations:
        known = {turn.turn_id for turn in conversation.turns}
        for row in _lines(dataset.spec.path / "gems" / f"{conversation.name}.jsonl", "batch", "gems"):
            batches += 1
            gems += len(row["gems"])
            cited = [set(gem["source_turns"]) for gem in row["gems"]]
            if not set(row["batch"]) <= known or not all(ids and ids <= set(row["batch"]) for ids in cited):
                wrong.append(row["batch"][0])
    yield Check("batches with reference gems", not ours or batches >= 80, batches, _rule("at least 80", ours))
    yield Check("reference gems", not ours or gems > 0, gems, _rule("some", ours))
    yield Check("reference gems that cite wrongly", not wrong, wrong, "none: each cites turns of its own batch")


def _rule(rule: str, ours: bool) -> str:
    """A rule of the whole shipped set; of another one the value is only told."""
    return rule if ours else f"{rule}, in the whole shipped set"


def _sequences(dataset: Dataset) -> Mapping[tuple[str, ...], int]:
    """In how many turns each run of words occurs."""
    found: Counter[tuple[str, ...]] = Counter()
    for conversation in dataset.conversations:
        for turn in conversation.turns:
            said = list(words(turn.text))
            found.update({tuple(said[n : n + SEQUENCE]) for n in range(len(said) - SEQUENCE + 1)})
    return found


def _shares_a_stem(conversation: Conversation, question: Question) -> bool:
    asked = set(analyse(question.text))
    return any(asked & set(analyse(turn.text)) for turn in conversation.turns if turn.turn_id in question.evidence)


def _lines(file: Path, *keys: str) -> list[dict[str, Any]]:
    """The objects of a JSONL file; none where there is no file."""
    if not file.is_file():
        return []
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            rows.append({key: row[key] for key in keys})
        except (ValueError, TypeError, KeyError) as error:
            raise DatasetError(f"{file} line {number} needs an object with {', '.join(keys)}: {error!r}") from error
    return rows
