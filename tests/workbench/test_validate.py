"""Checking a labelled set against its rules."""

import json
import shutil

import pytest

from neuralstream.errors import DatasetError
from neuralstream.workbench import datasets
from neuralstream.workbench import validate as validation
from neuralstream.workbench.validate import cohen_kappa, validate


@pytest.fixture
def copy(tiny, tmp_path):
    """The tiny set, to be spoilt."""
    shutil.copytree(tiny, tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def _unranked(monkeypatch):
    """Leaves out the one rule that has to replay the set."""
    monkeypatch.setattr(validation, "_bm25", lambda *_: validation.Check("R@5 of BM25", True, None, ""))


def test_kappa_by_hand():
    """Cohen's kappa of his textbook case: agreement .7, expected .5, kappa .4; perfect and reversed labels."""
    first = [True] * 25 + [False] * 25
    second = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    assert cohen_kappa(first, first) == 1
    assert cohen_kappa(first, [not label for label in first]) == -1
    assert cohen_kappa([], []) == 1


def test_other_sets_are_described(tiny):
    """A set that is not shipped is not held to the shipped sets' sizes."""
    checks = {check.name: check for check in validate(str(tiny))}
    assert all(check.passed for check in checks.values())
    assert checks["turns"].value == 18
    assert checks["reference gems"].value == 1
    assert 0 < checks["R@5 of BM25"].value <= 1
    assert checks["agreement of both labellings"].value == pytest.approx(
        cohen_kappa([1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]), abs=1e-4
    )
    json.dumps([check._asdict() for check in checks.values()])


@pytest.mark.usefixtures("_unranked")
def test_wrong_citation_fails(copy):
    """A reference gem that cites a turn outside its batch fails the set."""
    gems = copy / "gems" / "ada.jsonl"
    gems.write_text(gems.read_text().replace('"source_turns": ["ada-0"]', '"source_turns": ["ada-5"]'))
    assert [check.value for check in validate(str(copy)) if not check.passed] == [["ada-0"]]


@pytest.mark.usefixtures("_unranked")
def test_repeated_query_id_fails(copy):
    """Two queries under one id fail the set by name."""
    queries = copy / "queries" / "bo.jsonl"
    queries.write_text(queries.read_text().replace("bo-2", "bo-1"))
    assert [check.value for check in validate(str(copy)) if not check.passed] == [["bo-1"]]


def test_broken_line_is_named(copy):
    """A line of the second labels that cannot be read is named."""
    (copy / "second_labels.jsonl").write_text('{"query_id": "ada-1"}\n')
    with pytest.raises(DatasetError, match="line 1 needs an object with query_id, evidence"):
        validate(str(copy))


@pytest.mark.usefixtures("_unranked")
def test_own_rules_bite(copy, monkeypatch):
    """Held to the rules of a shipped set, eighteen exchanges are too few; boilerplate and missing labels are found."""
    conversation = copy / "conversations" / "ada.jsonl"
    rows = [json.loads(line) for line in conversation.read_text().splitlines()]
    for row in rows:
        row["parts"][1]["text"] += " Please let me know if there is anything else."
    conversation.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(datasets, "_SHIPPED", copy.parent)
    checks = {check.name: check for check in validate("tiny")}
    failed = {name for name, check in checks.items() if not check.passed}
    assert {"sessions", "turns", "questions", "users per split", "second labels", "boilerplate"} <= failed
    assert "please let me know if there is anything" in checks["boilerplate"].value


@pytest.mark.usefixtures("_unranked")
def test_shipped_set_meets_every_rule():
    """The project's own set passes every rule that needs no replay."""
    assert [check for check in validate(datasets.OWN) if not check.passed] == []


@pytest.mark.slow
def test_shipped_set_is_neither_trivial_nor_hopeless():
    """The project's own set passes the rule on BM25 as well."""
    assert [check for check in validate(datasets.OWN) if not check.passed] == []
