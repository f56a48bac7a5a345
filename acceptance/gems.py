"""Gems by language models, and prompts that can be compared."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from acceptance.line import Check, Line, Shown, checked, not_shown
from acceptance.site import by_tests

if TYPE_CHECKING:
    from acceptance.site import Site

__all__ = ["LINES"]

_MEASURE = "evidence@1000"


def _prompts(site: Site) -> Shown:
    out = site.scratch / "prompts"
    ran = site.run("neuralstream", "sweep", "notebooks/prompts.yaml", "--out", str(out))
    if ran.code != 0:
        return checked(Check(ran.last, good=False))
    told = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    names = {cell["digest"]: cell["varied"].get("extract.prompt", "rules") for cell in told["cells"]}
    lanes: dict[str, list[str]] = {"gems": [], "turns": []}
    for row in told["rows"]:
        value, (low, high) = row["overall"][_MEASURE], row["ci"][_MEASURE]
        lanes[row["lane"]].append(f"{names[row['digest']]} {value:.3f} ({low:.3f} to {high:.3f})")
    verdicts = {row["against_best"]["verdict"] for row in told["against_best"] if row.get("against_best")}
    return checked(
        Check(f"{_MEASURE}: {', '.join(lanes['gems'])}", len(lanes["gems"]) >= 3),
        Check(f"raw turns {lanes['turns'][0].partition(' ')[2]}", bool(lanes["turns"])),
        Check(f"to the best: {', '.join(sorted(verdicts))}", bool(verdicts)),
    )


def _live(site: Site) -> Shown:
    if not os.environ.get("NEURALSTREAM_TEST_OLLAMA_URL"):
        return not_shown("needs NEURALSTREAM_TEST_OLLAMA_URL")
    return site.tests("tests/llm/test_live.py").shown()


LINES = (
    by_tests(
        "malformed",
        "Every malformed answer ends as gems, a repair or a dead letter; no turn is lost; 200 mutations raise nothing",
        "tests/extract",
        "tests/llm",
    ),
    by_tests(
        "overflow",
        "A prompt that does not fit is refused before the call, one that the server cut is noticed after it",
        "tests/llm/test_base.py",
        "tests/llm/test_ollama.py",
    ),
    by_tests(
        "replayed",
        "Recorded answers replay with the network off, twice to the same bytes",
        "tests/workbench/test_evaluate_recorded.py",
    ),
    Line(
        "prompts",
        "Two prompts and the rules compared, with intervals and the corrected verdict, beside raw turns",
        "neuralstream sweep notebooks/prompts.yaml --out OUT",
        _prompts,
    ),
    by_tests(
        "kill-extraction",
        "Ten SIGKILLs while distilling, with a model that never answers the same: one set of gems",
        "tests/test_crash.py::test_ten_kills_of_a_distilling_process_leave_one_set_of_gems",
    ),
    by_tests(
        "newest",
        "What replaced an older statement is served, never what it replaced",
        "tests/workbench/test_newest_first.py",
    ),
    Line(
        "live",
        "The same against a real Ollama server",
        "NEURALSTREAM_TEST_OLLAMA_URL=… pytest tests/llm/test_live.py",
        _live,
    ),
)
