"""The shipped notebooks: their form, and that their numbers are those of the commands."""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest

from neuralstream.cli import main
from neuralstream.config import Settings
from neuralstream.errors import InputError
from neuralstream.testing import FakeEmbedder, ScriptedOllama
from neuralstream.workbench import notebook
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.runs import read_run

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = ("01_replay_timeline", "02_compare_retrievers", "03_sweep_capture", "04_tune_fusion", "05_choose_config")

# jupyter_client and its dependencies warn about themselves.
pytestmark = pytest.mark.filterwarnings("ignore")

each = pytest.mark.parametrize("name", NAMES)


def read(name):
    """A shipped notebook, and its cells of code."""
    found = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    return found, [cell for cell in found.cells if cell.cell_type == "code"]


@pytest.fixture
def run(tmp_path, settings):
    """Run a shipped notebook into a folder of its own; kernel and commands find the same settings and vectors."""
    (tmp_path / "neuralstream.toml").write_text(f"cache_dir = {json.dumps(str(settings.cache_dir))}\n")

    def run(name, **parameters):
        return notebook.run_notebook(NOTEBOOKS / f"{name}.ipynb", parameters | {"out": tmp_path / "run"})

    return run


@pytest.fixture
def command(capsys):
    """What a command prints as JSON."""

    def run(*arguments):
        capsys.readouterr()
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_all_are_here():
    """The notebooks of the table of contents, no more and no less."""
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == list(NAMES)


@each
def test_form(name):
    """A notebook is valid, opens with prose, defines nothing, stores no outputs, and ends by writing its result."""
    found, code = read(name)
    nbformat.validate(found)
    assert found.cells[0].cell_type == "markdown"
    assert found.metadata.kernelspec.name == "python3"
    assert code[0].metadata.tags == ["parameters"]
    assert "notebook.write_result(" in code[-1].source
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert not any(line.lstrip().startswith(("def ", "class ")) for cell in code for line in cell.source.splitlines())


@each
def test_every_parameter_is_checked_and_explained(name):
    """The cell after the parameters checks each of them by name, and the prose before says what each is."""
    found, code = read(name)
    declared = [statement.targets[0].id for statement in ast.parse(code[0].source).body]
    check = next(node for node in ast.walk(ast.parse(code[1].source)) if isinstance(node, ast.Call))
    assert check.func.attr == "check_parameters"
    assert {word.arg: word.value.id for word in check.keywords} == {name: name for name in declared}
    explained = " ".join(re.findall(r"^- (.+(?:\n  .+)*)", found.cells[1].source, re.MULTILINE))
    assert [one for one in declared if f"`{one}`" not in explained] == []


@each
def test_misspelt_parameter_starts_no_kernel(name, monkeypatch):
    """An undeclared name is refused before papermill is loaded."""
    monkeypatch.setattr(notebook, "require", lambda module: pytest.fail(f"{module} was loaded"))
    with pytest.raises(InputError, match="'datset' is not declared; did you mean 'dataset'"):
        notebook.run_notebook(NOTEBOOKS / f"{name}.ipynb", {"datset": "workdays"})


def test_compare_retrievers(run, tiny, tmp_path, settings):
    """The notebook runs in a real kernel, and its numbers and files are those of `evaluate`."""
    given = {"dataset": str(tiny), "modes": ["bm25", "hybrid"], "lane": "turns", "k": 5}
    result = run("02_compare_retrievers", **given)
    direct = evaluate(str(tiny), settings, modes=("bm25", "hybrid"), out=tmp_path / "direct", k=5)
    assert result["metrics"] == json.loads((tmp_path / "direct" / "metrics.json").read_text())
    assert result["run"] == direct.manifest["run"]
    assert result["parameters"] == given | {"config": "", "out": str(tmp_path / "run")}
    for name in ("metrics.json", "per_query.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "direct" / name).read_bytes()
    assert (tmp_path / "run" / "report.html").is_file()
    assert (tmp_path / "run" / "summary.md").is_file()


@pytest.mark.slow
def test_replay_timeline(run, command, tiny, tmp_path):
    """Its measures of the capture policy and of the gems are those of `neuralstream eval` with the same host."""
    result = run("01_replay_timeline", dataset=str(tiny), batch_size=2, context_window=512)
    host = {"batch_size": 2, "context_threshold": 50, "context_window": 512, "compact_at": 90, "compact_to": 20}
    given = [part for name, value in host.items() for part in ("--set", f"{name}={value}")]
    metrics = command(
        "eval", "--dataset", tiny, "--lane", "gems", "--modes", "hybrid", "--out", tmp_path / "cli", *given
    )
    assert result["metrics"] == metrics
    assert result["policy"] == metrics["policy"]
    assert result["run"] == read_run(tmp_path / "cli").manifest["run"]
    events = [json.loads(line) for line in (tmp_path / "run" / "timeline.jsonl").read_text().splitlines()]
    assert sum(event["event"] == "batch" for event in events) == metrics["policy"]["batches"]


@pytest.mark.slow
def test_replay_timeline_of_logs_without_labels(run, own_logs):
    """One's own logs need no questions: what was distilled when is told all the same."""
    result = run("01_replay_timeline", dataset=f"openai:{own_logs}/ada.jsonl")
    assert result["metrics"] is None
    assert result["policy"]["turns"] == 5


@pytest.mark.slow
def test_sweep_capture(run, command, tiny, tmp_path):
    """Its two sweeps are files that `neuralstream sweep` runs with the same outcome, prompts beside rules included."""
    cassette = tmp_path / "answers.jsonl"
    with ScriptedOllama({"qwen3": FakeEmbedder()}) as server:
        server.script("/api/chat", _distil)
        for prompt in ("minimal", "curator"):
            settings = Settings(
                ollama_url=server.url,
                extract={"extractor": "llm", "prompt": prompt, "history_turns": 2},
                llm={"mode": "record", "cassette": cassette},
            )
            evaluate(
                f"{tiny}@bo", settings, modes=("bm25",), lanes=("gems",), out=tmp_path / "made", embedder=FakeEmbedder()
            )
    result = run(
        "03_sweep_capture", dataset=str(tiny), batch_sizes=[2, 3], context_thresholds=[40, 80], context_window=512,
        answers=str(cassette), jobs=1,
    )  # fmt: skip
    assert result["users"] == ["bo"]
    assert len(result["capture"]["cells"]) == 4
    assert [cell["varied"] for cell in result["prompts"]["cells"]] == [
        {"extract.extractor": "extractive"}, {"extract.prompt": "minimal"}, {"extract.prompt": "curator"}
    ]  # fmt: skip
    assert not result["capture"]["failed"] | result["prompts"]["failed"]
    for name in ("capture", "prompts"):
        again = command("sweep", tmp_path / "run" / f"{name}.yaml", "--out", tmp_path / name, "--jobs", 1)
        assert {key: again[key] for key in ("cells", "rows", "against_best")} == {
            key: result[name][key] for key in ("cells", "rows", "against_best")
        }


@pytest.mark.slow
def test_tune_fusion(run, command, crew, tmp_path):
    """Its weights and numbers are those of `neuralstream tune`; served, they are evaluated on data held out."""
    result = run("04_tune_fusion", dataset=f"native:{crew}@ada,bo,cy,di,ed", test=f"native:{crew}@flo,gus,hal")
    tuned = command(
        "tune", "--dataset", f"native:{crew}@ada,bo,cy,di,ed", "--out", tmp_path / "cli.toml", "--force"
    )  # fmt: skip
    assert result["tuning"] == tuned
    if not tuned["refusals"]:
        assert (tmp_path / "run" / "neuralstream.toml").read_text() == (tmp_path / "cli.toml").read_text()
        assert result["held_out"]["fitted"]["dataset"]["conversations"] == 3


@pytest.mark.slow
def test_choose_config(run, command, crew, tmp_path):
    """What it compares are runs of `neuralstream eval`; what it promotes is served from the folder of its results."""
    given = ["retrieval.mode=substring", "retrieval.mode=hybrid retrieval.k=7"]
    dataset = f"native:{crew}@ada,bo,cy,di"
    result = run("05_choose_config", dataset=dataset, candidates=given, test=f"native:{crew}@ed,flo,gus,hal")
    best = result["best"]
    mode = "hybrid" if "hybrid" in best else "substring"
    given = [part for text in best.split() for part in ("--set", text)]
    metrics = command("eval", "--dataset", dataset, "--modes", mode, "--out", tmp_path / "cli", *given)
    assert result["candidates"][best]["metrics"] == metrics
    served = Settings.load(tmp_path / "run" / "neuralstream.toml")
    assert served.promoted.run == result["confirmed"][best]["run"] == result["promoted"]["run"]
    assert served.retrieval.mode == mode
    assert (tmp_path / "neuralstream.toml").read_text().count("\n") == 1, "what is served was touched"


@pytest.mark.slow
@each
def test_public_set_by_parameter_alone(name, run, few_sessions):
    """A set in another format needs nothing but its name."""
    fewer = {"03_sweep_capture": {"batch_sizes": [5], "context_thresholds": [50], "jobs": 1}}
    result = run(name, dataset=f"locomo:{few_sessions}", **fewer.get(name, {}))
    assert result["parameters"]["dataset"] == f"locomo:{few_sessions}"


@pytest.fixture(scope="module")
def few_sessions(benchmark_data, tmp_path_factory):
    """The first three sessions of three LoCoMo conversations, and the questions that these answer."""
    found = json.loads((benchmark_data / "locomo" / "locomo_dev5.json").read_text())[:3]
    for one in found:
        later = [key for key in one["conversation"] if re.fullmatch(r"session_(?![123](\D|$)).*", key)]
        for key in later:
            del one["conversation"][key]
        one["qa"] = [q for q in one["qa"] if all(re.match("D[123]:", place) for place in q["evidence"])]
    file = tmp_path_factory.mktemp("locomo") / "few.json"
    file.write_text(json.dumps(found))
    return file


def _distil(request):
    """Of each turn the reply, word for word, as Ollama's chat answers."""
    batch = request.body["messages"][-1]["content"].rpartition("New turns")[2]
    replies = re.findall(r"^\[(\d+)\] assistant: (.+)$", batch, re.MULTILINE)
    gems = [{"content": text, "tags": ["fact"], "source_turns": [int(number)]} for number, text in replies]
    answer = {"role": "assistant", "content": json.dumps({"gems": gems})}
    return {"message": answer, "done": True, "prompt_eval_count": 400, "eval_count": 90}
