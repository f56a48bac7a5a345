"""The whole: a fresh clone, the three journeys, any order, any crash, the wheel, the pages."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING

from acceptance.line import Check, Line, Shown, checked
from acceptance.site import ROOT, by_tests, came_to

if TYPE_CHECKING:
    from acceptance.site import Site

__all__ = ["LINES"]

_DEMO_SECONDS = 8 * 60
_TEST_SECONDS = 15 * 60
_SEEDS = (1, 2)
"""Beside the fresh clone's own, which is another each time."""


def _fresh_clone(site: Site) -> Shown:
    """Times what a stranger waits for: packages, the demo after them, then the tests."""
    folder = site.scratch / "clone"
    shutil.rmtree(folder, ignore_errors=True)
    site.run("git", "clone", "-q", str(ROOT), str(folder))
    # As a stranger's: nothing embedded before, and no other copy of the package on the path.
    strange = {"NEURALSTREAM_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": ""}
    packages, demo, more_packages, tests = (
        site.run("make", target, folder=folder, environment=strange)
        for target in (".venv/all.done", "demo", ".venv/dev.done", "test")
    )
    page = folder / "reports" / "runs" / "demo" / "report.html"
    shown = page.is_file() and page.name in demo.text and "hybrid" in demo.text
    checks = checked(
        Check(f"packages {packages.seconds:.0f} s", packages.code == 0),
        Check(
            f"demo {demo.seconds:.0f} s after them, exit {demo.code}", demo.code == 0 and demo.seconds < _DEMO_SECONDS
        ),
        Check("prints its table and names the report" if shown else "prints no table", shown),
        Check(f"more packages {more_packages.seconds:.0f} s", more_packages.code == 0),
        Check(
            f"tests {tests.seconds:.0f} s with lint and types: {came_to(tests)}",
            tests.code == 0 and tests.seconds < _TEST_SECONDS,
        ),
    )
    shutil.rmtree(folder, ignore_errors=True)
    return checks


def _any_order(site: Site) -> Shown:
    runs = {seed: site.run("python", "-m", "pytest", "-q", "-n", "2", f"--randomly-seed={seed}") for seed in _SEEDS}
    return checked(*(Check(f"seed {seed}: {came_to(ran)}", ran.code == 0) for seed, ran in runs.items()))


def _soak(site: Site) -> Shown:
    ran = site.run("python", "-m", "benchmarks.soak", "--minutes", "10", "--out", str(ROOT / "reports" / "soak.md"))
    seen = Counter(re.findall(r"^\| (passed|\*\*FAILED\*\*|not judged) \|", ran.text, re.MULTILINE))
    if not seen:
        return checked(Check(ran.last, good=False))
    told = ", ".join(f"{number} {verdict.strip('*').lower()}" for verdict, number in seen.items())
    return checked(Check(f"of {seen.total()} checks {told}", ran.code == 0 and seen.total() == seen["passed"]))


LINES = (
    Line(
        "fresh-clone",
        "In a fresh clone `make demo` takes under 8 minutes after pip, `make test` under 15",
        "git clone … && make demo && make test",
        _fresh_clone,
        alone=True,
    ),
    by_tests(
        "journeys", "A researcher, a CI engineer and an agent's engineer get where the README says", "tests/journeys"
    ),
    Line(
        "any-order",
        "The tests pass in random order on two processes: two seeds here, and the fresh clone's own",
        "make test TESTS='-n 2 --randomly-seed=1'",
        _any_order,
        alone=True,
    ),
    Line(
        "soak",
        "Ten minutes of a fake host with restarts and kills: nothing lost or doubled, memory flat",
        "python -m benchmarks.soak --minutes 10",
        _soak,
        alone=True,
    ),
    by_tests(
        "property",
        "Any sequence of captures, triggers, crashes and restarts keeps every turn, in order, once",
        "tests/test_whole.py",
    ),
    by_tests("wheel", "The wheel runs the demo's core in an empty venv and an empty folder", "tests/test_wheel.py"),
    by_tests("pages", "What the pages name exists, and their figures are those of the reports", "tests/test_docs.py"),
    by_tests(
        "public",
        "The public names and their signatures are pinned; the version is written once",
        "tests/test_public_api.py",
    ),
)
