from dataclasses import replace
from itertools import groupby

import pytest

from neuralstream.config import ExtractSettings, Settings
from neuralstream.extract import make_extractor
from neuralstream.extract.base import Batch
from neuralstream.extract.extractive import ExtractiveExtractor
from neuralstream.logs.locomo import read_conversations


@pytest.fixture
def distil(batch_of):
    """The gems of a batch made of these turns."""
    extractor = ExtractiveExtractor(ExtractSettings())
    return lambda *turns, **options: extractor.extract(batch_of(*turns, **options)).gems


def test_a_gem_says_who_and_when(distil, say):
    """Small talk falls away; the speaker stands before the sentence and the relative date gets its day."""
    (gem,) = distil(say("Caroline", "Hey Mel! I went to a support group yesterday. How about you?"))
    assert gem.content == "Caroline: I went to a support group yesterday (2023-05-07)."
    assert gem.snippet == "Caroline: I went to a support group yesterday."
    assert gem.source_turns == ("t0",)
    assert gem.tags == ("fact",)


def test_a_guessed_time_resolves_nothing(batch_of, say):
    """Where the log had no times, "yesterday" stays unresolved rather than being wrong."""
    batch = batch_of(say("Caroline", "I went to a support group yesterday."))
    batch = replace(batch, turns=(replace(batch.turns[0], time_estimated=True),))
    (gem,) = ExtractiveExtractor(ExtractSettings()).extract(batch).gems
    assert gem.content == "Caroline: I went to a support group yesterday."


def test_a_short_answer_brings_its_question(distil, say):
    """An answer that cannot be understood alone is one gem with its question and cites both turns."""
    gems = distil(
        say("Melanie", "The garden is green. How long have you lived in Lisbon?"),
        say("Caroline", "I think 12 years."),
        say("Melanie", "We planted tomatoes and basil near the kitchen window."),
    )
    answer = next(gem for gem in gems if "t1" in gem.source_turns)
    assert answer.source_turns == ("t0", "t1")
    assert answer.content == "Melanie: How long have you lived in Lisbon? Caroline: I think 12 years."
    assert answer.source.turn_range == "0-1"


def test_a_question_of_an_earlier_batch_is_context(distil, say):
    """A question outside the batch is not cited; it is kept as the gem's context."""
    (gem,) = distil(
        say("Caroline", "The harbour is full of boats."),
        say("Melanie", "How long have you lived in Lisbon?"),
        say("Caroline", "I think 12 years."),
        history=2,
    )
    assert gem.source_turns == ("t2",)
    assert gem.content == "Caroline: I think 12 years."
    assert gem.context == "Melanie: How long have you lived in Lisbon?"


def test_an_exchange_prefers_what_the_user_says(distil, exchange):
    """The user's statement comes first, with one sentence of the reply that adds a fact."""
    (gem,) = distil(
        exchange(
            "Move the redis container to port 6380. thanks!",
            "Great idea! It now listens on 10.8.0.2:6380 and restarts by itself. Anything else?",
        )
    )
    assert gem.content == (
        "User: Move the redis container to port 6380. "
        "Assistant: It now listens on 10.8.0.2:6380 and restarts by itself."
    )
    assert {"port 6380", "10.8.0.2"} <= set(gem.entities)
    assert "decision" in gem.tags


def test_a_reply_without_news_is_left_out(distil, exchange):
    """A reply that only repeats the user's facts costs no tokens."""
    (gem,) = distil(exchange("The redis container uses port 6380.", "Noted, redis container, port 6380."))
    assert gem.content == "User: The redis container uses port 6380."


def test_a_question_is_kept_with_its_answer(distil, exchange):
    """Where the user only asks, the reply is the news and the question tells what it is about."""
    (gem,) = distil(exchange("who sits on 6379?", "A distro redis-server, started at boot by systemd."))
    assert gem.content == "User: who sits on 6379? Assistant: A distro redis-server, started at boot by systemd."


def test_code_is_a_tag_and_a_snippet(distil, exchange):
    """A code block is kept verbatim as the snippet; a short one, or what a diff adds, is shown in the content."""
    (gem,) = distil(
        exchange("set the memory of redis to half a gig", "Done:\n```diff\n-maxmemory 1gb\n+maxmemory 512mb\n```")
    )
    assert gem.tags[-1] == "code"
    assert gem.snippet == "-maxmemory 1gb\n+maxmemory 512mb"
    assert gem.content.endswith("`maxmemory 512mb`")


def test_kinds_raise_importance_and_confidence(distil, exchange):
    """A decision weighs more, and is surer, than a fact of the same length."""
    fact, decision = distil(
        exchange("The kitchen lamp hangs over the table.", ""),
        exchange("We decided on lamps over the table.", ""),
        exchange("Thanks!", ""),
    )
    assert (fact.tags, decision.tags) == (("fact",), ("decision",))
    assert decision.importance > fact.importance
    assert decision.confidence > fact.confidence


def test_what_an_assistant_proposes_is_no_decision(distil, exchange):
    """Where the user states a fact, the reply's cues do not type the gem."""
    (gem,) = distil(exchange("The lamp in the kitchen flickers.", "Let's go with 12 new LED bulbs from Osram."))
    assert gem.tags == ("fact",)


def test_speakers_are_entities(distil, say):
    """A gem can be found by who said it."""
    (gem,) = distil(say("Caroline", "We visited the lighthouse near Porto with Owen."))
    assert gem.entities == ("caroline", "porto", "owen")


def test_topics_are_names_and_what_recurs(distil, exchange):
    """Topics name what the gem mentions, then what the batch returns to."""
    gems = distil(
        exchange("The heron pump drips, says Owen Tait.", ""), exchange("A new pump costs 400 euros at the store.", "")
    )
    assert "owen tait" in gems[0].topics
    assert any("pump" in gem.topics for gem in gems)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("turns", [1, 2, 4, 5, 12, 33])
def test_the_rate_holds_however_a_session_is_cut(batch_of, exchange, size, turns):
    """After a session's first turn, 0.8 gems per turn are the most, whatever the batch size."""
    whole = batch_of(*(exchange(f"Machine {n} has {n * 8} GB of memory in rack {n}.", "") for n in range(turns))).turns
    extractor = make_extractor(Settings())
    gems = [
        gem
        for start in range(0, turns, size)
        for gem in extractor.extract(Batch("b", whole[start : start + size], whole[:start])).gems
    ]
    assert len(gems) == 1 + (turns - 1) * 8 // 10


def test_the_least_telling_turn_is_dropped(distil, exchange):
    """Where the rate is exceeded, the turn that says least gives way."""
    telling = [exchange(f"Machine {n} has {n * 8} GB of memory in rack {n} at Osprey.", "") for n in range(4)]
    gems = distil(exchange("I bought some bread.", ""), *telling)
    assert [gem.source_turns for gem in gems] == [("t1",), ("t2",), ("t3",), ("t4",)]


def test_scripts_without_spaces_are_distilled(distil, exchange):
    """A Chinese statement is kept, a Chinese thank-you is not."""
    (gem,) = distil(exchange("我们昨天把数据库迁移到了6381端口。谢谢！", "好的"))
    assert gem.content == "User: 我们昨天把数据库迁移到了6381端口。"


def test_gems_hold_what_people_are_asked_about(benchmark_data):
    """On LoCoMo, at most 80 gems per 100 turns of at most 1.5 turns each keep over nine tenths of the evidence."""
    extractor = make_extractor(Settings())
    turns = gems = cited = 0
    kept = []
    for conversation in read_conversations(benchmark_data / "locomo" / "locomo_dev5.json"):
        covered = set()
        for _, session in groupby(conversation.turns, key=lambda turn: turn.session_id):
            said = tuple(session)
            turns += len(said)
            for start in range(0, len(said), 5):
                found = extractor.extract(Batch("b", said[start : start + 5], said[:start])).gems
                gems += len(found)
                cited += sum(len(gem.source_turns) for gem in found)
                covered.update(turn_id for gem in found for turn_id in gem.source_turns)
        kept += [
            len(covered & set(question.evidence)) / len(question.evidence)
            for question in conversation.questions
            if question.evidence
        ]
    assert gems / turns <= 0.8
    assert cited / gems <= 1.5
    assert sum(kept) / len(kept) > 0.93
