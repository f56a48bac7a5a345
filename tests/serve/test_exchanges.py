"""Questions and answers, out of turns of every kind."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from neuralstream import Turn
from neuralstream.serve.exchanges import exchanges, recent_exchanges
from neuralstream.types import Hit, Part

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Listed:
    """A memory of turns, with the two listings that exchanges are made of; keeps how far back it was asked."""

    def __init__(self, turns):
        self.turns = turns
        self.asked = []

    def recent(self, limit=20, *, since=None, until=None, user_id):
        assert user_id == "u"
        self.asked.append(limit)
        within = [turn for turn in self.turns if (since or turn.at()) <= turn.at() <= (until or turn.at())]
        newest = sorted(within, key=Turn.at, reverse=True)[:limit]
        return [Hit(turn, turn.at().timestamp()) for turn in newest]

    def thread(self, session_id, *, user_id):
        assert user_id == "u"
        return [turn for turn in self.turns if turn.session_id == session_id]


@pytest.fixture
def say():
    """Makes turns a minute apart, each with its place in its session."""
    minutes, places = count(), {}

    def make(*parts, session="s1"):
        place = places[session] = places.get(session, -1) + 1
        at = START + timedelta(minutes=next(minutes))
        return Turn(
            tuple(Part(*part) for part in parts), session, turn_id=f"{session}-{place}", index=place, created_at=at
        )

    return make


def said(found):
    """Questions and answers alone."""
    return [(exchange.q, exchange.a) for exchange in found]


def newest(turns, limit=20, **bounds):
    """The newest exchanges of a memory of these turns."""
    bounds = {"since": None, "until": None} | bounds
    return recent_exchanges(Listed(turns), limit, **bounds, user_id="u")


def test_a_turn_with_both_sides_is_one_exchange_without_its_tool_calls(say):
    """The question, and what the assistant answered in the end."""
    turn = say(("user", "Move redis"), ("tool", "bash: sed -i ..."), ("assistant", "Done."))
    (exchange,) = exchanges([turn])
    assert (exchange.q, exchange.a, exchange.turns) == ("Move redis", "Done.", (turn,))


def test_utterances_pair_up_by_consecutive_speakers(say):
    """What one says in a row is one side; names stand before what they say."""
    turns = [
        say(("person", "Hi!", "Ann")),
        say(("person", "How was Rome?", "Ann")),
        say(("person", "Hot.", "Ben")),
        say(("person", "And the food?", "Ann")),
    ]
    assert said(exchanges(turns)) == [("Ann: Hi!\nAnn: How was Rome?", "Ben: Hot."), ("Ann: And the food?", "")]


def test_an_assistant_that_begins_answers_nothing_that_was_asked(say):
    """A greeting is an answer without a question, and does not shift the pairs after it."""
    turns = [
        say(("assistant", "Hello, I am here.")),
        say(("user", "Which port?")),
        say(("assistant", "6381.")),
        say(("user", "Thanks"), ("assistant", "Welcome.")),
    ]
    assert said(exchanges(turns)) == [("", "Hello, I am here."), ("Which port?", "6381."), ("Thanks", "Welcome.")]


def test_each_message_of_a_user_is_an_exchange_answered_or_not(say):
    """What a user sent before was never answered; an assistant's messages in a row are one answer."""
    turns = [
        say(("user", "Stop")),
        say(("user", "Which port?")),
        say(("assistant", "Let me look.")),
        say(("assistant", "6381.")),
        say(("user", "Thanks")),
    ]
    assert said(exchanges(turns)) == [("Stop", ""), ("Which port?", "Let me look.\n6381."), ("Thanks", "")]


def test_pairs_are_the_same_however_much_is_looked_at(say):
    """A limit or a since in the middle of a session never pairs an answer with the next question."""
    turns = [say(("person", f"line {n}", "Ann" if n % 2 == 0 else "Ben")) for n in range(8)]
    whole = said(newest(turns))
    assert len(whole) == 4
    for limit in range(1, 5):
        assert said(newest(turns, limit)) == whole[:limit]
    assert said(newest(turns, since=turns[3].at())) == whole[:3]
    assert said(newest(turns, until=turns[6].at())) == whole[1:]


def test_the_newest_exchanges_of_all_sessions_come_first_by_when_they_ended(say):
    """An exchange that took long is as new as its last turn."""
    asked = say(("person", "Coming?", "Ann"), session="chat")
    other = say(("user", "Which port?"), ("assistant", "6381."), session="work")
    answered = say(("person", "Yes.", "Ben"), session="chat")
    found = newest([asked, other, answered])
    assert said(found) == [("Ann: Coming?", "Ben: Yes."), ("Which port?", "6381.")]
    assert found[0].ended_at == answered.at()


def test_it_looks_further_back_until_there_are_enough(say):
    """Ten utterances in a row are one side: the asked number of exchanges needs more turns."""
    turns = [say(("person", f"line {n}", "Ann" if n // 10 % 2 == 0 else "Ben")) for n in range(60)]
    memory = Listed(turns)
    assert len(recent_exchanges(memory, 3, since=None, until=None, user_id="u")) == 3
    assert memory.asked == [3, 6, 12, 24, 48]


def test_a_monologue_without_end_is_not_read_to_its_beginning(say):
    """No more than a thousand turns are listed, and what there is comes back."""
    turns = [say(("person", "word", "Ann")) for _ in range(1200)]
    memory = Listed(turns)
    assert len(recent_exchanges(memory, 2, since=None, until=None, user_id="u")) == 1
    assert max(memory.asked) == 1000
