"""Evaluating gems of a language model: recorded once against a scripted server, replayed without any network."""

import json
import re
import socket

import pytest

from neuralstream.config import Settings
from neuralstream.errors import CassetteMissError
from neuralstream.testing import FakeEmbedder, ScriptedOllama
from neuralstream.workbench.evaluate import evaluate


def distil(request):
    """Of each turn the reply, word for word; no JSON of Cy's first session, nor at first of Bo's."""
    asked = request.body["messages"][-1]["content"]
    batch = asked.rpartition("New turns")[2]
    if "requiem" in batch or ("oven" in batch and "could not be used" not in batch):
        return message("I am glad to help!")
    replies = re.findall(r"^\[(\d+)\] assistant: (.+)$", batch, re.MULTILINE)
    gems = [{"content": text, "tags": ["fact"], "source_turns": [int(number)]} for number, text in replies]
    return message(json.dumps({"gems": gems}))


def message(text):
    """A chat answer as Ollama gives it."""
    return {"message": {"role": "assistant", "content": text}, "done": True, "prompt_eval_count": 400, "eval_count": 90}


def settings(cassette, mode="replay", **more):
    """Settings that distil with recorded answers."""
    extract = {"extractor": "llm", "prompt": more.pop("prompt", "minimal")}
    return Settings(extract=extract, llm={"mode": mode, "cassette": cassette}, **more)


def measure(tiny, out, chosen):
    """Gems and turns of the tiny set."""
    return evaluate(str(tiny), chosen, modes=("bm25",), lanes=("gems", "turns"), out=out, embedder=FakeEmbedder())


@pytest.fixture(scope="module")
def recorded(tiny, tmp_path_factory):
    """A run that recorded its answers, and the cassette."""
    folder = tmp_path_factory.mktemp("recorded")
    with ScriptedOllama({"qwen3": FakeEmbedder()}) as server:
        server.script("/api/chat", distil)
        run = measure(tiny, folder / "run", settings(folder / "answers.jsonl", "record", ollama_url=server.url))
    return run, folder / "answers.jsonl"


@pytest.fixture
def no_network(monkeypatch):
    """Refuse every connection but those to a socket file, where the embedded Valkey listens."""
    connect = socket.socket.connect

    def refuse(self, address):
        if self.family != socket.AF_UNIX:
            raise AssertionError(f"something connects to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("no_network")
def test_replayed_twice_it_is_the_same_bytes(tiny, recorded, tmp_path):
    """Two replays without a network give what the recording gave, to the byte, under one digest."""
    first, cassette = recorded
    runs = [measure(tiny, tmp_path / name, settings(cassette)) for name in ("a", "b")]
    for name in ("metrics.json", "per_query.jsonl"):
        assert len({(run.path / name).read_bytes() for run in (first, *runs)}) == 1, name
    assert {run.manifest["run"] for run in runs} == {first.manifest["run"]}
    assert (first.timings["recorded_answers"], runs[0].timings["recorded_answers"]) == (0, 8)


def test_what_the_answers_were_like_is_measured(recorded):
    """Six sessions: one answer repaired, one batch lost after two answers."""
    run, _ = recorded
    gems = run.metrics["lanes"]["gems"]["bm25"]["overall"]
    assert (gems["calls"], gems["repairs"], gems["dead_letters"]) == (4 + 2 + 2, 1 + 1, 1)
    assert gems["valid_answers"] == pytest.approx(4 / 6, abs=1e-6)
    assert gems["tokens"] == gems["calls"] * 490
    assert gems["gems_per_100_turns"] == pytest.approx(100 * 15 / 18, abs=1e-6)
    (letter,) = [json.loads(line) for line in (run.path / "dead_letters.jsonl").read_text().splitlines()]
    assert letter["session_id"] == "cy-s0"
    assert letter["answer"] == "I am glad to help!"


def test_the_digest_covers_prompt_and_answers(tiny, recorded, tmp_path):
    """The manifest names model, prompt and cassette; other recorded answers are another run."""
    run, cassette = recorded
    facts = run.manifest["distilling"]
    assert (facts["name"], facts["prompt"]) == ("qwen3", "minimal@1")
    other = tmp_path / "answers.jsonl"
    other.write_text(cassette.read_text().replace("copper", "cobalt"))
    again = measure(tiny, tmp_path / "run", settings(other))
    assert again.manifest["distilling"]["cassette_sha256"] != facts["cassette_sha256"]
    assert again.manifest["run"] != run.manifest["run"]


@pytest.mark.usefixtures("no_network")
def test_a_missing_answer_stops_the_run(tiny, recorded, tmp_path):
    """A prompt that was not recorded is no dead letter: the run ends and says how to record it."""
    _, cassette = recorded
    with pytest.raises(CassetteMissError, match=r"curator@\d.*llm.mode=record"):
        measure(tiny, tmp_path / "run", settings(cassette, prompt="curator"))
    assert list((tmp_path / "run").iterdir()) == []
