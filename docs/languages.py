"""Write a run of the set tongues as a page with a row per language.

neuralstream eval --dataset tongues --modes whitespace-bm25,bm25,semantic,hybrid --lane turns --out RUN
python docs/languages.py RUN > reports/languages.md
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
from statistics import fmean
from typing import Any

from neuralstream.workbench.datasets import description, load
from neuralstream.workbench.report import markdown_table
from neuralstream.workbench.runs import Run, read_run

LANE = "turns"

PAGE = """\
# Languages

{queries} questions about {turns} exchanges; each row is one person in one language, and what is hard there is told in
[the datasheet](../datasets/tongues/DATASHEET.md). One person a language is too few for an interval, and the analyser
was chosen on these questions. Data SHA-256 `{sha256}`, settings `{settings}`, core `{core}`, embedder {embedder}.

Made by `neuralstream eval --dataset {name} --modes {modes} --lane {lane} --out RUN` and
`python docs/languages.py RUN > reports/languages.md`. `whitespace-bm25` is rank_bm25's Okapi over the raw text split at
spaces.

## R@5

{recall}

## nDCG@10

{gain}

## R@5 by what is hard

{categories}
"""


def page(run: Run) -> str:
    """The whole page."""
    dataset = load(run.manifest["dataset"]["name"])
    people = description(dataset.spec)["people"]
    return PAGE.format(
        queries=len(dataset.questions()),
        turns=sum(len(conversation.turns) for conversation in dataset.conversations),
        sha256=run.metrics["dataset"]["sha256"],
        settings=run.manifest["config_digest"],
        core=run.manifest["core_digest"],
        embedder=run.manifest["embedder"]["name"],
        name=dataset.name,
        modes=",".join(run.manifest["arguments"]["modes"]),
        lane=LANE,
        recall=_table(run, "conversation", "R@5", people),
        gain=_table(run, "conversation", "nDCG@10", people),
        categories=_table(run, "category", "R@5", {}),
    )


def _table(run: Run, part: str, measure: str, titles: dict[str, str]) -> str:
    """A row per value of `part`, and one for all of them; a column per mode."""
    modes = run.manifest["arguments"]["modes"]
    of_mode = {mode: run.of(LANE, mode) for mode in modes}
    parts = [getattr(result, part) for result in of_mode[modes[0]]]
    rows: list[list[Any]] = [[part, "questions", *modes]]
    for value in sorted(set(parts)):
        means = [fmean(r.scores[measure] for r in of_mode[mode] if getattr(r, part) == value) for mode in modes]
        rows.append([titles.get(value, value), parts.count(value), *means])
    rows.append(["all", len(parts), *(fmean(r.scores[measure] for r in of_mode[mode]) for mode in modes)])
    return markdown_table(rows)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the folder of a run: python docs/languages.py RUN > reports/languages.md")
    sys.stdout.write(page(read_run(sys.argv[1])))
