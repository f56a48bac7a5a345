"""The workbench: sweep, compare, promote, gate, and notebooks that say what the commands say."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from acceptance.line import Check, Line, Shown, checked
from acceptance.site import ROOT, by_tests

if TYPE_CHECKING:
    from acceptance.site import Site

__all__ = ["LINES"]

_SWEEP_SECONDS = 600
_AGAIN_SECONDS = 5


def _sweep(site: Site) -> Shown:
    out = site.scratch / "sweep"
    shutil.rmtree(out, ignore_errors=True)
    command = ("neuralstream", "sweep", "notebooks/sweep.yaml", "--out", str(out))
    first, again = site.run(*command), site.run(*command)
    if first.code != 0:
        return checked(Check(first.last, good=False))
    cells = sorted(path.parent for path in out.glob("*/metrics.json"))
    for cell in cells[:2]:
        shutil.rmtree(cell)
    third = site.run(*command)
    return checked(
        Check(f"{len(cells)} cells in {first.seconds:.0f} s", len(cells) == 15 and first.seconds < _SWEEP_SECONDS),
        Check(
            f"again {_ran(again.text)} run, in {again.seconds:.1f} s",
            _ran(again.text) == 0 and again.seconds < _AGAIN_SECONDS,
        ),
        Check(f"with two taken away {_ran(third.text)} run", _ran(third.text) == 2),
    )


def _ran(text: str) -> int:
    """How many cells a sweep says it ran."""
    return int(text.rpartition(" run just now")[0].rpartition(" ")[2].replace("none", "0") or -1)


def _identical(site: Site) -> Shown:
    folders = [site.scratch / f"same-{number}" for number in (1, 2)]
    for folder in folders:
        site.evaluate(folder, "workdays@nils,wren,mina,dario,jonah,priya,arlo,greta", "bm25", "turns")
    ran = site.run("neuralstream", "compare", *map(str, folders))
    return checked(
        Check("no difference seen" if "no difference seen" in ran.text else ran.last, "no difference seen" in ran.text)
    )


def _misspelt(site: Site) -> Shown:
    notebook = "notebooks/03_sweep_capture.ipynb"
    ours = site.run("neuralstream", "notebook", "run", notebook, "-p", "thresold", "40")
    plain = site.run(
        "python", "-m", "papermill", notebook, str(site.scratch / "03.ipynb"), "-p", "thresold", "40", folder=ROOT
    )
    return checked(
        Check(
            f"ours: exit {ours.code} in {ours.seconds:.1f} s, {ours.last}", ours.code == 2 and "thresold" in ours.text
        ),
        Check(
            f"papermill: exit {plain.code}, names it: {'thresold' in plain.text}",
            plain.code != 0 and "thresold" in plain.text,
        ),
    )


def _gate(site: Site) -> Shown:
    good, bad = site.scratch / "gate-good", site.scratch / "gate-bad"
    site.once("gate-good", lambda: site.evaluate(good, "workdays@dev", "hybrid", "turns"))
    worse = site.run(
        "neuralstream",
        "eval",
        "--dataset",
        "workdays@dev",
        "--modes",
        "hybrid",
        "--out",
        str(bad),
        "--set",
        'retrieval.exchange.weights={"bm25": 1}',
    )
    passed, refused = (
        site.run("neuralstream", "gate", str(run), "--baseline", "reports/baseline.json") for run in (good, bad)
    )
    return checked(
        Check(f"as shipped: exit {passed.code}", passed.code == 0),
        Check(f"with BM25 alone: eval {worse.code}, gate exit {refused.code}", (worse.code, refused.code) == (0, 4)),
        Check("names the questions" if "-q" in refused.text else "names no question", "-q" in refused.text),
    )


LINES = (
    Line(
        "sweep",
        "3 batch sizes by 5 thresholds by 5 modes in under 10 minutes; again only what is missing, in under 5 s",
        "neuralstream sweep notebooks/sweep.yaml --out OUT",
        _sweep,
        alone=True,
    ),
    by_tests(
        "sweep-kills",
        "A sweep that was killed, failed in a cell or given more cells does the rest; Dask gives the same bytes",
        "tests/workbench/test_sweep.py",
    ),
    Line("identical", "Two runs of one configuration: no difference seen", "neuralstream compare RUN RUN", _identical),
    by_tests(
        "notebooks",
        "Each notebook runs on shipped data, and on a public file by parameter alone; its numbers are the command's",
        "tests/workbench/test_notebooks.py",
    ),
    Line(
        "misspelt",
        "A misspelt notebook parameter fails by its name: before a kernel starts, and in a cell under plain papermill",
        "neuralstream notebook run notebooks/03_sweep_capture.ipynb -p thresold 40",
        _misspelt,
    ),
    by_tests(
        "promote",
        "A promoted configuration serves, question by question, the ranking that its run recorded",
        "tests/workbench/test_promote.py",
    ),
    Line(
        "gate",
        "A planted regression exits with 4 and names the questions; what ships passes",
        "neuralstream gate RUN --baseline reports/baseline.json",
        _gate,
    ),
    by_tests(
        "gate-rules",
        "One question is noise, a broken person is not, and each rule is named",
        "tests/workbench/test_gate.py",
    ),
    by_tests(
        "own-logs",
        "A folder of one's own JSONL becomes a labelled set",
        "tests/workbench/test_own_logs.py",
        "tests/workbench/test_labelling.py",
        "tests/cli/test_label.py",
    ),
)
