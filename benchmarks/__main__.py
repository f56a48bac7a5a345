"""Fill and ask everything at every size, print what that took, and write it to a report.

python -m benchmarks                  # 1,000, 20,000 and 100,000 turns of one user
python -m benchmarks --long           # and 1,000,000
python -m benchmarks --turns 200 --questions 5 --out /tmp/report.md
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import subjects
from benchmarks.report import Row, report
from neuralstream.config import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_TURNS = (1_000, 20_000, 100_000)
_LONG = 1_000_000
_MOST = {subjects.in_memory: 1_000, subjects.with_rank_bm25: 100_000, subjects.with_bm25s: 100_000}
"""Turns beyond which a subject takes minutes for each step, or more memory than the rest together."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, nargs="+", default=list(_TURNS), help="sizes of the memory")
    parser.add_argument("--long", action="store_true", help=f"{_LONG:,} turns as well")
    parser.add_argument("--questions", type=int, default=100, help="questions each is asked")
    parser.add_argument("--folder", type=Path, help="where stores are made and removed; default: the system's own")
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks.md"), help="the report")
    chosen = parser.parse_args(arguments)
    sizes = [*chosen.turns, *([_LONG] if chosen.long else [])]
    rows = []
    for row in (row for count in sizes for row in _measure(count, chosen.questions, chosen.folder)):
        rows.append(row)
        sys.stdout.write(row.line() + "\n")
        sys.stdout.flush()
    text = report(rows, chosen.questions)
    chosen.out.write_text(text, encoding="utf-8")
    sys.stdout.write("\n" + text)


def _measure(count: int, number: int, folder: Path | None) -> Iterator[Row]:
    home = Path(tempfile.mkdtemp(prefix="neuralstream-benchmark-", dir=folder))
    try:
        settings = Settings(home=home)
        filled = _alone(subjects.fill_store, settings, count)
        disk = sum(path.stat().st_blocks * 512 for path in home.rglob("*")) / 1e6
        for latency in _alone(subjects.ask_store, settings, count, number):
            yield Row.of(filled, latency, disk)
    finally:
        shutil.rmtree(home)
    for subject, most in _MOST.items():
        if count <= most:
            filled, latency = _alone(subject, count, number)
            yield Row.of(filled, latency, None)


def _alone(call: Callable[..., Any], *arguments: object) -> Any:
    """The answer of a call in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(call, *arguments).result()


if __name__ == "__main__":
    main()
