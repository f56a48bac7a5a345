"""Where lines are shown: commands in a scratch folder, each evaluation and each selection of tests run once."""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from acceptance.line import Line, Shown, Verdict, not_shown

__all__ = ["ROOT", "Ran", "Site", "Suite", "by_tests", "came_to", "redis_server"]

ROOT = Path(__file__).parents[1]
T = TypeVar("T")


class Ran(NamedTuple):
    """A finished command: exit code, everything it printed, and wall seconds."""

    code: int
    text: str
    seconds: float

    @property
    def last(self) -> str:
        """The last line that it printed."""
        return next((line for line in reversed(self.text.splitlines()) if line.strip()), "nothing printed")


class Suite(NamedTuple):
    """What a selection of tests came to; `figures` are what the tests recorded, `reasons` why some were skipped."""

    passed: int
    failed: list[str]
    reasons: list[str]
    seconds: float
    figures: list[str]

    def shown(self) -> Shown:
        """Holds if all passed; nothing but skips is not shown, and nothing at all shows that the line is wrong."""
        if self.failed:
            return Shown(Verdict.SHORT, f"**{len(self.failed)} failed**: {', '.join(self.failed[:5])}")
        if not self.passed and not self.reasons:
            return Shown(Verdict.SHORT, "**no such test**")
        if not self.passed:
            return not_shown("; ".join(sorted(set(self.reasons))))
        skipped = f", {len(self.reasons)} skipped" if self.reasons else ""
        return Shown(Verdict.HOLDS, "; ".join([f"{self.passed} tests passed{skipped}", *self.figures]))


class Site:
    """The checkout, its interpreter, and a scratch folder.

    Args:
        scratch: Made if missing; everything that a line writes lies in it.
        data: The folder of public benchmark files, which need not be there.
    """

    def __init__(self, scratch: Path, data: Path) -> None:
        self.scratch, self.data = scratch, data
        self._done: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._numbers = itertools.count()
        scratch.mkdir(parents=True, exist_ok=True)

    def run(self, *command: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> Ran:
        """Run a command to its end, `neuralstream …` and `python …` by the interpreter that runs this."""
        if command[0] == "neuralstream":
            command = (sys.executable, "-m", *command)
        elif command[0] == "python":
            command = (sys.executable, *command[1:])
        began = time.monotonic()
        ran = subprocess.run(  # noqa: S603 - our own commands
            command,
            cwd=folder,
            env=self._environment(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout, time.monotonic() - began)

    def tests(self, *selection: str) -> Suite:
        """Run tests, the slow ones too."""
        return self.once("pytest " + " ".join(selection), lambda: self._tests(selection))

    def evaluated(self, dataset: str, modes: str, lanes: str) -> dict[str, Any]:
        """`metrics.json` of an evaluation of the served settings."""
        key = f"{dataset} {modes} {lanes}"
        return self.once(key, lambda: self.evaluate(self.scratch / f"run-{next(self._numbers)}", dataset, modes, lanes))

    def evaluate(self, out: Path, dataset: str, modes: str, lanes: str) -> dict[str, Any]:
        """Evaluate into a folder, and read its `metrics.json`."""
        command = ("eval", "--dataset", dataset, "--modes", modes, "--lane", lanes, "--out", str(out))
        ran = self.run("neuralstream", *command)
        if ran.code != 0:
            raise RuntimeError(f"`neuralstream {' '.join(command)}` ended with {ran.code}: {ran.last}")
        metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        return metrics

    def public(self, name: str) -> Path | None:
        """A public benchmark file, if it is here."""
        path = self.data / name
        return path if path.is_file() else None

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, made by the first that asks."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._done:
                self._done[key] = make()
            made: T = self._done[key]
            return made

    def _tests(self, selection: Sequence[str]) -> Suite:
        report = self.scratch / f"tests-{next(self._numbers)}.xml"
        ran = self.run(
            "python", "-m", "pytest", "-q", "-m", "", "-o", "junit_family=xunit1", f"--junitxml={report}", *selection
        )
        if not report.is_file():
            return Suite(0, [f"pytest ended with {ran.code}: {ran.last}"], [], ran.seconds, [])
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it
        failed = [
            f"{case.attrib['name']} ({found.attrib.get('message', '')[:200]})"
            for case in cases
            for found in (*case.findall("failure"), *case.findall("error"))
        ]
        skipped = [found.attrib.get("message", "") for case in cases if (found := case.find("skipped")) is not None]
        figures = [
            one.attrib["value"] for case in cases for one in case.iter("property") if one.attrib["name"] == "figure"
        ]
        if ran.code not in {0, 5} and not failed:
            failed.append(f"pytest ended with {ran.code}: {ran.last}")
        return Suite(len(cases) - len(failed) - len(skipped), failed, skipped, ran.seconds, figures)

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """As a user's shell, without settings that would change what is measured."""
        kept = {"NEURALSTREAM_CACHE_DIR"}
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("NEURALSTREAM_") or name.startswith("NEURALSTREAM_TEST_") or name in kept
        }
        ours = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "200"}
        ours["NEURALSTREAM_HOME"] = str(self.scratch / "home")
        if self.data.is_dir():
            ours["NEURALSTREAM_TEST_DATA"] = str(self.data)
        return clean | ours | dict(more)


def by_tests(name: str, says: str, *selection: str, alone: bool = False) -> Line:
    """A line that tests show."""
    command = f'pytest -m "" {" ".join(selection)}'
    return Line(name, says, command, lambda site: site.tests(*selection).shown(), alone)


def came_to(ran: Ran) -> str:
    """What pytest counted, and which tests failed."""
    counted = re.findall(r"^=*\s*(\d+ (?:passed|failed).*? in [\d.]+s)", ran.text, re.MULTILINE)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", ran.text, re.MULTILINE)
    return "; ".join([*counted[-1:], *failed[:5]]) or ran.last


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Debian's Redis on a free port, for as long as the block lasts; gives its address."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        "redis-server",
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--save",
        "",
        "--appendonly",
        "yes",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:  # noqa: S603 - our own words
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
