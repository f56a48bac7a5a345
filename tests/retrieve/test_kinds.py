from datetime import UTC, datetime

from neuralstream.retrieve.kinds import kind_of
from neuralstream.types import Turn


def exchange(number, user_id="nobody"):
    """A user's message with the reply to it, captured."""
    at = datetime(2026, 5, 1, 0, number, tzinfo=UTC)
    return Turn.exchange(
        "a question", "an answer", session_id="t", turn_id=f"t{number}", user_id=user_id, index=number, created_at=at
    )


def test_a_memory_of_remarks_is_people_talking(memory):
    """Utterances of persons make the kind "people"; nothing at all, or exchanges, make it "assistant"."""
    assert kind_of(memory.store, memory.user_id, ()) == "assistant"
    memory.say("hello there", "hi", "how was the concert?")
    assert kind_of(memory.store, memory.user_id, ()) == "people"
    assert kind_of(memory.store, memory.user_id, [exchange(n) for n in range(4)]) == "assistant"


def test_each_kind_is_ranked_its_own_way(memory_with):
    """The weights of the memory's kind make the ranking, and a kind set by hand wins."""
    memory = memory_with(weights={"bm25": 1.0})
    memory.say("the heron port", "the walrus pier")
    assert set(memory.search("heron port")[0].signals) == {"bm25"}
    fixed = memory_with(weights={"bm25": 1.0}, kind="assistant")
    fixed.say("the heron port", "the walrus pier")
    assert set(fixed.search("heron port")[0].signals) == set(fixed.settings.assistant.weights)
