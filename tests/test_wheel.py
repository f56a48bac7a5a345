"""The wheel: what is in it, and that it does the demo's work in an empty folder without the repository."""

import asyncio
import email
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import httpx
import pytest
from mcp import Client, StdioServerParameters

import neuralstream
from neuralstream.extract.prompts import list_prompts
from neuralstream.workbench import datasets

ROOT = Path(__file__).parents[1]
USERS = "workdays@nils,wren"
HEAVY = {"torch", "pandas", "numba", "grpc", "jupyter", "redis", "qdrant_client", "sentence_transformers", "scipy"}
KINDS = {".css", ".html", ".ipynb", ".js", ".json", ".jsonl", ".md", ".py", ".svg", ".toml", ".typed", ".yaml"}
FRESH = [pytest.mark.slow, pytest.mark.timeout(2400)]

ASK = """
from neuralstream import NeuralStream, Settings, Turn
from neuralstream.testing import FakeEmbedder, ScriptedChat, ScriptedOllama

told = '{"gems": [{"source_turns": [0], "content": "Redis listens on port 6381.", "tags": ["fact"]}]}'
with ScriptedOllama({"qwen3": ScriptedChat(told)}) as server:
    asked = Settings(home="asked", ollama_url=server.url, extract={"prompt": "typed"}, batch_size=1, worker="inline")
    with NeuralStream(asked, embedder=FakeEmbedder()) as memory:
        memory.capture(Turn.exchange("Where does redis listen?", "Redis listens on port 6381.", session_id="s"))
        print([(gem.content, gem.prompt) for gem in memory.gems()])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the sdist, and of the wheel that is made from it, as a release makes them."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


@pytest.fixture(scope="module")
def wheel(built):
    """The wheel's file."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def files(wheel):
    """Names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def run(*command, cwd=ROOT):
    """What a command prints, with nothing of this checkout or of the user's settings in reach."""
    ran = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd, env=environment(cwd)
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def environment(home):
    """The machine's variables without Python's and our own; the home folder is `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEURALSTREAM_", "PYTHON"))}
    return kept | {"HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CACHE_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def test_the_wheel_holds_the_package_and_what_it_reads(files):
    """Code, types, weights, the page, and the prompts, data sets and notebooks of the checkout: all of them."""
    package = {name for name in files if name.startswith("neuralstream/")}
    shipped = {
        f"neuralstream/_shipped/{file.relative_to(ROOT).as_posix()}"
        for folder in ("prompts", "datasets", "notebooks")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in KINDS and ".ipynb_checkpoints" not in file.parts
    }
    code = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "neuralstream").rglob("*")
        if file.suffix in KINDS and "__pycache__" not in file.parts
    }
    assert package == shipped | code
    assert {"neuralstream/py.typed", "neuralstream/ranking.toml", "neuralstream/serve/page/index.html"} <= code
    assert {f"neuralstream/_shipped/datasets/{name}/dataset.json" for name in ("workdays", "tongues")} <= shipped


def test_the_wheel_holds_nothing_else(files):
    """Beside the package only its own record, with the licence."""
    record = {name.partition("/")[2] for name in files if not name.startswith("neuralstream/")}
    assert record == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert {Path(name).suffix for name in files if name.startswith("neuralstream/")} == KINDS


def test_the_sdist_holds_what_the_wheel_is_made_from(built, files):
    """The same files in their places, and what a packager reads; no tests, no reports, nothing from a working tree."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    sources = {name.replace("neuralstream/_shipped/", "") for name in files if name.startswith("neuralstream/")}
    beside = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "constraints.txt", "pyproject.toml", ".gitignore"}
    assert held == sources | beside


def test_metadata_is_that_of_the_project(wheel):
    """Name, version, licence, extras and the README as description."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.message_from_string(archive.read(name).decode())
    assert (about["Name"], about["Version"]) == ("neuralstream", neuralstream.__version__)
    assert (about["License-Expression"], about["Description-Content-Type"]) == ("Apache-2.0", "text/markdown")
    assert set(about.get_all("Provides-Extra")) == {"all", "dask", "dev", "embedded", "serve", "workbench"}
    assert about.get_payload().strip() == (ROOT / "README.md").read_text(encoding="utf-8").strip()


class Installed:
    """A virtual environment in an empty folder, with the wheel installed as `pip install` does it."""

    def __init__(self, folder, wheel, extras):
        self.folder = folder
        self.programs = folder / "venv" / "bin"
        venv.create(folder / "venv", with_pip=True, symlinks=True)
        pip = [self.programs / "python", "-m", "pip", "--disable-pip-version-check"]
        probe = subprocess.run(
            [*pip, "download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", folder / "probe", "stop-words"],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        if probe.returncode:
            pytest.skip(f"no package registry answers here: {probe.stderr.strip().splitlines()[-1]}")
        run(
            *pip,
            "install",
            "--quiet",
            "--no-compile",
            "--constraint",
            ROOT / "constraints.txt",
            f"{wheel}{extras}",
            cwd=folder,
        )

    def run(self, *arguments):
        """What `neuralstream ARGUMENTS` prints."""
        return run(self.programs / "neuralstream", *arguments, cwd=self.folder)

    def python(self, program):
        """What a program prints."""
        return run(self.programs / "python", "-c", program, cwd=self.folder)

    def fails(self, *arguments):
        """The exit code of `neuralstream ARGUMENTS`, and the last line that it says."""
        command = [self.programs / "neuralstream", *arguments]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self.folder, env=environment(self.folder)
        )
        return ran.returncode, ran.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """The base package alone."""
    return Installed(tmp_path_factory.mktemp("alone"), wheel, "")


@pytest.fixture(scope="module")
def whole(wheel, tmp_path_factory):
    """The package with what `make demo` installs."""
    return Installed(tmp_path_factory.mktemp("whole"), wheel, "[all]")


class TestTheBasePackage:
    """Without an extra: everything that a user's own servers do not need."""

    pytestmark = FRESH

    def test_it_is_imported_and_configured(self, alone):
        """The package, its settings and its data sets are there."""
        assert alone.python("import neuralstream; print(neuralstream.__file__)").startswith(str(alone.folder))
        assert alone.run("--version").strip() == neuralstream.__version__
        assert json.loads(alone.run("config", "show", "--json"))["batch_size"] == {"value": 5, "from": "default"}
        assert [row["name"] for row in json.loads(alone.run("datasets", "list", "--json"))] == ["workdays", "tongues"]

    @pytest.mark.parametrize(
        ("extra", "arguments"),
        [
            ("embedded", ["recent"]),
            ("embedded", ["eval", "--dataset", USERS, "--out", "run"]),
            ("serve", ["serve"]),
            ("serve", ["mcp"]),
            ("serve", ["watch", "."]),
            ("workbench", ["notebook", "run", "02_compare_retrievers"]),
        ],
        ids=lambda value: value if isinstance(value, str) else value[0],
    )
    def test_what_is_missing_is_named(self, alone, extra, arguments):
        """A command that needs an extra is exit code 3, and says what to install."""
        code, said = alone.fails(*arguments)
        assert code == 3
        assert re.search(rf"pip install ['\"]neuralstream\[{extra}\]['\"]", said)


class TestTheDemo:
    """With all extras, what the demo and the README do."""

    pytestmark = FRESH

    def test_importing_stays_light(self, whole):
        """Nothing heavy is loaded, however much is installed."""
        loaded = whole.python("import neuralstream, sys; print(*{name.partition('.')[0] for name in sys.modules})")
        assert HEAVY & set(loaded.split()) == set()

    def test_the_shipped_logs_are_replayed(self, whole):
        """Every exchange of the sixteen people is captured."""
        place = json.loads(whole.run("datasets", "list", "--json"))[0]["path"]
        assert place.startswith(str(whole.folder))
        rows = json.loads(whole.run("--home", "replayed", "replay", place, "--json"))
        turns = datasets.stats("workdays")["turns"]
        assert sum(row["new"] for row in rows) == turns

    def test_numbers_are_those_of_the_checkout(self, whole, tmp_path):
        """All five modes find what they find here, to the last bit; a table says so."""
        table = whole.run("eval", "--dataset", USERS, "--out", "run")
        assert re.findall(r"^turns\s+(\w+)", table, re.MULTILINE) == [
            "substring",
            "bm25",
            "semantic",
            "graph",
            "hybrid",
        ]
        run(sys.executable, "-m", "neuralstream", "eval", "--dataset", USERS, "--out", tmp_path / "run", cwd=tmp_path)
        assert (whole.folder / "run" / "metrics.json").read_bytes() == (tmp_path / "run" / "metrics.json").read_bytes()
        made, here = (json.loads((at / "run" / "manifest.json").read_text()) for at in (whole.folder, tmp_path))
        assert made["core_digest"] == here["core_digest"]

    def test_a_shipped_notebook_runs_by_its_name(self, whole):
        """It leaves its report in the working folder."""
        said = whole.run("notebook", "run", "02_compare_retrievers", "-p", "dataset", "workdays@nils")
        report = whole.folder / "reports" / "runs" / "02_compare_retrievers" / "report.html"
        assert said.splitlines()[-1] == str(report)
        assert report.is_file()

    def test_every_part_is_there(self, whole):
        """The doctor finds nothing missing."""
        assert "DOWN" not in whole.run("doctor")  # it would be exit code 3, too

    def test_prompts_are_there_and_used(self, whole):
        """Those of the checkout are listed, and one asks a model."""
        listed = whole.python("from neuralstream.extract.prompts import list_prompts; print(*list_prompts())")
        assert listed.split() == list(map(str, list_prompts()))
        assert "('Redis listens on port 6381.', 'typed@" in whole.python(ASK)

    def test_the_ten_lines_of_the_readme_work(self, whole):
        """As they stand there."""
        (lines,) = re.findall(r"```python\n(from neuralstream.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        assert "Done, 6379 stays for staging." in whole.python(lines)

    def test_the_service_answers(self, whole):
        """Its health, its version and its page."""
        service = subprocess.Popen(
            [whole.programs / "neuralstream", "serve", "--port", "0"],
            stderr=subprocess.PIPE, text=True, cwd=whole.folder, env=environment(whole.folder),
        )  # fmt: skip
        try:
            line = next(line for line in service.stderr if "listening on" in line)
            with httpx.Client(base_url=line.split()[-1], timeout=60) as client:
                assert client.get("/readyz").status_code == client.get("/healthz").status_code == 200
                assert client.get("/openapi.json").json()["info"]["version"] == neuralstream.__version__
                assert "<script" in client.get("/").text
        finally:
            service.terminate()
            service.communicate(timeout=60)
        assert service.returncode == 0

    def test_models_are_offered_tools(self, whole):
        """Over standard input and output."""

        async def talk():
            command = StdioServerParameters(
                command=str(whole.programs / "neuralstream"), args=["mcp"], env=environment(whole.folder)
            )
            async with Client(command) as client:
                return {tool.name for tool in (await client.list_tools()).tools}

        assert {"remember", "recall", "search_memory"} <= asyncio.run(talk())
