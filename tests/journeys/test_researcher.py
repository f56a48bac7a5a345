"""The way of docs/researcher.md as commands: a notebook, a threshold, a prompt, its verdict, what is served."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from neuralstream import NeuralStream, NeuralStreamClient, Settings
from neuralstream.clock import parse_time
from neuralstream.testing import FakeEmbedder, ScriptedChat, ScriptedOllama, serving

CHECKOUT = Path(__file__).parents[2]
DATASET = "workdays@wren"
QUESTION = "wren-q05"

pytestmark = pytest.mark.slow

SWEEP = f"""
dataset: {DATASET}
lanes: [gems, turns]
modes: [hybrid]
settings: {{extract.prompts: my-prompts}}
sweeps:
  - name: rules
    settings: {{extract.extractor: extractive}}
    grid: {{batch_size: [5]}}
  - name: prompts
    settings: {{extract.extractor: llm, gem_model: my-model, llm.mode: replay, llm.cassette: answers.jsonl}}
    grid: {{extract.prompt: [minimal, mine]}}
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path):
    """A command as it is typed, in an empty folder; it has to end with the code that is expected."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NEURALSTREAM_")}
    environment |= {
        "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(CHECKOUT), "NEURALSTREAM_HOME": str(tmp_path / "home"),
        "NEURALSTREAM_CACHE_DIR": str(tmp_path / "cache"),
    }  # fmt: skip

    def run(line: str, code: int = 0) -> Ran:
        words = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def model():
    """A server as a researcher has one: it embeds, and distils each reply into a gem; briefly where it is told so."""

    def distil(prompt):
        batch = prompt.rpartition("New turns")[2]
        longest = 60 if "Be brief" in prompt else 400
        said = re.findall(r"^\[(\d+)\] [^\n]*?assistant: (.+)$", batch, re.MULTILINE)
        return json.dumps(
            {
                "gems": [
                    {"content": text[:longest], "tags": ["fact"], "source_turns": [int(number)], "importance": 0.5}
                    | {"confidence": 0.9, "topics": ["work"]}
                    for number, text in said
                ]
            }
        )

    with ScriptedOllama({"snowflake-arctic-embed2": FakeEmbedder(), "my-model": ScriptedChat(distil)}) as server:
        yield server


def test_from_a_notebook_to_what_is_served(command, model, tmp_path):
    """Each command of the way ends as it should, says what comes next, and what is served ranks as it was measured."""
    _a_notebook(command, tmp_path)
    _thresholds_that_cannot_be(command)
    best, other = _a_prompt(command, model, tmp_path)
    _a_promotion(command, best, other, tmp_path)


def test_what_is_promoted_ranks_as_it_was_measured(command, tmp_path):
    """The run, the command, the core and the service give one ranking, and each says by what evidence it serves."""
    command(f"neuralstream eval --dataset {DATASET} --modes hybrid --set retrieval.candidates=150 --out RUN")
    promoted = command("neuralstream promote RUN --to neuralstream.toml")
    assert "retrieval.candidates\t200\t150" in promoted.out
    assert "turns/hybrid has nDCG@10" in command("neuralstream doctor").out
    command(f"neuralstream replay {CHECKOUT / 'datasets' / 'workdays' / 'conversations' / 'wren.jsonl'}")
    asked = _lines(CHECKOUT / "datasets" / "workdays" / "queries" / "wren.jsonl", QUESTION)
    measured = [hit["id"] for hit in _lines(tmp_path / "RUN" / "per_query.jsonl", QUESTION)["ranking"]]
    assert len(measured) == 10
    text, then = asked["text"], asked["asked_at"]
    told = command(f"neuralstream search {shlex.quote(text)} --user wren -k 10 --as-of {then} --json")
    assert [hit["id"] for hit in json.loads(told.out)] == measured
    settings = Settings.load(tmp_path / "neuralstream.toml", home=tmp_path / "home", cache_dir=tmp_path / "cache")
    with NeuralStream(settings) as memory:
        found = memory.search(text, k=10, user_id="wren", as_of=parse_time(then))
        assert [hit.id for hit in found] == measured
        with serving(memory) as url, NeuralStreamClient(url, user_id="wren") as client:
            assert [hit.id for hit in client.search(text, k=10, as_of=parse_time(then))] == measured
    (tmp_path / "neuralstream.toml").write_text(
        (tmp_path / "neuralstream.toml").read_text().replace("candidates = 150", "candidates = 10")
    )
    assert "changed" in command("neuralstream doctor").out


def _lines(file, query_id):
    """The line of a file that is about a question."""
    return next(one for one in map(json.loads, file.read_text().splitlines()) if one["query_id"] == query_id)


def _a_notebook(command, folder):
    ran = command(
        f"neuralstream notebook run 02_compare_retrievers -p dataset {DATASET} -p modes bm25,hybrid --out demo"
    )
    assert "| turns | hybrid |" in ran.out
    assert Path(ran.out.splitlines()[-1]) == folder / "demo" / "report.html"
    assert "<table" in (folder / "demo" / "report.html").read_text()
    wrong = command("neuralstream notebook run 02_compare_retrievers -p datset workdays", 2)
    assert "did you mean 'dataset'?" in wrong.err
    timeline = CHECKOUT / "notebooks" / "01_replay_timeline.ipynb"
    command(f"papermill {timeline} 01.ipynb -p dataset {DATASET} -p batch_size 3 -p out lived")
    assert json.loads((folder / "lived" / "result.json").read_text())["parameters"]["batch_size"] == 3


def _thresholds_that_cannot_be(command):
    for given, said in {
        "context_threshold=30": "allowed: 40 to 80",
        "batchsize=5": "unknown setting 'batchsize'",
        "retrieval.exchange.weights.dnse=1": "unknown features ['dnse']; use bm25",
    }.items():
        assert said in command(f"neuralstream eval --dataset {DATASET} --out X --set {given}", 2).err


def _a_prompt(command, model, folder):
    (folder / "my-prompts").mkdir()
    mine = Path(shutil.copy(CHECKOUT / "prompts" / "minimal.md", folder / "my-prompts" / "mine.md"))
    (folder / "sweep.yaml").write_text(SWEEP)
    unnamed = command("neuralstream sweep sweep.yaml --out S --jobs 1", 2)
    assert "name = 'minimal' is not the file's name" in unnamed.err
    mine.write_text(
        mine.read_text().replace('name = "minimal"', 'name = "mine"').replace("- tags:", "- Be brief.\n- tags:")
    )
    missing = command("neuralstream sweep sweep.yaml --out S --jobs 1", 1)
    recording = [line.strip() for line in missing.err.splitlines() if line.startswith("  neuralstream eval")]
    assert len(recording) == 2
    for line in recording:
        command(line.replace("http://localhost:11434", model.url))
    swept = command("neuralstream sweep sweep.yaml --out S --jobs 1 --json")
    found = json.loads(swept.out)
    assert not found["failed"]
    assert {row["against_best"]["verdict"] for row in found["against_best"][1:]} == {"too few to tell"}
    best, *_, last = [row["digest"] for row in found["against_best"]]
    compared = command(f"neuralstream compare S/{last} S/{best}")
    assert "gems: too few to tell. evidence@1000" in compared.out
    command(f"neuralstream explain S/{best} {QUESTION}")
    return best, last


def _a_promotion(command, best, other, folder):
    served = folder / "served.toml"
    first = command(f"neuralstream promote S/{other} --lane gems --to served.toml")
    assert "there is no incumbent to be better than" in first.err
    refused = command(f"neuralstream promote S/{best} --lane gems --to served.toml", 4)
    assert "1 user is too few for a verdict on 3 candidates" in refused.err
    forced = "--force --why 'the house model' --max-latency-ms 99999"  # a busy machine is no reason here
    command(f"neuralstream promote S/{best} --lane gems --to served.toml {forced}")
    settings = Settings.load(served)
    assert (settings.promoted.run, settings.promoted.forced) == (best, "the house model")
