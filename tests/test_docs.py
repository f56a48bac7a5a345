"""Documentation that is made from the code stays as the code is, and links lead somewhere."""

import importlib.util
import json
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import pytest
import typer

from neuralstream.cli import app
from neuralstream.config import Settings, setting_facts
from neuralstream.extract.prompts import VARIABLES, list_prompts
from neuralstream.extract.schemas import SCHEMAS
from neuralstream.workbench.datasets import load, stats
from neuralstream.workbench.gate import Broken
from neuralstream.workbench.metrics import score_gems, score_turns
from neuralstream.workbench.policy import policy_metrics
from neuralstream.workbench.reference_gems import Agreement
from neuralstream.workbench.scoring import dataset_facts, gem_facts
from neuralstream.workbench.stats import Verdict
from neuralstream.workbench.thematic import Match, Scored
from neuralstream.workbench.timeline import Timeline

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{room}/README.md" for room in ("prompts", "datasets", "integrations")),
    ]
)
REPORTS = sorted((ROOT / "reports").glob("*.md"))

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
PLACES = "acceptance|benchmarks|datasets|docs|integrations|neuralstream|notebooks|prompts|reports|tests"
MADE_BY_RUNNING = "reports/runs/"
NO_FIGURE = re.compile(r"`[^`]*`|\bISO \d+|\]\([^)]*\)|<http[^>]*>|\bPython \d\.\d+|\b\d{4}-\d\d-\d\d")
"""Code, standards, addresses, dates and versions."""
SOURCE = re.compile(r"\[\d+\](?!\()")
"""Says that a figure is somebody else's, and where it stands."""
FIGURE = re.compile(r"(?<![\w.@/,-])(?:\d+ of \d+|\d*\.\d{3}|\d{3,}(?:,\d{3})*)(?![\w.]\d|\w|%)")
NUMBERS_OF_THE_CODE = {"commands.md", "configuration.md", "http.md", "metrics.md"}
"""Pages full of limits, statuses and years, which no report has."""
OTHER_VARIABLES = ("test_", "config", "debug", "token")
"""Of the environment, and no settings: `NEURALSTREAM_DEBUG` and its like."""
BUDGETS = {"500", "1000", "1,000", "2000", "2,000"}


def _name(page):
    return page.relative_to(ROOT).as_posix()


def _blocks(page, *languages):
    """What stands in fences of these languages, without its indent."""
    text = page.read_text(encoding="utf-8")
    return [
        re.sub(f"(?m)^{found['indent']}", "", found["body"])
        for found in FENCE.finditer(text)
        if found["language"] in languages
    ]


def _prose(page):
    """Paragraphs without fences, tables and comments, each on one line."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    text = re.sub(
        r"<!-- table:.*?<!-- end of table -->|<!--.*?-->|^\|[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE
    )
    items = re.split(r"\n\s*\n|\n(?=\s*[-*] )", text)
    return [" ".join(item.split()) for item in items if item.strip()]


def _parse(command, words, parent=None):
    """Read a command line as the program would, without running anything."""
    context = command.make_context(command.name, list(words), parent=parent)
    rest = [*context._protected_args, *context.args] if hasattr(command, "commands") else []
    if rest:
        _, child, words = command.resolve_command(context, rest)
        _parse(child, words, context)


def _wrong(line, allowed=()):
    """What the program would say of a command line; None where it would begin."""
    try:
        _parse(typer.main.get_command(app), shlex.split(line.partition(" >")[0], comments=True)[1:])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what a reader would meet
        return None if type(error).__name__ in allowed else f"{line}: {getattr(error, 'message', '') or error!r}"
    return None


@pytest.fixture(scope="module")
def generate():
    """The script that writes the pages."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["commands", "configuration"])
def test_generated_pages_are_up_to_date(generate, page):
    """docs/commands.md and docs/configuration.md are what the code says; `python docs/generate.py` renews them."""
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert written == getattr(generate, f"{page}_page")()


def test_the_readme_shows_what_the_reports_say(generate):
    """Every table of README.md that names a report is that report's first table."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == generate.readme_page()
    assert readme.count("<!-- table:") == readme.count("<!-- end of table -->") > 0


def test_every_setting_is_documented():
    """Each setting has a row of its own."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [fact.name for fact in setting_facts() if f"| `{fact.name}` |" not in page] == []


def test_every_command_is_documented():
    """Each command has a section, and says what it does."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():
        for leaf in getattr(command, "commands", {"": command}).values():
            full = f"neuralstream {name}" if leaf is command else f"neuralstream {name} {leaf.name}"
            assert f"## {full}\n" in page, full
            assert leaf.help, full


def test_every_prompt_is_documented():
    """Each variable with its meaning, each schema with its fields, and each shipped prompt has a row of its own."""
    page = (ROOT / "prompts" / "README.md").read_text(encoding="utf-8")
    assert [name for name, meaning in VARIABLES.items() if f"| `${name}` | {meaning} |" not in page] == []
    assert [
        prompt.name
        for prompt in list_prompts()
        if f"| [{prompt.name}]({prompt.name}.md) | {prompt.schema} |" not in page
    ] == []
    rows = {version: re.search(rf"^\| {version} \| (.*`.*) \|$", page, re.MULTILINE) for version in SCHEMAS}
    assert [version for version, row in rows.items() if row is None] == []
    assert all(field in page for schema in SCHEMAS.values() for field in schema.fields)


def test_every_measure_is_explained():
    """Each key that a run's metrics.json can have, and each of a page of themes, is in docs/metrics.md."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    metered = SimpleNamespace(cost=Counter(), gems=lambda _: [], valid_answers=1.0)
    keys = {
        *score_turns([], {"t1"}),
        *score_gems([], {"t1"}),
        *gem_facts([], metered, [], 1),
        *Agreement((), ()).scores(),
        *dataset_facts(load("workdays@nils")),
        *policy_metrics(Timeline()),
        *policy_metrics(Timeline())["lag_turns"],
        *Match._fields,
        *(name for name in Scored._fields if name not in {"name", "matches"}),
    }
    for file in (ROOT / MADE_BY_RUNNING).rglob("metrics.json"):
        keys.update(json.loads(file.read_text(encoding="utf-8")))
    assert sorted(key for key in keys if f"`{key}`" not in page) == []
    assert [word for word in get_args(Verdict) if word not in page] == []
    assert [rule for rule in get_args(get_type_hints(Broken)["rule"]) if f"`{rule}`" not in page] == []


def test_generated_pages_hold_nothing_of_the_machine(generate):
    """No folder of whoever generated them is in the pages."""
    pages = generate.commands_page() + generate.configuration_page()
    assert str(Path.home()) not in pages.replace("`/root`", "")
    assert "/tmp/" not in pages


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    """A relative link names an existing file."""
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, *REPORTS], ids=_name)
def test_command_lines_are_what_the_program_takes(page):
    """A `neuralstream` line in a console block parses as it stands; in the text it is a command with its options."""
    if page.name == "commands.md":
        return
    blocks = "\n".join(_blocks(page, "console", "sh")).replace("\\\n", " ")
    lines = re.findall(r"^\s*(?:\$ )?(neuralstream .+)", blocks, re.MULTILINE)
    names = [name for item in _prose(page) for name in re.findall(r"`(neuralstream [^`]+)`", item)]
    incomplete = ("MissingParameter", "BadOptionUsage")
    found = [*map(_wrong, lines), *(_wrong(name.partition(" | ")[0], incomplete) for name in names)]
    assert [said for said in found if said] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_and_tests_that_are_named_exist(page):
    """`tests/test_crash.py`, `reports/tuning.md` and their like are files, and a test after `::` is in its file."""
    named = re.findall(rf"`((?:{PLACES})/[\w./-]*\w/?)(?:::(\w+))?`", FENCE.sub("", page.read_text(encoding="utf-8")))
    missing = [
        f"{path}::{test}" if test else path
        for path, test in named
        if not path.startswith(MADE_BY_RUNNING)
        and not ((ROOT / path).exists() and (not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")))
    ]
    assert missing == []


@pytest.mark.parametrize("page", REPORTS, ids=_name)
def test_every_report_names_the_command_that_made_it(page):
    """Somewhere in it, as code, stands what to run to have it made again."""
    text = page.read_text(encoding="utf-8")
    assert re.search(r"(?m)(`|^)(neuralstream .*\b(eval|eval-themes|sweep|tune) |python -m benchmarks|make \w)", text)


def test_the_weights_that_ship_are_those_of_the_report():
    """Feature by feature, the table of `reports/tuning.md` is `neuralstream/ranking.toml`, to three digits."""
    shipped = tomllib.loads((ROOT / "neuralstream" / "ranking.toml").read_text(encoding="utf-8"))["retrieval"]
    page = (ROOT / "reports" / "tuning.md").read_text(encoding="utf-8").partition("## Weights\n")[2].partition("## ")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    for column, kind in enumerate(head[1:], 1):
        reported = {row[0]: float(row[column]) for row in rows if row[column] != "-"}
        assert reported == pytest.approx(shipped[kind]["weights"], abs=0.0006), kind


def test_versions_that_the_readme_pins_are_those_of_the_constraints():
    """`torch==…` of the set-up line is what `constraints.txt` would install."""
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    named = set(re.findall(r"\w[\w-]*==[\w.]+", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named
    assert named <= set(pinned)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_python_blocks_compile(page):
    """What stands in a fence as Python is Python."""
    for number, block in enumerate(_blocks(page, "python")):
        compile(block, f"{_name(page)} block {number}", "exec")


@pytest.mark.slow
@pytest.mark.parametrize("block", _blocks(ROOT / "README.md", "python"))
def test_python_blocks_of_the_readme_run(block, tmp_path, monkeypatch, capsys):
    """Pasted into Python without a settings file, they run, and find what they say they find."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURALSTREAM_HOME", str(tmp_path / "home"))
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "6381" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_settings_that_are_shown_load(page, tmp_path, monkeypatch):
    """A TOML block is a settings file: every name is a setting, every value in range; "…" is the reader's own."""
    monkeypatch.chdir(tmp_path)
    for block in _blocks(page, "toml"):
        file = tmp_path / "shown.toml"
        file.write_text(block.replace('"…"', '"0123456789abcdef"'), encoding="utf-8")
        assert Settings.load(file)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_settings_that_are_named_exist(page):
    """`retrieval.mode` in the text, `--set NAME=` and `NEURALSTREAM_NAME` are settings, or tables of them."""
    settings = {fact.name for fact in setting_facts()}
    tables = {name.rpartition(".")[0] for name in settings} - {""}
    text = page.read_text(encoding="utf-8")
    first = "|".join(sorted({table.partition(".")[0] for table in tables}))
    named = {*re.findall(rf"`((?:{first})\.[a-z_.]+)(?=[` =:])", text), *re.findall(r"--set ([a-z_.]+)=", text)}
    variables = {name.lower().replace("__", ".") for name in re.findall(r"\bNEURALSTREAM_([A-Z][A-Z_]*[A-Z])", text)}
    named |= {name for name in variables if not name.startswith(OTHER_VARIABLES)}
    known = settings | tables
    wrong = [name for name in named if name not in known and name.partition(".weights.")[0] + ".weights" not in known]
    assert [name for name in wrong if not name.startswith("serve.tokens.")] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in NUMBERS_OF_THE_CODE], ids=_name)
def test_figures_are_in_the_file_that_their_sentence_names(page):
    """Shares, counts and "N of M" in the text stand in a file that the sentence, else its paragraph, names.

    Name the report or test behind a new figure in its sentence: `reports/NAME.md` or a link. A datasheet stands, too,
    for what `neuralstream datasets stats` counts in its set.
    """
    unfounded = []
    for item in _prose(page):
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", item)
        for sentence in sentences:
            if SOURCE.search(sentence):
                continue
            plain = NO_FIGURE.sub("", sentence)
            files = _files(sentence) or _files(item)
            unfounded += [
                f"{figure} in: {sentence}"
                for figure in FIGURE.findall(plain)
                if figure not in BUDGETS and not any(_holds(file, figure) for file in files)
            ]
    assert unfounded == []


def _files(text):
    named = re.findall(rf"`((?:{PLACES})/[\w./-]+)`|\]\(([^)#]+)\)", text)
    return [ROOT / (one or other) for one, other in named if (ROOT / (one or other)).is_file()]


def _holds(file, figure):
    """Whether a number stands in a file by itself; .682 may be written 0.682 there, 1,976 without its comma."""
    number = re.escape(figure).replace(",", ",?").replace("\\ ", r"\s+")
    text = file.read_text(encoding="utf-8")
    if file.name == "DATASHEET.md":
        text += str(stats(file.parent.name))
    return re.search(rf"(?<![\d.])0?{number}(?!\d)", text) is not None
