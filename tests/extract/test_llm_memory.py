"""Distilling with a model inside a memory: no turn is lost, whatever the server answers."""

import json
import re

import pytest

from neuralstream import MissingPartError, NeuralStream, Turn
from neuralstream.testing import FakeClock, FakeEmbedder, OllamaReply, ScriptedChat, ScriptedOllama

POEM = "Roses are red, and redis is too."


class Scribe:
    """A chat model that answers as told, or with a gem for each turn."""

    def __init__(self):
        self.told = None
        self.asked = 0

    def __call__(self, prompt):
        self.asked += 1
        *_, numbers = re.findall(r"gems of turns ([\d, ]+) as JSON", prompt)
        gems = [
            {"source_turns": [int(n)], "content": f"Machine {n} is in rack {int(n) + 70}.", "tags": ["fact"]}
            for n in numbers.split(", ")
        ]
        return json.dumps({"gems": gems}) if self.told is None else self.told


@pytest.fixture
def scribe():
    """A model that does as told."""
    return Scribe()


@pytest.fixture
def server(scribe):
    """An Ollama server that runs it."""
    with ScriptedOllama({"qwen3": ScriptedChat(scribe)}) as running:
        yield running


@pytest.fixture
def memory(settings, server):
    """A memory that distils with it."""
    settings = settings.model_copy(update={"ollama_url": type(settings)(ollama_url=server.url).ollama_url})
    with NeuralStream(settings, clock=FakeClock(), embedder=FakeEmbedder()) as opened:
        yield opened


def tell(memory, texts):
    """Capture an exchange for each text."""
    for number, text in enumerate(texts):
        memory.capture(Turn.exchange(text, "Noted.", session_id="s1", turn_id=f"t{number}"))


def machines(count=5):
    """What is told."""
    return [f"Machine {number} stands in rack {number + 70}." for number in range(count)]


@pytest.mark.parametrize("told", [POEM, "", '{"gems": [{"content": "Gregor did it.", "source_turns": "3-99"}]}'])
def test_a_useless_answer_ends_as_a_dead_letter_that_can_be_tried_again(memory, scribe, told):
    """It is asked twice and no more; the turns stay searchable, the answer is kept, and a retry distils them once."""
    scribe.told = told
    tell(memory, machines())
    assert scribe.asked == 2
    (letter,) = memory.dead_letters()
    assert [turn.turn_id for turn in letter.turns] == [f"t{number}" for number in range(5)]
    assert letter.answer == (told or None)
    assert "curator@1" in letter.reason
    assert memory.gems() == []
    assert memory.search("machine 3", lane="turns", mode="bm25")[0].id == "t3"
    scribe.told = None
    assert memory.retry_dead_letters() == 1
    assert sorted(gem.source_turns for gem in memory.gems()) == [(f"t{number}",) for number in range(5)]
    assert memory.dead_letters() == []


def test_a_turn_that_does_not_fit_is_a_dead_letter_and_the_rest_goes_on(memory):
    """It is refused before the call, and the next batch is distilled."""
    tell(memory, ["Long. " * 9000, *machines(9)])
    (letter,) = memory.dead_letters()
    assert "llm.num_ctx" in letter.reason
    assert len(letter.turns) == 5
    assert len(memory.gems()) == 5
    assert memory.status().turns == 10


def test_small_talk_is_done_with_no_gem(memory, scribe):
    """An empty answer is no error; the turns are as searchable as ever."""
    scribe.told = '{"gems": []}'
    tell(memory, machines())
    status = memory.status()
    assert (status.gems, status.dead_letters, status.undistilled, status.batches_done) == (0, 0, 0, 1)
    assert memory.search("machine 3", lane="turns", mode="bm25")


def test_a_server_that_fails_costs_no_try(memory, server):
    """The batch waits for the server, without becoming a dead letter, and is distilled when it is back."""
    server.script("/api/chat", lambda _: OllamaReply.error("out of memory", 500))
    with pytest.raises(MissingPartError, match="out of memory"):
        tell(memory, machines())
    assert memory.dead_letters() == []
    assert memory.status().batches_waiting == 1
    server.script("/api/chat", [])
    memory.flush()
    assert len(memory.gems()) == 5


def test_a_forgotten_answer_is_gone(memory, scribe):
    """A dead letter quotes what was said; forgetting the session takes it along."""
    scribe.told = POEM
    tell(memory, machines())
    assert memory.dead_letters()[0].answer == POEM
    memory.forget(session_id="s1")
    assert memory.dead_letters() == []
