from datetime import UTC, datetime

from neuralstream.retrieve.kinds import kind_of
from neuralstream.types import Part, Turn


def exchange(number, user_id="nobody"):
    """A user's message with the reply to it, captured."""
    at = datetime(2026, 5, 1, 0, number, tzinfo=UTC)
    return Turn.exchange(
        "a question", "an answer", session_id="t", turn_id=f"t{number}", user_id=user_id, index=number, created_at=at
    )


def message(number, role):
    """One message of a user or an assistant, captured."""
    at = datetime(2026, 5, 1, 0, number, tzinfo=UTC)
    return Turn((Part(role, "so it is"),), "t", f"t{number}", "nobody", number, at)


def test_who_speaks_in_the_newest_turns_tells_the_kind(memory):
    """Persons are people talking; messages of a user and an assistant are told from exchanges."""
    assert kind_of(memory.store, memory.user_id, ()) == "exchange"
    memory.say("hello there", "hi", "how was the concert?")
    assert kind_of(memory.store, memory.user_id, ()) == "people"
    assert kind_of(memory.store, memory.user_id, [exchange(n) for n in range(6)]) == "exchange"
    messages = [message(n, ("user", "assistant")[n % 2]) for n in range(6)]
    assert kind_of(memory.store, memory.user_id, messages) == "assistant"


def test_each_kind_is_ranked_its_own_way(memory_with):
    """The weights of the memory's kind make the ranking, and a kind set by hand wins."""
    memory = memory_with(weights={"bm25": 1.0})
    memory.say("the heron port", "the walrus pier")
    assert set(memory.search("heron port")[0].signals) == {"bm25"}
    fixed = memory_with(weights={"bm25": 1.0}, assistant={"weights": {"dense": 1.0}}, kind="assistant")
    fixed.say("the heron port", "the walrus pier")
    assert set(fixed.search("heron port")[0].signals) == {"dense"}
