"""Show every line, print each with its figure, and write `reports/acceptance.md`.

python -m acceptance                      # all of them, in an hour and a half; exit 1 if one falls short
python -m acceptance --only sweep gate    # these anew; the others keep what was last seen of them
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from acceptance import core, gems, retrieval, service, whole, workbench
from acceptance.line import Shown, Verdict
from acceptance.report import Kept
from acceptance.site import ROOT, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acceptance.line import Line

ROOMS = {
    "The whole": whole.LINES,
    "The core": core.LINES,
    "Retrieval": retrieval.LINES,
    "Gems": gems.LINES,
    "The workbench": workbench.LINES,
    "The service": service.LINES,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Show lines as the command line says."""
    lines = [line for room in ROOMS.values() for line in room]
    parser = argparse.ArgumentParser(prog="python -m acceptance", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[line.name for line in lines], metavar="NAME", help="these lines")
    parser.add_argument("--jobs", type=int, default=2, help="lines shown at once, but for those that measure time")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="public benchmark files")
    chosen = parser.parse_args(arguments)
    kept = Kept(ROOT / "reports" / "runs" / "acceptance.json")
    wanted = [line for line in lines if chosen.only is None or line.name in chosen.only]
    with tempfile.TemporaryDirectory(prefix="neuralstream-acceptance-") as scratch:
        site = Site(Path(scratch), chosen.data)
        for line in (line for line in wanted if line.alone):
            kept.take(line, *_shown(line, site))
        with ThreadPoolExecutor(chosen.jobs) as pool:
            others = {pool.submit(_shown, line, site): line for line in wanted if not line.alone}
            for done in as_completed(others):
                kept.take(others[done], *done.result())
    (ROOT / "reports" / "acceptance.md").write_text(kept.page(ROOMS), encoding="utf-8")
    return int(any(seen is None or seen.verdict == Verdict.SHORT for seen in map(kept.seen, wanted)))


def _shown(line: Line, site: Site) -> tuple[Shown, float]:
    """Show a line, in seconds. A boundary: what goes wrong in showing one is its figure, and stops no other."""
    began = time.monotonic()
    try:
        shown = line.show(site)
    except Exception as fault:  # noqa: BLE001 - see above
        shown = Shown(Verdict.SHORT, f"**could not be shown: {type(fault).__name__}: {fault}**")
    return shown, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
