from datetime import UTC, datetime, timedelta

import pytest

from neuralstream.config import Settings
from neuralstream.logs.base import Conversation
from neuralstream.types import Turn
from neuralstream.workbench.proposing import RECALL, propose

START = datetime(2026, 1, 1, tzinfo=UTC)
EXCHANGES = [
    ("s1", "We decided to keep Grafana on port 3105.", "Noted, Grafana stays on 3105."),
    ("s1", "I prefer short answers without bullet lists.", "Understood."),
    ("s1", "Which Grafana dashboards exist today?", "Three of them."),
    ("s2", "Morning! How is the weather over there today?", "I cannot see it."),
    ("s2", "Remind me to renew the Velden certificate before June.", "I will."),
    ("s2", "Which port did we put Grafana on?", "3105."),
]


@pytest.fixture
def conversation():
    """Two sessions; the second asks for something of the first."""
    turns = tuple(
        Turn.exchange(
            said, answer, session_id=session, turn_id=f"t{n}", user_id="ada", index=n,
            created_at=START + timedelta(hours=n),
        )
        for n, (session, said, answer) in enumerate(EXCHANGES)
    )  # fmt: skip
    return Conversation("ada", turns, ())


def test_a_question_of_a_later_session_about_an_earlier_one_is_proposed_as_it_was_asked(conversation):
    """At its own moment, with no evidence; not one about its own session, nor one about nothing said before."""
    [asked] = [one for one in propose(conversation, Settings()) if one.category == RECALL]
    assert (asked.text, asked.made_from, asked.evidence) == ("Which port did we put Grafana on?", "t5", ())
    assert asked.asked_at == START + timedelta(hours=5)


def test_statements_become_questions_of_their_kind_with_their_turn_as_evidence(conversation):
    """A decision is asked for as one, and names what it is about."""
    by_kind = {one.category: one for one in propose(conversation, Settings())}
    decision = by_kind["decision"]
    assert "decided about" in decision.text
    assert "grafana" in decision.text.casefold()
    assert decision.evidence == ("t0",)
    assert "3105" in decision.statement
    assert by_kind["preference"].evidence == ("t1",)


def test_kinds_take_turns(conversation):
    """The first proposals are one of each kind."""
    proposals = propose(conversation, Settings())
    kinds = {one.category for one in proposals}
    assert {one.category for one in proposals[: len(kinds)]} == kinds


def test_proposing_again_gives_the_same(conversation):
    """Ids and order are the conversation's, so that a person can stop and go on."""
    assert propose(conversation, Settings()) == propose(conversation, Settings())
    assert len({one.query_id for one in propose(conversation, Settings())}) == len(propose(conversation, Settings()))


def test_an_empty_conversation_proposes_nothing():
    """No turns, no questions."""
    assert propose(Conversation("ada", (), ()), Settings()) == []
