"""What a release is made of: dependencies that are used, one version everywhere, and an error for what is missing."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import NamedTuple

import pytest

import neuralstream
from neuralstream import NeuralStream
from neuralstream.serve.http import create_app
from neuralstream.serve.mcp import make_server
from neuralstream.testing import FakeEmbedder
from neuralstream.workbench.runs import versions

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PROGRAMS = {"build", "hatchling", "import-linter", "jupyterlab", "mypy", "neuralstream", "pytest-randomly",
            "pytest-timeout", "pytest-xdist", "ruff"}  # fmt: skip
"""Run, not imported."""


def canonical(name):
    """A distribution's name, however it is written."""
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements):
    """The distributions that requirements name."""
    return {canonical(re.match(r"[\w.-]+", line)[0]) for line in requirements}


class Used(NamedTuple):
    """Top-level modules that code imports, and the first words of texts in quotes, by which some are imported."""

    modules: set[str]
    quoted: set[str]


@cache
def used(folder):
    """What the code in a folder imports."""
    modules, quoted = set(), set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Import():
                    modules.update(alias.name.partition(".")[0] for alias in node.names)
                case ast.ImportFrom(module=str(module), level=0):
                    modules.add(module.partition(".")[0])
                case ast.Constant(value=str(text)):
                    quoted.add(text.partition(".")[0])
    return Used(modules, quoted)


@cache
def origins():
    """The installed distributions that each module comes from."""
    return {module: {canonical(name) for name in names} for module, names in packages_distributions().items()}


def distributions(modules):
    """The installed distributions that any of these modules comes from."""
    return set().union(*(origins().get(module, set()) for module in modules))


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_dependency_is_used(extra):
    """No extra brings what the package does not import; what only tests import is for development."""
    declared = named(EXTRAS[extra] if extra else PROJECT["dependencies"])
    folders = ("neuralstream", "tests", "benchmarks", "integrations/python") if extra == "dev" else ("neuralstream",)
    assert declared - PROGRAMS - distributions(set().union(*(part for at in folders for part in used(at)))) == set()


def test_every_import_is_declared():
    """What the package imports is a dependency, or comes with one."""
    waiting = named([*PROJECT["dependencies"], *(line for extra in EXTRAS if extra != "dev" for line in EXTRAS[extra])])
    brought = set()
    while waiting:
        one = waiting.pop()
        brought.add(one)
        for line in requires(one) or ():
            if ";" not in line:  # what only an extra or another platform needs may not be here
                waiting |= named([line]) - brought
    foreign = used("neuralstream").modules - sys.stdlib_module_names - {"neuralstream"}
    assert {module for module in foreign if not distributions({module}) & brought} == set()


def test_every_dependency_is_pinned():
    """constraints.txt has one exact version for each, in alphabetical order."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    names = [canonical(pin.partition("==")[0]) for pin in pins]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert names == sorted(set(names))
    assert named([*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]) <= {
        *names, "neuralstream",
    }  # fmt: skip


@pytest.mark.parametrize("file", ["openclaw/openclaw.plugin.json", "openclaw/package.json", "pi/package.json"])
def test_the_extensions_have_the_package_s_version(file):
    """They are released together."""
    assert json.loads((ROOT / "integrations" / file).read_text(encoding="utf-8"))["version"] == neuralstream.__version__


def test_the_change_log_begins_with_the_version():
    """Its first heading is this release, with its date."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(neuralstream.__version__)} \(\d{{4}}-\d\d-\d\d\)", headings[0])


def test_services_and_manifests_name_the_version(settings):
    """HTTP, MCP and a run's manifest say it as `neuralstream --version` does."""
    with NeuralStream(settings, embedder=FakeEmbedder()) as memory:
        said = {create_app(memory).version, make_server(memory).version, versions()["neuralstream"]}
    assert said == {neuralstream.__version__}


WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({absent}))
from neuralstream.cli import main
sys.exit(main({arguments}))
"""


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("embedded", ["search", "redis"]),
        ("embedded", ["eval", "--dataset", "workdays@nils", "--out", "run"]),
        ("serve", ["serve", "--port", "0"]),
        ("serve", ["mcp"]),
        ("serve", ["watch", "."]),
        ("workbench", ["notebook", "run", "02_compare_retrievers"]),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_missing_extra_is_named(extra, arguments, tmp_path):
    """A command that lacks a package is exit code 3, and one line says what to install."""
    lacking = named(EXTRAS[extra]) | ({"starlette"} if extra == "serve" else set())
    absent = {module for module, names in origins().items() if names & lacking}
    program = WITHOUT.format(absent=absent, arguments=arguments)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (3, ""), ran.stderr
    assert re.search(rf"pip install ['\"]neuralstream\[{extra}\]['\"]", ran.stderr.splitlines()[-1])
