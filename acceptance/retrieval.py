"""Retrieval: one shipped configuration on every kind of log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from acceptance.line import Check, Line, Shown, checked, not_shown
from acceptance.site import ROOT, by_tests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acceptance.site import Site

__all__ = ["LINES"]

_PEOPLE = {"P@5": 0.178, "R@5": 0.73, "R@10": 0.80, "nDCG@10": 0.64}
_ASSISTANT = {"R@5": 0.74, "nDCG@10": 0.70}
_EVIDENCE = ("evidence@500", "evidence@1000", "evidence@2000")
_ENGINE = 3.0
_GROWTH = 2.0
_MEMORY = 12 * 1024


def _people(site: Site) -> Shown:
    path = site.public("locomo/locomo_dev5.json")
    if path is None:
        return not_shown("needs locomo/locomo_dev5.json")
    return _floors(site.evaluated(f"locomo:{path}", "bm25,hybrid", "turns"), _PEOPLE)


def _assistant(site: Site) -> Shown:
    path = site.public("longmemeval/longmemeval_s_dev.json.gz")
    if path is None:
        return not_shown("needs longmemeval/longmemeval_s_dev.json.gz")
    return _floors(site.evaluated(f"longmemeval:{path}", "bm25,hybrid", "turns"), _ASSISTANT)


def _unseen(_: Site) -> Shown:
    return not_shown(
        "needs conversations that nothing here was fitted to; reports/tuning.md has those left out of fitting"
    )


def _test_people(site: Site) -> Shown:
    out = site.scratch / "workdays-test"
    metrics = site.once(
        "workdays@test", lambda: site.evaluate(out, "workdays@test", "substring,bm25,semantic,graph,hybrid", "turns")
    )
    summary = (out / "summary.md").read_text(encoding="utf-8")
    hybrid = metrics["lanes"]["turns"]["hybrid"]["overall"]
    checks = [Check(f"hybrid R@5 {hybrid['R@5']:.3f}, nDCG@10 {hybrid['nDCG@10']:.3f}", good=True)]
    for mode in ("bm25", "semantic", "graph"):
        cells = next(_cells(line) for line in summary.splitlines() if f"| hybrid - {mode} |" in line)
        difference, interval, p, verdict = cells[3], cells[4], cells[5], cells[-1]
        checks.append(Check(f"{verdict} than {mode} by {difference} ({interval}), p {p}", verdict == "better"))
    return checked(*checks)


def _all_lane(site: Site) -> Shown:
    path = site.public("locomo/locomo_dev5.json")
    if path is None:
        return not_shown("needs locomo/locomo_dev5.json")
    metrics = site.evaluated(f"locomo:{path}", "hybrid", "all")
    mixed, raw = (metrics["lanes"][lane]["hybrid"]["overall"] for lane in ("all", "turns"))
    return checked(
        *(Check(f"{key} {mixed[key]:.3f} beside {raw[key]:.3f}", mixed[key] >= raw[key]) for key in _EVIDENCE)
    )


def _fast(_: Site) -> Shown:
    report = (ROOT / "reports" / "benchmarks.md").read_text(encoding="utf-8")
    same, whole = (float(cell) for cell in _row(report, r"\| 100,000 \| [\d.]+ \| [\d.]+ \|")[1:])
    growth = float(_row(report, r"\| NeuralStream hybrid \| 20,000 → 100,000 \|.*")[-1])
    return checked(
        Check(f"{whole:.2f} times the engine's fusion over its storage as it comes", whole <= _ENGINE),
        Check(f"{same:.2f} times over our own compressed files, which make both faster", same <= _ENGINE),
        Check(f"{growth:.2f} times as long at 100,000 turns as at 20,000", growth < _GROWTH),
    )


def _million(_: Site) -> Shown:
    report = (ROOT / "reports" / "benchmarks-million.md").read_text(encoding="utf-8")
    row = _row(report, r"\| 1,000,000 \| NeuralStream hybrid \|.*")
    memory = float(row[6].replace(",", ""))
    return checked(
        Check(f"{row[2]} turns/s in, p50 {row[4]} ms", good=True),
        Check(f"{memory / 1024:.1f} GiB peak, mapped files included", memory < _MEMORY),
    )


def _floors(metrics: Mapping[str, Any], floors: Mapping[str, float]) -> Shown:
    hybrid, bm25 = (metrics["lanes"]["turns"][mode]["overall"] for mode in ("hybrid", "bm25"))
    return checked(
        *(Check(f"{key} {hybrid[key]:.3f} (at least {floor})", hybrid[key] >= floor) for key, floor in floors.items()),
        Check(f"BM25 has nDCG@10 {bm25['nDCG@10']:.3f}", hybrid["nDCG@10"] > bm25["nDCG@10"]),
    )


def _row(report: str, pattern: str) -> list[str]:
    found = re.search(f"^{pattern}$", report, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the report has no row {pattern}")
    return _cells(found[0])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


LINES = (
    Line(
        "people",
        "People talking, LoCoMo's development half: above the best published embedder, of 8 billion parameters",
        "neuralstream eval --dataset locomo:locomo_dev5.json --modes bm25,hybrid --out OUT",
        _people,
    ),
    Line(
        "assistant",
        "A user with an assistant: LongMemEval-S, turn level, development questions",
        "neuralstream eval --dataset longmemeval:longmemeval_s_dev.json.gz --modes bm25,hybrid --out OUT",
        _assistant,
    ),
    Line(
        "unseen",
        "The same on public data that nothing was fitted to",
        "neuralstream eval --dataset SPEC --out OUT",
        _unseen,
    ),
    Line(
        "test-people",
        "On our own test people hybrid is better than BM25, embeddings and graph each, by the corrected test",
        "neuralstream eval --dataset workdays@test --lane turns --out OUT",
        _test_people,
    ),
    Line(
        "mixed",
        "Gems and uncovered turns together give at least raw turns' evidence at 500, 1,000 and 2,000 tokens",
        "neuralstream eval --dataset locomo:locomo_dev5.json --modes hybrid --lane all --out OUT",
        _all_lane,
    ),
    Line(
        "fast",
        "100,000 turns of one user: at most 3 times the engine's own fusion, less than 2 times 20,000 turns'",
        "make bench (here as reports/benchmarks.md has it)",
        _fast,
    ),
    Line(
        "million",
        "A million turns fit this machine, in under 12 GiB",
        "python -m benchmarks --long (here as reports/benchmarks-million.md has it)",
        _million,
    ),
    by_tests(
        "last-paragraph",
        "A fact in the last paragraph of a 3,000-word reply is found by meaning",
        "tests/test_agreement.py::test_a_fact_at_the_end_of_a_long_reply_is_the_first_semantic_hit",
        "tests/embed/test_contract.py",
    ),
    by_tests(
        "agreement", "One log in one go, turn by turn or with restarts ranks alike to 1e-5", "tests/test_agreement.py"
    ),
    by_tests(
        "tune",
        "Tuning twice with one seed gives one file; a tuned file is refused with another embedder",
        "tests/workbench/test_tune.py",
        "tests/test_settings.py",
        "tests/test_provenance.py",
    ),
)
