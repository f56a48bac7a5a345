import io
import json
import re
import subprocess
import sys
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import partial

import pytest

from neuralstream.cli import output


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A context in which both streams are one terminal with colours, 60 columns wide."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)

    @contextmanager
    def switched_on():
        screen = Screen()
        with redirect_stdout(screen), redirect_stderr(screen):
            yield screen

    return switched_on


def test_plain_tables_are_one_line_a_row(capsys):
    """Where there is no terminal, cells are tab-separated and never hold a tab or a line end of their own."""
    output.print_table(("a", "b", "c"), [("x\ty\nz", None, 0.5), (True, 3, datetime(2026, 5, 8, 12, tzinfo=UTC))])
    assert capsys.readouterr().out == "a\tb\tc\nx y z\t\t0.5000\nyes\t3\t2026-05-08 12:00\n"


def test_remembered_text_cannot_steer_the_terminal(terminal):
    """Escape sequences in a text are printed without the escape."""
    with terminal() as screen:
        output.print_table(("text",), [("\x1b]0;owned\x07\x1b[2Jhello",)])
        output.print_text("\x1b[2Jhello")
        output.note("\x1b[2Jhello")
    assert screen.getvalue().count("hello") == 3
    assert "\x1b]0" not in screen.getvalue()
    assert "\x1b[2J" not in screen.getvalue()


def test_markup_in_a_text_is_text(terminal):
    """Square brackets are printed as they are."""
    with terminal() as screen:
        output.print_table(("text",), [("[red]hello[/red] [x]",)])
    assert "[red]hello[/red] [x]" in screen.getvalue()


@pytest.mark.parametrize("colours", [True, False])
def test_colours_respect_no_color(terminal, monkeypatch, colours):
    """A bar has colours on a terminal, and none with NO_COLOR."""
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as screen, output.progress() as report:
        report("capture", 5, 10)
    assert ("\x1b[38" in screen.getvalue() or "\x1b[3" in screen.getvalue()) == colours


@pytest.mark.parametrize("as_json", [True, False])
def test_json_comes_without_progress(terminal, as_json):
    """What prints JSON for a program shows no bar, on a terminal too."""
    with output.answering(as_json=as_json), terminal() as screen, output.progress() as report:
        report("capture", 5, 10)
    assert ("capture" in screen.getvalue()) != as_json


def test_a_command_asked_for_json_says_so(cli, log, monkeypatch):
    """`--json` reaches what shows progress, whatever command it is given to."""
    asked = []
    monkeypatch.setattr("neuralstream.cli.options.answering", lambda *, as_json: asked.append(as_json) or nullcontext())
    cli("import", log, "--dry-run")
    cli("import", log, "--dry-run", "--json")
    assert asked[1::2] == [False, True]


def test_warnings_of_the_core_are_notes(tmp_path):
    """A command says on stderr what the core warns of, once; a program that configures no logging is told nothing."""
    warn = "import logging; logging.getLogger('neuralstream.worker').warning('a part is down')"
    command = f"from neuralstream.cli.output import note_warnings; note_warnings(); note_warnings(); {warn}"
    library = f"import neuralstream; {warn}"
    run = partial(subprocess.run, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run([sys.executable, "-c", command]).stderr == "warning: a part is down\n"
    assert run([sys.executable, "-c", library]).stderr == ""


def test_a_table_fits_the_terminal(terminal):
    """A long text is folded, not cut, and is drawn under a line."""
    with terminal() as screen:
        output.print_table(("text",), [("word " * 40 + "end",)])
    assert "end" in screen.getvalue()
    assert "─" in screen.getvalue()
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines())) <= 60


def test_a_table_of_figures_is_never_folded(terminal):
    """Figures that have no room follow in a further table, after the columns that tell the rows apart."""
    names = ("lane", "mode", *(f"evidence@{budget}" for budget in range(100, 900, 100)))
    with terminal() as screen:
        output.print_table(names, [("turns", "bm25", *[0.5] * 8), ("turns", "hybrid", *[0.25] * 8)])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert max(map(len, lines)) <= 60
    rows = [line.split() for line in lines if line.startswith("turns  hybrid")]
    assert len(rows) > 1
    assert sum(row.count("0.250") for row in rows) == 8


def test_json_keeps_every_letter(capsys):
    """JSON is one document, with letters as they are."""
    output.print_json({"text": "Grüße 你好"})
    printed = capsys.readouterr().out
    assert "Grüße 你好" in printed
    assert json.loads(printed) == {"text": "Grüße 你好"}


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys, monkeypatch):
    """Plain progress goes to stderr, at most every few seconds."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with output.progress() as report:
        report("capture", 1, 10)
        now[0] = 6.0
        report("capture", 5, 10)
        report("capture", 6, 10)
        now[0] = 12.0
        report("ask", 3, None)
    assert capsys.readouterr() == ("", "capture: 5 of 10\nask: 3\n")


def test_progress_on_a_terminal_stays_off_stdout(terminal):
    """A bar is drawn on stderr."""
    with terminal(), redirect_stdout(io.StringIO()) as stdout, output.progress() as report:
        report("capture", 5, 10)
    assert stdout.getvalue() == ""
