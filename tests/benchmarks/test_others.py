"""Comparing with other tools: what they are given, how they are ranked, and what the report says of it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from benchmarks import others
from benchmarks.others import FORMS, Document, Found, Tool
from neuralstream.types import Turn
from neuralstream.workbench import datasets

TURN = Turn.exchange("Move redis to 6381", "Done.", session_id="s1", created_at="2026-03-04T10:00:00Z")


@contextmanager
def _oracle(documents):
    """A tool with two settings: one knows where each answer is, the other finds nothing."""
    places = {document.turn_id: place for place, document in enumerate(documents)}
    answers = {
        question.text: [places[turn_id] for turn_id in question.evidence]
        for _, question in datasets.load("workdays@nils").questions()
    }
    yield {
        "knows": lambda queries: [answers[query] for query in queries],
        "knows nothing": lambda queries: [[] for _ in queries],
    }


ORACLE = Tool("an oracle", _oracle, ("knows nothing", "turns"))


@pytest.fixture(scope="module")
def nils():
    """One person of the shipped set."""
    return datasets.load("workdays@nils")


def test_a_turn_is_given_whole_with_its_date_and_by_messages():
    """The texts that tools index: what the turn says, the same after its date, and each message by itself."""
    assert {name: list(texts(TURN)) for name, texts in FORMS.items()} == {
        "turns": ["Move redis to 6381\nDone."],
        "dated turns": ["4 March 2026 Move redis to 6381\nDone."],
        "messages": ["Move redis to 6381", "Done."],
    }


def test_a_turn_ranks_where_its_best_message_does():
    """Two messages of a turn are one hit, at the place of the first."""
    documents = [Document("a", "1"), Document("a", "2"), Document("b", "3")]
    assert others.ranked(documents, [1, 2, 0]) == ["a", "b"]


def test_every_setting_is_scored_over_every_form(nils):
    """A setting that knows all has the most nDCG@10 can be, one that finds nothing scores 0 for every question."""
    found = others.found_by(ORACLE, nils)
    assert [(one.setting, one.form) for one in found] == [
        (setting, form) for form in FORMS for setting in ("knows", "knows nothing")
    ]
    scored = sum(bool(question.evidence) for _, question in nils.questions())
    assert {len(one.scores) for one in found} == {scored}
    assert {one.mean("nDCG@10") for one in found if one.setting == "knows nothing"} == {0.0}
    assert next(one for one in found if one.form == "turns").mean("nDCG@10") == 1.0


def test_a_tool_is_shown_as_it_comes_and_at_its_best(nils):
    """The report has both rows, hybrid's own, and a verdict that says that one person is too few."""
    found = others.found_by(ORACLE, nils)
    hybrid = Found("NeuralStream", "hybrid", "-", [{"R@5": 0.5, "nDCG@10": 0.5} for _ in found[0].scores])
    text = others.report(nils, hybrid, [(ORACLE, found)])
    assert "| NeuralStream | as it comes | hybrid | - | 0.500 | 0.500 |" in text
    assert "| an oracle | as it comes | knows nothing | turns | 0.000 | 0.000 | - | 0.500 |" in text
    assert "| an oracle | at its best | knows | turns |" in text
    assert text.count("too few to tell") == 2


def test_what_is_not_installed_is_named_with_its_pip_line(monkeypatch):
    """The tools are no dependencies: without them the command says what to install, and where."""
    monkeypatch.setattr(others, "PIP", {"no_such_module": "no-such-package"})
    with pytest.raises(SystemExit, match=r"environment of its own: pip install no-such-package"):
        others.main([])
