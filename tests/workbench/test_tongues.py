"""The shipped set in six languages, and what the analyser makes of it."""

import re
from pathlib import Path

import pytest
from rank_bm25 import BM25Okapi

from neuralstream.analysis import analyse
from neuralstream.workbench import datasets

LANGUAGES = {"yating": "zh", "haruki": "ja", "ploy": "th", "henrike": "de", "maelle": "fr", "ximena": "es"}


@pytest.fixture(scope="module")
def people():
    """The conversations by user."""
    return {conversation.name: conversation for conversation in datasets.load("tongues").conversations}


def test_every_language_has_enough_of_everything(people):
    """At least 120 exchanges and 24 questions each, every label names an exchange, every exchange was said once."""
    assert people.keys() == LANGUAGES.keys()
    for person in people.values():
        assert len(person.turns) >= 120
        assert len(person.questions) >= 24
        assert all(question.evidence and not question.unreadable_evidence for question in person.questions)
        asked = [question.text for question in person.questions]
        assert len(set(asked)) == len(asked)
        said = {turn.text for turn in person.turns}
        assert len(said) > 0.95 * len(person.turns)
    assert {found["name"]: found["languages"] for found in datasets.list_datasets()}["tongues"] == [*LANGUAGES.values()]


@pytest.mark.parametrize("name", LANGUAGES)
def test_our_words_find_what_words_between_spaces_do_not(people, name):
    """R@5 of Okapi BM25 over our tokens is above 0.95, over text split at spaces below 0.5."""
    assert _recall(people[name], analyse) > 0.95
    assert _recall(people[name], str.split) < 0.5


@pytest.mark.parametrize("name", ["henrike", "maelle", "ximena"])
def test_lines_that_are_not_english_have_three_times_as_many_tokens(people, name):
    """The price of pieces of words, in tokens for each word, between 2.5 and 3.5; English has about one."""
    text = " ".join(turn.text for turn in people[name].turns)
    assert 2.5 < len(analyse(text)) / len(re.findall(r"\w+", text)) < 3.5
    english = "Redis listens on port 6381 now, because the old server kept staging on the one that it had before."
    assert len(analyse(english)) <= len(english.split())


def test_the_report_is_about_this_data():
    """reports/languages.md was made with the data that is shipped."""
    page = Path(datasets.__file__).parents[2] / "reports" / "languages.md"
    assert datasets.load("tongues").sha256 in page.read_text(encoding="utf-8")


def _recall(person, tokens):
    ranking = BM25Okapi([tokens(turn.text) for turn in person.turns])
    total = 0.0
    for question in person.questions:
        scores = ranking.get_scores(tokens(question.text))
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:5]
        found = {person.turns[at].turn_id for at in best if scores[at] > 0}
        total += len(found & set(question.evidence)) / len(question.evidence)
    return total / len(person.questions)
