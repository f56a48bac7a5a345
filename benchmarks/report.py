"""What a run took, as a table with ratios, the machine and the versions."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.subjects import FUSION, HYBRID, PLAIN, Fill, Latency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Row", "report", "surroundings"]

_COLUMNS = ("turns", "who", "turns/s in", "opens in s", "p50 ms", "p99 ms", "memory MB", "disk MB")
_PACKAGES = ("qdrant-edge-py", "qdrant-client", "bm25s", "rank-bm25", "numpy")


@dataclass(frozen=True, slots=True)
class Row:
    """One subject at one size: turns indexed per second, milliseconds per question, peak memory and disk in MB."""

    turns: int
    subject: str
    rate: float
    opening: float
    p50: float
    p99: float
    memory: float
    disk: float | None

    @classmethod
    def of(cls, filled: Fill, latency: Latency, disk: float | None) -> Row:
        """What filling and asking took."""
        p50, p99 = np.percentile(np.array(latency.seconds) * 1000, [50, 99]).tolist()
        memory = max(filled.peak_mb, latency.peak_mb)
        rate = filled.turns / filled.seconds
        return cls(filled.turns, latency.subject, rate, latency.opening, p50, p99, memory, disk)

    def line(self) -> str:
        """The row of the table."""
        disk = "–" if self.disk is None else f"{self.disk:,.0f}"
        figures = (
            f"{self.rate:,.0f} | {self.opening:.1f} | {self.p50:.1f} | {self.p99:.1f} | {self.memory:,.0f} | {disk}"
        )
        return f"| {self.turns:,} | {self.subject} | {figures} |"


def report(rows: list[Row], questions: int) -> str:
    """The whole report, as Markdown."""
    p50 = {(row.subject, row.turns): row.p50 for row in rows}
    sizes = sorted({row.turns for row in rows})
    ratios = [_row(f"{n:,}", _times(p50, FUSION, n), _times(p50, PLAIN, n)) for n in sizes]
    growth = [
        f"| {subject} | {small:,} → {large:,} | {large / small:.0f} | {p50[subject, large] / p50[subject, small]:.2f} |"
        for subject in dict.fromkeys(row.subject for row in rows)
        for small, large in pairwise(sizes)
        if (subject, large) in p50
    ]
    return "\n".join(
        [
            "# Speed, memory and disk",
            "",
            "Made by `python -m benchmarks`.",
            "",
            f"One user's memory, made up by `benchmarks/corpus.py`; {questions} questions each, embedding left out.",
            "Hybrid and the engine's fusion (dense and BM25, 200 each, under the user's filter) ask the same points by",
            "turns. Memory is the peak of filling and of asking, each in its own process, mapped files and, up to",
            "100,000 turns, the second shard of whole vectors included.",
            "BM25 libraries rank by words alone and are built anew for every new turn.",
            "",
            surroundings(_PACKAGES),
            "",
            _row(*_COLUMNS),
            _row(*("---" for _ in _COLUMNS)),
            *(row.line() for row in rows),
            "",
            "Hybrid's p50 as a multiple of the engine's fusion: over the same compressed files, and over a shard of",
            "its own that holds the same turns with the engine's settings as they come, whole vectors:",
            "",
            _row("turns", "same files", "as it comes"),
            _row("---", "---", "---"),
            *ratios,
            "",
            "How p50 grows:",
            "",
            _row("who", "turns", "times as many", "times as long"),
            _row("---", "---", "---", "---"),
            *growth,
            "",
        ]
    )


def _times(p50: Mapping[tuple[str, int], float], subject: str, turns: int) -> str:
    """Hybrid's p50 as a multiple of a subject's."""
    return f"{p50[HYBRID, turns] / p50[subject, turns]:.2f}" if (subject, turns) in p50 else "–"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def surroundings(packages: Sequence[str]) -> str:
    """The day, cores, memory and load of this machine, and versions, in a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    name = models[0].partition(":")[2].strip() if models else platform.machine()
    load = " ".join(f"{average:.1f}" for average in os.getloadavg())
    versions = ", ".join(f"{one} {version(one)}" for one in packages)
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({name}), {memory:.0f} GiB, {platform.system()}, "
        f"load at the end {load}. Python {platform.python_version()}, {versions}."
    )
