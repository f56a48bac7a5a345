"""The script that shows every promise: what it names exists, and what falls short is told."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from acceptance.__main__ import ROOMS
from acceptance.line import Check, Line, Shown, Verdict, checked, not_shown
from acceptance.report import Kept
from acceptance.site import ROOT, Ran, Site, Suite

LINES = [line for room in ROOMS.values() for line in room]


def test_names_are_used_once():
    """A name on the command line means one line."""
    assert len({line.name for line in LINES}) == len(LINES)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_what_a_line_runs_exists(line):
    """Tests, notebooks and files that a command names are in the repository."""
    named = re.findall(r"(?:tests|notebooks|reports)/[\w./-]+(?:::\w+)?", line.command)
    for path, _, test in (name.partition("::") for name in named):
        assert (ROOT / path).exists(), path
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def test_one_bad_figure_makes_a_line_fall_short_and_is_marked():
    """A line holds if all its figures do."""
    assert checked(Check("1 s", good=True), Check("2 MB", good=True)) == Shown(Verdict.HOLDS, "1 s; 2 MB")
    assert checked(Check("1 s", good=True), Check("2 MB", good=False)) == Shown(Verdict.SHORT, "1 s; **2 MB**")


@pytest.mark.parametrize(
    ("tested", "verdict"),
    [
        (Suite(3, [], [], 1.0, []), Verdict.HOLDS),
        (Suite(3, [], ["no server"], 1.0, []), Verdict.HOLDS),
        (Suite(3, ["test_it"], [], 1.0, []), Verdict.SHORT),
        (Suite(0, [], ["no server"], 1.0, []), Verdict.NOT_SHOWN),
        (Suite(0, [], [], 1.0, []), Verdict.SHORT),
    ],
)
def test_skipped_tests_show_nothing(tested, verdict):
    """Passing tests show a line, a failure or no test at all breaks it, and skips alone are neither."""
    assert tested.shown().verdict == verdict


def test_tests_are_counted_with_what_they_recorded_and_why_they_skip(tmp_path):
    """Passed, failed and skipped tests are told apart, and a recorded figure is kept."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(record_property): record_property('figure', '7 ms')\n"
        "def test_bad(): assert False\n"
        "def test_away(): pytest.skip('no server')\n",
        encoding="utf-8",
    )
    tested = Site(tmp_path / "scratch", tmp_path).tests(str(tmp_path / "test_it.py"), "-p", "no:cacheprovider")
    assert (tested.passed, tested.failed, tested.figures) == (1, ["test_bad (assert False)"], ["7 ms"])
    assert "no server" in tested.reasons[0]


@pytest.mark.parametrize(
    ("code", "told", "shown"),
    [
        (0, "| passed | a | 1 |\n| passed | b | 2 |\n\nThe end.", Shown(Verdict.HOLDS, "of 2 checks 2 passed")),
        (
            0,
            "| passed | a | |\n| not judged | b | |",
            Shown(Verdict.SHORT, "**of 2 checks 1 passed, 1 not judged**"),
        ),
        (1, "| passed | a | 1 |\n| **FAILED** | b | 2 |", Shown(Verdict.SHORT, "**of 2 checks 1 passed, 1 failed**")),
        (1, "Traceback\nRuntimeError: it ended", Shown(Verdict.SHORT, "**RuntimeError: it ended**")),
    ],
)
def test_a_soak_holds_where_every_check_was_judged_and_passed(tmp_path, monkeypatch, code, told, shown):
    """Of memory that could not be judged nobody knows whether it is flat."""
    site = Site(tmp_path / "scratch", tmp_path)
    monkeypatch.setattr(site, "run", lambda *_: Ran(code, told, 1.0))
    soak = next(line for line in LINES if line.name == "soak")
    assert soak.show(site) == shown


def test_evaluations_at_once_do_not_share_a_folder(tmp_path, monkeypatch):
    """Two lines that are shown beside each other evaluate apart, and what was evaluated is not again."""
    site, folders, both = Site(tmp_path / "scratch", tmp_path), [], threading.Barrier(2)

    def evaluate(out, *_):
        both.wait(10)
        folders.append(out)
        return {}

    monkeypatch.setattr(site, "evaluate", evaluate)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda modes: site.evaluated("workdays", modes, "turns"), ("bm25", "hybrid", "bm25")))
    assert len(folders) == len(set(folders)) == 2


def test_what_was_seen_is_kept_and_what_was_not_is_said(tmp_path):
    """A line that is shown anew leaves the others; one never run says so."""
    lines = [Line(name, f"{name} is good", f"run {name}", lambda _: not_shown("a server")) for name in ("a", "b", "c")]
    Kept(tmp_path / "kept.json").take(lines[0], Shown(Verdict.HOLDS, "1 | 2"), 3.0)
    kept = Kept(tmp_path / "kept.json")
    kept.take(lines[1], Shown(Verdict.SHORT, "**9**"), 1.0)
    page = kept.page({"Room": lines})
    assert "| ✓ | a is good | 1 \\| 2 | `run a` | 3 |" in page
    assert "| ✗ | b is good | **9** | `run b` | 1 |" in page
    assert "| c is good | not run |" in page
    assert "1 holds, 1 falls short, 1 not run" in page


def test_the_committed_page_has_every_line():
    """reports/acceptance.md says something of each line there is."""
    page = (Path(ROOT) / "reports" / "acceptance.md").read_text(encoding="utf-8")
    assert [line.name for line in LINES if line.says not in page] == []
