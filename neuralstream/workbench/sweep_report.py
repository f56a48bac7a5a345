"""What a sweep found: every cell under every mode, best first, and which of them chance may have put there.

    OUT/sweep.json    the file's words, the cells, a row per cell and mode, what failed
    OUT/summary.md    the same for people

Both are made anew whenever a cell was run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import InputError
from neuralstream.workbench.metrics import HEADLINE
from neuralstream.workbench.report import candidate, markdown_table, p_text
from neuralstream.workbench.runs import pretty, read_run, versions, write_text
from neuralstream.workbench.scoring import SEED
from neuralstream.workbench.stats import MIN_CLUSTERS, compare, holm, verdict

if TYPE_CHECKING:
    from neuralstream.workbench.runs import Run
    from neuralstream.workbench.sweep import Sweep

__all__ = ["best_rows", "brief_rows", "mode_rows", "report"]

_NAME = "sweep.json"
_DIGITS = 6
_SHOWN = ("R@5", "nDCG@10", "evidence@500", "evidence@1000", "evidence@2000")
_CALLS = "calls"
_COSTS = ("gems_per_100_turns", _CALLS, "tokens")
_POLICY = ("mean lag in turns", "left undistilled")
"""What `policy_metrics` says of a cell whose conversations were lived under a simulated host."""


def report(done: Sweep) -> dict[str, Any]:
    """Write both files and return what `sweep.json` holds; where it holds these very cells, it is read and kept.

    Raises:
        InputError: the measure that the table is to be ordered by is none of the first lane's.
    """
    file = done.out / _NAME
    asked = done.file.model_dump(mode="json")
    known = _read(file)
    digests = [cell.digest for cell in done.cells]
    if known.get("file") == asked and [cell["digest"] for cell in known["cells"]] == digests and not done.ran:
        found = known
    else:
        runs = [read_run(done.out / digest) for digest in digests]
        found = {
            "file": asked,
            "seeds": {"bootstrap": SEED, **{part.name: part.seed for part in done.file.sweeps if part.sampler}},
            "versions": versions(),
            "cells": [
                {"digest": cell.digest, "sweep": cell.sweep, "varied": _plain(cell.varied), "memory": cell.filled}
                | {"policy": run.metrics.get("policy")}
                for cell, run in zip(done.cells, runs, strict=True)
            ],
            **(_compared(done, runs) if runs else {"measure": done.file.measure, "rows": [], "against_best": []}),
        }
    found |= {"failed": dict(done.failed), "passed_over": {name: str(at) for name, at in done.passed_over.items()}}
    write_text(file, pretty(found))
    write_text(done.out / "summary.md", _markdown(found))
    return found


def best_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """A header, then a row per cell, best first: what it varied, its key figures under the mode it would serve."""
    return _table(found, found["against_best"], compared=True)


def brief_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """Of `best_rows` what a terminal has room for: what varied, the measure, calls where they differ, the verdict."""
    columns, *rows = best_rows(found)
    kept = {"cell", *_varied(found), found["measure"], f"95 % of {found['measure']}", *_POLICY}
    kept |= {"to the best", "p (Holm)", "verdict"}
    if _CALLS in columns and len({row[columns.index(_CALLS)] for row in rows}) > 1:
        kept.add(_CALLS)
    places = [place for place, name in enumerate(columns) if name in kept]
    return [[line[place] for place in places] for line in (columns, *rows)]


def mode_rows(found: Mapping[str, Any]) -> list[list[Any]]:
    """A header, then a row per cell, lane and mode, best first by the lane's own measure."""
    return _table(found, found["rows"], compared=False)


def _compared(done: Sweep, runs: Sequence[Run]) -> dict[str, Any]:
    lane = done.file.lanes[0]
    measure = done.file.measure or HEADLINE[lane]
    rows = [row for cell, run in zip(done.cells, runs, strict=True) for row in _rows(cell.digest, run)]
    if any(row["lane"] == lane and measure not in row["overall"] for row in rows):
        known = ", ".join(next(row["overall"] for row in rows if row["lane"] == lane))
        raise InputError(f"measure: {measure} is no measure of lane {lane}; use one of {known}")
    order = {name: (measure if name == lane else HEADLINE[name]) for name in done.file.lanes}
    lanes = list(done.file.lanes)
    rows.sort(key=lambda row: (lanes.index(row["lane"]), -row["overall"].get(order[row["lane"]], 0.0), row["digest"]))
    served = {run.path.name: candidate(run, lane) for run in runs}
    best = [row for row in rows if row["lane"] == lane and row["mode"] == served[row["digest"]]]
    return {"measure": measure, "rows": rows, "against_best": _against_best(best, runs, lane, measure)}


def _rows(digest: str, run: Run) -> list[dict[str, Any]]:
    return [
        {"digest": digest, "lane": lane, "mode": mode, "overall": found["overall"], "ci": found["ci"]}
        for lane, modes in run.metrics["lanes"].items()
        for mode, found in modes.items()
    ]


def _against_best(best: Sequence[dict[str, Any]], runs: Sequence[Run], lane: str, measure: str) -> list[dict[str, Any]]:
    """Each row with its difference to the first one, where the measure has a value per question; p by Holm."""
    by_digest = {run.path.name: run for run in runs}
    scored = [by_digest[row["digest"]].of(lane, row["mode"]) for row in best]
    if not all(measure in result.scores for results in scored for result in results):
        return list(best)
    clusters = [result.conversation for result in scored[0]]
    values = [[result.scores[measure] for result in results] for results in scored]
    found = [compare(one, values[0], clusters) for one in values[1:]]
    corrected = holm([one.p for one in found])
    compared: list[dict[str, Any]] = [dict(best[0])]
    for row, one, p in zip(best[1:], found, corrected, strict=True):
        said = {
            "difference": round(one.difference, _DIGITS),
            "interval": [round(end, _DIGITS) for end in one.interval] if one.clusters > 1 else None,
            "p": round(p, _DIGITS),
            "p_questions": round(one.p_questions, _DIGITS),
            "clusters": one.clusters,
            "verdict": verdict(one, p, len(found)),
        }
        compared.append({**row, "against_best": said})
    return compared


def _table(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, compared: bool) -> list[list[Any]]:
    cells = {cell["digest"]: cell for cell in found["cells"]}
    varied = _varied(found)
    measure = found["measure"]
    shown = [name for name in dict.fromkeys((measure, *_SHOWN)) if any(name in row["overall"] for row in rows)]
    lived = any(cell["policy"] for cell in found["cells"])
    costs = [name for name in _COSTS if name != measure and any(name in row["overall"] for row in rows)]
    head = ["cell", "sweep", *varied, *([] if compared else ["lane"]), "mode", *shown, f"95 % of {measure}", *costs]
    head += _POLICY if lived else ()
    table: list[list[Any]] = [head + (["to the best", "p (Holm)", "p over questions", "verdict"] if compared else [])]
    for row in rows:
        cell = cells[row["digest"]]
        line = [
            *(cell["digest"][:8], cell["sweep"], *(_text(cell["varied"].get(name)) for name in varied)),
            *([] if compared else [row["lane"]]),
            *(row["mode"], *(row["overall"].get(name) for name in shown)),
            *(_ends(row["ci"].get(measure)), *(row["overall"].get(name) for name in costs)),
            *(_policy(cell["policy"]) if lived else ()),
        ]
        table.append(line + (_said(row.get("against_best")) if compared else []))
    return table


def _varied(found: Mapping[str, Any]) -> list[str]:
    """Settings that any sweep of the file varies, in its order."""
    return list(dict.fromkeys(name for cell in found["cells"] for name in cell["varied"]))


def _policy(policy: Mapping[str, Any] | None) -> list[Any]:
    return [policy["lag_turns"]["mean"], policy["left_undistilled"]] if policy else [None] * len(_POLICY)


def _said(one: Mapping[str, Any] | None) -> list[Any]:
    if one is None:
        return [None, None, None, None]
    few = one["clusters"] < MIN_CLUSTERS or one["verdict"] == "too few to tell"
    return [one["difference"], p_text(one["p"]), p_text(one["p_questions"]) if few else None, one["verdict"]]


def _markdown(found: Mapping[str, Any]) -> str:
    file = found["file"]
    about = (
        f"{len(found['cells'])} cells, lanes {', '.join(file['lanes'])}, by {found['measure']}; each cell under the "
        "mode it would serve, and its difference to the first. P over questions takes no account of conversations."
    )
    parts = [f"# Sweep of {file['dataset']}", about]
    if found["cells"]:
        parts += [markdown_table(best_rows(found)), "## Every mode", markdown_table(mode_rows(found))]
    if found["failed"]:
        lines = (f"- `{digest}`: {error}" for digest, error in found["failed"].items())
        parts += ["## Failed", "\n".join(lines)]
    if found["passed_over"]:
        lines = (f"- {name} waits for `{Path(at).name}`" for name, at in found["passed_over"].items())
        parts += ["## Not run", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(varied: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has it, whatever YAML read, such as a date."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(varied), default=str))
    return plain


def _text(value: Any) -> Any:
    return value if isinstance(value, str | int | None) else json.dumps(value)


def _ends(interval: Sequence[float] | None) -> str | None:
    return None if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
