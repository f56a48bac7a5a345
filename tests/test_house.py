"""The house: every module in the room that docs/design/house.md gives it, and one way of doing each thing."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import neuralstream
from neuralstream.config import setting_facts

PACKAGE = Path(neuralstream.__file__).parent
PAGE = PACKAGE.parent / "docs" / "design" / "house.md"

READERS = {
    "retrieval": ("retrieve/", "indexing.py"),
    "extract": ("extract/", "distilling.py"),
    "embed": ("embed/",),
    "llm": ("llm/", "extract/"),
    "buffer": ("capture/",),
    "serve": ("serve/",),
}
"""Where the settings of a table are read as `settings.NAME`; anywhere else they are `settings.TABLE.NAME`."""

BROAD = {
    "distilling.py": 1,  # an extractor is foreign code
    "serve/metrics.py": 1,  # counted, and raised again
    "store/edge.py": 2,  # the engine raises bare Exception
    "worker.py": 1,  # the thread's boundary
    "workbench/sweep_work.py": 1,  # the cell's boundary
}
BARE = {
    # Checks of pydantic, which makes them errors of ours.
    "sections.py", "ranking.py", "serve/models.py", "workbench/sweep_file.py",
    # What the module that calls them turns into a problem of a log, a miss, or an InputError.
    "dates/absolute.py", "llm/cassette.py", "logs/files.py", "logs/openclaw_database.py",
}  # fmt: skip
SET_UP_LOGGING = {"cli/output.py", "cli/serve.py", "serve/mcp.py"}
"""What runs a whole program, and so may look at others' loggers."""


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its path."""
    return {
        file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def attributes() -> list[tuple[str, str, str]]:
    """Every attribute that is read: the module, whose it is as written, and its name."""
    return [
        (file, ast.unparse(node.value), node.attr)
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    ]


def found(matches: Callable[[ast.AST], bool]) -> Counter[str]:
    """How many nodes of each module match."""
    return Counter(file for file, tree in modules().items() for node in ast.walk(tree) if matches(node))


def called(node: ast.AST, *names: str) -> bool:
    """Whether a node is a call of one of these."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in names


def named_on_the_page() -> Iterator[str]:
    """Modules and rooms in the page's tree; a room's modules stand below it."""
    tree = re.search(r"## The rooms\n.*?```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert tree
    room = ""
    for line in tree[1].splitlines():
        if top := re.match(r"(\w+)(/|\.py)", line):
            room = top[1] if top[2] == "/" else ""
            yield from [top[0]] if room else re.findall(r"\w+\.py", line)
        elif room and line.startswith("    "):
            yield from (f"{room}/{name}.py" for name in line.split())


def test_the_page_names_every_module():
    """And no other: a module that is new is given a room, one that is gone leaves it."""
    there = {file for file in modules() if not file.endswith("__init__.py")}
    rooms = {f"{file.partition('/')[0]}/" for file in modules() if "/" in file}
    named = Counter(named_on_the_page())
    assert {name: many for name, many in named.items() if many > 1} == {}
    assert set(named) == there | rooms
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 90


def test_one_clock():
    """Nobody else asks the machine what time it is; `time.monotonic` measures how long something takes."""
    clocks = ("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time")
    assert found(lambda node: called(node, *clocks)).keys() == {"clock.py"}


def test_one_reader_of_the_environment():
    """Nobody else looks into it."""
    names = ("os.environ", "os.getenv", "environ", "getenv")
    looks = found(lambda node: isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in names)
    assert looks.keys() == {"config.py"}


def test_loggers_are_named_after_their_modules():
    """So that one room can be listened to; only the command line and the servers set logging up."""

    def named_otherwise(node: ast.AST) -> bool:
        return called(node, "logging.getLogger") and [*map(ast.unparse, node.args)] != ["__name__"]

    assert found(named_otherwise).keys() == SET_UP_LOGGING
    assert found(lambda node: called(node, "logging.basicConfig")).keys() == {"cli/serve.py"}


def test_broad_handlers_are_these():
    """Each stands at the boundary of foreign code or of a thread."""
    handlers = found(
        lambda node: (
            isinstance(node, ast.ExceptHandler)
            and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
        )
    )
    assert handlers == BROAD


def test_no_bare_error_is_raised():
    """What a user meets is an error of errors.py; the modules named turn theirs into one."""
    bare = {"ValueError", "KeyError", "RuntimeError", "TypeError", "LookupError", "Exception", "DatabaseError"}
    raised = found(
        lambda node: (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and ast.unparse(node.exc.func).rpartition(".")[2] in bare
        )
    )
    assert raised.keys() == BARE


@pytest.mark.parametrize("name", [fact.name for fact in setting_facts()])
def test_every_setting_is_read(name):
    """A setting that changes nothing is a promise that is not kept."""
    *tables, key = name.split(".")
    table = tables[0] if tables else ""

    def reads(file: str, owner: str) -> bool:
        if len(tables) > 1:
            return owner.endswith(("ranking", ")"))
        if not table:
            return owner.endswith("settings")
        return owner.endswith(f".{table}") or file.startswith(READERS[table])

    definitions = {"config.py", "sections.py", "ranking.py"}
    read = {file for file, owner, attribute in attributes() if attribute == key and reads(file, owner)}
    assert read - definitions
