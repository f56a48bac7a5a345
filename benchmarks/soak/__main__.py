"""Soak the service for some minutes, and write what was found to a report; exit code 1 where a check failed.

python -m benchmarks.soak --minutes 10 --out reports/soak.md
python -m benchmarks.soak --minutes 0.5 --out /tmp/soak.md     # everything but the memory's slope is judged
python -m benchmarks.soak --embedding sentence-transformers:all-MiniLM-L6-v2 --out /tmp/soak-minilm.md
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.soak.report import report
from benchmarks.soak.run import USERS, Soak
from benchmarks.soak.service import Model, Service

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="that the service listens, its lives together")
    parser.add_argument("--seed", type=int, default=7, help="of the schedule and of what the host does")
    parser.add_argument("--embedding", help="setting `embedding`; default: a scripted one on the scripted Ollama")
    parser.add_argument("--folder", type=Path, help="where the memory is made and removed; default: the system's own")
    parser.add_argument("--out", type=Path, default=Path("reports/soak.md"), help="the report")
    chosen = parser.parse_args(arguments)
    if not Path("/proc/self/status").exists():
        sys.stderr.write("the soak reads memory from /proc, which only Linux has\n")
        return 2
    work = Path(tempfile.mkdtemp(prefix="neuralstream-soak-", dir=chosen.folder))
    with Model() as model:
        service = Service(work, model.url, USERS, chosen.embedding)
        soak = Soak(service, model, chosen.minutes * 60, chosen.seed)
        with service.cleaned_up():
            soak.run()
    text = report(soak.lives, soak.checks, minutes=chosen.minutes, seed=chosen.seed, embedding=chosen.embedding)
    chosen.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if any(check.passed is False for check in soak.checks):
        sys.stderr.write(f"a check failed; the memory and the log of the service are in {work}\n")
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
