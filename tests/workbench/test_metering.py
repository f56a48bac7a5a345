"""What an extractor gave and cost."""

import hashlib

import pytest

from neuralstream.config import LlmSettings
from neuralstream.errors import ExtractionError
from neuralstream.extract.base import Batch, Extraction
from neuralstream.testing import ScriptedExtractor
from neuralstream.types import Turn
from neuralstream.workbench.metering import MeteredExtractor, close_after, extractor_facts

TURN = Turn.exchange("hi", "hello", session_id="s1", created_at="2026-03-01T10:00:00Z", index=0)


class Prompted(ScriptedExtractor):
    """An extractor with a prompt, as one with a language model is."""

    prompt, digest, closed = "curator@1", "abc", False

    def close(self):
        self.closed = True


def refuse(cost):
    """A script that fails after having spent something."""

    def script(_batch):
        error = ExtractionError("no JSON")
        error.cost = cost
        raise error

    return script


def test_cost_adds_up_failures_too():
    """Answers that led to nothing cost as well; what comes from a cassette and seconds are kept apart."""
    answers = iter([Extraction(cost={"calls": 2, "tokens": 30, "repairs": 1, "seconds": 1.5, "recorded": 2})])
    metered = MeteredExtractor(ScriptedExtractor(lambda _: next(answers)))
    metered.extract(Batch("b1", (TURN,)))
    failing = MeteredExtractor(ScriptedExtractor(refuse({"calls": 3, "tokens": 50})))
    with pytest.raises(ExtractionError):
        failing.extract(Batch("b1", (TURN,)))
    assert metered.cost == {"calls": 2, "tokens": 30, "repairs": 1, "recorded": 2}
    assert metered.model_seconds == 1.5
    assert failing.cost == {"calls": 3, "tokens": 50}


def test_valid_answers_are_those_that_needed_no_repair():
    """One of three first answers was repaired; trying a batch again does not count its answers again."""
    costs = {"b1": {"calls": 2, "repairs": 1, "invalid": 1}, "b2": {"calls": 1}, "b3": {"calls": 1}}
    metered = MeteredExtractor(ScriptedExtractor(lambda batch: Extraction(cost=costs[batch.batch_id])))
    for batch_id in ("b1", "b1", "b2", "b3"):
        metered.extract(Batch(batch_id, (TURN,)))
    assert metered.valid_answers == pytest.approx(2 / 3)


def test_rules_have_no_answers():
    """Without a model there is no share of valid answers."""
    metered = MeteredExtractor(ScriptedExtractor())
    metered.extract(Batch("b1", (TURN,)))
    assert metered.valid_answers is None


def test_gems_are_those_of_each_batch_once():
    """A batch done again counts with its last gems, and a dead one not at all."""
    metered = MeteredExtractor(ScriptedExtractor())
    for batch_id in ("b1", "b2", "b1"):
        last = metered.extract(Batch(batch_id, (TURN,)))
    assert len(metered.gems()) == 2
    assert metered.gems(dead=["b2"]) == list(last.gems)


def test_facts_name_model_prompt_and_recorded_answers(tmp_path):
    """The cassette counts by its bytes where it is used, and not where the model is asked live."""
    cassette = tmp_path / "answers.jsonl"
    cassette.write_bytes(b"{}\n")
    replayed = LlmSettings(mode="replay", cassette=cassette)
    assert extractor_facts(Prompted(name="qwen3"), replayed) == {
        "name": "qwen3",
        "prompt": "curator@1",
        "digest": "abc",
        "cassette_sha256": hashlib.sha256(b"{}\n").hexdigest(),
    }
    assert extractor_facts(Prompted(), replayed.model_copy(update={"mode": "live"}))["cassette_sha256"] is None
    assert extractor_facts(ScriptedExtractor(), replayed) == {"name": "scripted"}


def test_close_after():
    """What has connections is closed; what has none is left alone."""
    prompted = Prompted()
    close_after(prompted)()
    close_after(ScriptedExtractor())()
    assert prompted.closed
