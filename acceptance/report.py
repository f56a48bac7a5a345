"""What was last seen of each line, kept between runs, and the page of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from acceptance.line import Line, Shown, Verdict
from acceptance.site import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Kept", "Seen"]

_HEAD = "| | line | seen | command | s |\n| --- | --- | --- | --- | --- |\n"
_MARKS = {Verdict.HOLDS: "✓", Verdict.SHORT: "✗", Verdict.NOT_SHOWN: "–"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run showed of a line: verdict, figure, wall seconds, and the commit that it ran on."""

    verdict: str
    figure: str
    seconds: float
    commit: str


class Kept:
    """What was seen, in a file.

    Args:
        path: JSON; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.commit = _commit()
        self._seen: dict[str, Seen] = {}
        if path.is_file():
            self._seen = {name: Seen(**seen) for name, seen in json.loads(path.read_text(encoding="utf-8")).items()}

    def seen(self, line: Line) -> Seen | None:
        """What was last seen of a line."""
        return self._seen.get(line.name)

    def take(self, line: Line, shown: Shown, seconds: float) -> None:
        """Print a line, and keep what was seen at once, so that a run that is stopped loses none."""
        seen = Seen(shown.verdict, shown.figure, round(seconds, 1), self.commit)
        sys.stdout.write(
            f"{_MARKS[Verdict(seen.verdict)]} {line.name}: {line.says}\n    {seen.figure} [{seen.seconds:.0f} s]\n"
        )
        sys.stdout.flush()
        self._seen[line.name] = seen
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(
            json.dumps({name: asdict(one) for name, one in self._seen.items()}, indent=1), encoding="utf-8"
        )

    def page(self, rooms: Mapping[str, Sequence[Line]]) -> str:
        """All of it, as Markdown."""
        return "".join(self._parts(rooms))

    def _parts(self, rooms: Mapping[str, Sequence[Line]]) -> Iterator[str]:
        counts = Counter(
            seen.verdict if (seen := self.seen(line)) else "not run" for room in rooms.values() for line in room
        )
        yield "# Acceptance\n\nMade by `make acceptance`, which runs each line and prints it with its figure: "
        yield ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()) + ".\n\n"
        yield f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        yield f"commit {self.commit}. "
        yield "Figures in bold are what falls short. Lines that measure time ran alone, the others two at once.\n"
        for room, lines in rooms.items():
            yield f"\n## {room}\n\n{_HEAD}"
            for line in lines:
                seen = self.seen(line)
                if seen is None:
                    yield f"|   | {line.says} | not run | `{line.command}` | |\n"
                    continue
                where = "" if seen.commit == self.commit else f" (at {seen.commit})"
                cells = (line.says, f"{seen.figure}{where}", f"`{line.command}`", f"{seen.seconds:.0f}")
                yield f"| {_MARKS[Verdict(seen.verdict)]} | {' | '.join(map(_cell, cells))} |\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    return ran.stdout.strip() or "unknown"
