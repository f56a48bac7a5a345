"""However a log comes in, and however long what it says, it is found the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from neuralstream import NeuralStream, Turn
from neuralstream.testing import FakeClock, FakeEmbedder, ScriptedExtractor

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
CLOSE = 1e-5
"""Scores nearer than this agree; hits nearer than this may change places."""

PLACES = ("Lisbon", "Bergen", "Kyoto", "Leeds", "Tartu", "the harbour", "the allotment", "Camden market")
THINGS = ("a violin", "two kettles", "the blue tent", "a tide table", "my passport", "the greenhouse key", "sourdough")
DEEDS = ("found", "lost", "repaired", "painted", "borrowed", "sold", "photographed", "forgot")
ANSWERS = ("Which key did you mean?", "That was on 7 March, I think.", "Naoko said the same.", "How lovely!")
QUESTIONS = (
    "Where did Ada lose the greenhouse key?",
    "What did Naoko paint in Bergen?",
    "Who said anything on 7 March 2026?",
    "kettles",
    "When was the tide table photographed at the harbour?",
)


def chatter(dice: random.Random) -> str:
    """A sentence or two that people say."""
    said = f"I {dice.choice(DEEDS)} {dice.choice(THINGS)} in {dice.choice(PLACES)}."
    return said if dice.random() < 0.7 else f"{said} {dice.choice(ANSWERS)}"


def prose(words: int, seed: int) -> str:
    """A reply of so many words or a few more, in paragraphs of six sentences."""
    dice = random.Random(seed)
    sentences = [
        f"In {dice.choice(PLACES)} one would have {dice.choice(DEEDS)} {dice.choice(THINGS)} before anybody "
        f"{dice.choice(DEEDS)} {dice.choice(THINGS)}."
        for _ in range(words // 12)
    ]
    return "\n\n".join(" ".join(sentences[start : start + 6]) for start in range(0, len(sentences), 6))


def people() -> list[Turn]:
    """Three sessions of two people, of 17 turns each."""
    dice = random.Random(1)
    return [
        Turn.utterance(
            ("Ada", "Naoko")[number % 2],
            chatter(dice),
            session_id=f"s{session}",
            turn_id=f"s{session}-{number}",
            created_at=START + timedelta(days=3 * session, minutes=number),
        )
        for session in range(3)
        for number in range(17)
    ]


def exchanges() -> list[Turn]:
    """Two sessions with an assistant, of 12 turns each; one reply is longer than an embedder's window."""
    dice = random.Random(2)
    return [
        Turn.exchange(
            chatter(dice),
            prose(700, seed=3) if (session, number) == (0, 5) else chatter(dice),
            session_id=f"s{session}",
            turn_id=f"s{session}-{number}",
            created_at=START + timedelta(days=3 * session, minutes=number),
        )
        for session in range(2)
        for number in range(12)
    ]


class Log:
    """One log, captured into a memory of its own in three ways."""

    def __init__(self, settings, embedder, turns) -> None:
        self._settings = settings
        self._embedder = embedder
        self._turns = turns

    def _open(self, name: str) -> NeuralStream:
        settings = self._settings.model_copy(update={"home": self._settings.home / name})
        clock = FakeClock(START + timedelta(days=30))
        return NeuralStream(settings, clock=clock, embedder=self._embedder, extractor=ScriptedExtractor(lambda _: ()))

    def in_one_go(self):
        """All turns in one call."""
        with self._open("whole") as memory:
            memory.capture_all(self._turns)
            return answers(memory)

    def turn_by_turn(self):
        """Each turn by itself, all work done after each."""
        with self._open("single") as memory:
            for turn in self._turns:
                memory.capture(turn)
                memory.flush()
            return answers(memory)

    def with_restarts(self):
        """Closed and opened again in the middle of a session, twice."""
        for part in (self._turns[:7], self._turns[7:20]):
            with self._open("parts") as memory:
                memory.capture_all(part)
                answers(memory)
        with self._open("parts") as memory:
            memory.capture_all(self._turns[20:])
            return answers(memory)


def answers(memory):
    """Ids and scores, in order, by mode and question; more hits are asked for than there are turns."""
    return {
        (mode, question): [(hit.id, hit.score) for hit in memory.search(question, mode=mode, lane="turns", k=100)]
        for mode in ("bm25", "semantic", "hybrid")
        for question in QUESTIONS
    }


def assert_agree(found, expected):
    """The same hits with the same scores; a hit stands before a better one only where the two are close."""
    for asked, hits in found.items():
        scores = dict(expected[asked])
        assert scores, asked
        assert dict(hits) == pytest.approx(scores, abs=CLOSE, rel=0), asked
        best_after = -float("inf")
        for point, _ in reversed(hits):
            assert scores[point] >= best_after - CLOSE, (asked, point)
            best_after = max(best_after, scores[point])


@pytest.mark.parametrize("model", ["fake", pytest.param("minilm", marks=pytest.mark.slow)])
@pytest.mark.parametrize("log", [people, exchanges])
def test_one_go_turn_by_turn_and_with_restarts_agree(log, model, settings, request):
    """The way a log comes in changes no score by more than 1e-5, and no order but of hits closer than that."""
    embedder = FakeEmbedder() if model == "fake" else request.getfixturevalue("minilm")
    ways = Log(settings, embedder, log())
    whole = ways.in_one_go()
    assert_agree(ways.turn_by_turn(), whole)
    assert_agree(ways.with_restarts(), whole)


def test_a_fact_at_the_end_of_a_long_reply_is_the_first_semantic_hit(settings, minilm):
    """What the last paragraph of a 3,000-word reply tells is found before 30 other replies."""
    long = prose(3000, seed=4) + "\n\nBy the way, the lighthouse keeper's parrot is called Bartholomew."
    assert len(long.split()) >= 3000
    with NeuralStream(settings, embedder=minilm, extractor=ScriptedExtractor(lambda _: ())) as memory:
        others = [
            Turn.exchange(f"Tell me of {PLACES[number % 8]}.", prose(20 + 2 * number, seed=number), session_id="others")
            for number in range(10, 40)
        ]
        told = Turn.exchange("Write up what you know.", long, session_id="told")
        memory.capture_all([*others[:15], told, *others[15:]])
        hits = memory.search("What is the name of the lighthouse keeper's parrot?", mode="semantic", lane="turns", k=5)
        assert hits[0].id == told.turn_id
