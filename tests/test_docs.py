"""Documentation that is made from the code stays as the code is, and links lead somewhere."""

import importlib.util
import re
from pathlib import Path

import pytest
import typer

from neuralstream.cli import app
from neuralstream.config import setting_facts
from neuralstream.extract.prompts import VARIABLES, list_prompts
from neuralstream.extract.schemas import SCHEMAS

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "prompts" / "README.md"])


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


def test_generated_pages_hold_nothing_of_the_machine(generate):
    """No folder of whoever generated them is in the pages."""
    pages = generate.commands_page() + generate.configuration_page()
    assert str(Path.home()) not in pages.replace("`/root`", "")
    assert "/tmp/" not in pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    """A relative link names an existing file."""
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
