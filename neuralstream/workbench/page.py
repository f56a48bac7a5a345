"""A run as one HTML file that needs no kernel, no server and no network: tables, pictures, failing queries."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.workbench import figures
from neuralstream.workbench.report import (
    budget_rows,
    candidate,
    comparison_rows,
    extractor_text,
    failing,
    gem_rows,
    verdict_rows,
)
from neuralstream.workbench.runs import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neuralstream.workbench.datasets import Dataset
    from neuralstream.workbench.runs import QueryResult, Run

__all__ = ["failing_html", "table_html", "write_page"]

FAILING_SHOWN = 100
"""Failing queries per lane on the page; `per_query.jsonl` holds every query."""

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.number { text-align: right; }
tr.gold td { background: #e5f2ea; }
img { max-width: 100%; }
details { border-top: 1px solid #ddd; padding: .4rem 0; overflow-x: auto; }
summary { cursor: pointer; }
code, .quiet { color: #555; font-size: 12px; overflow-wrap: anywhere; }
"""


def write_page(run: Run, dataset: Dataset, path: Path | str) -> Path:
    """Write the page.

    Args:
        run: what is shown.
        dataset: the set it was made on, for the text of the evidence.
        path: the HTML file.
    """
    data, unit = run.metrics["dataset"], escape(run.manifest["dataset"]["cluster"])
    about = (
        f"<p>{data['queries_scored']} of {data['queries_total']} queries are scored, over {data['conversations']} "
        f"{unit}s; {data['queries_unscored']} have no evidence. P@5 stands beside the most it can be; intervals are "
        f"95&nbsp;% over {unit}s.</p>"
    )
    body = [
        f"<h1>{escape(data['name'])}: which retriever finds the evidence?</h1>",
        about,
        table_html(comparison_rows(run)),
        *_titled("What distilling made and cost", gem_rows(run)),
        *_titled("Evidence that fits into a budget, beside raw turns", budget_rows(run)),
        "<h2>Is the difference real?</h2>",
        table_html(verdict_rows(run)),
    ]
    for lane in run.lanes:
        mode = candidate(run, lane)
        failed = failing(run, lane, mode)
        shown = f", the first {FAILING_SHOWN} shown" if len(failed) > FAILING_SHOWN else ""
        body += [
            f"<h2>{escape(lane.capitalize())}, overall and by category</h2>",
            _picture(figures.overall(run, lane)),
            _picture(figures.by_category(run, lane)),
            f"<h2>{escape(lane.capitalize())}: queries that {escape(mode)} failed</h2>",
            f"<p>{len(failed)} of {len(run.of(lane, mode))} have no evidence among the first five hits{shown}.</p>",
            failing_html(failed[:FAILING_SHOWN], dataset),
        ]
    body += ["<h2>How it was made</h2>", table_html([["what", "value"], *_provenance(run)])]
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(data['name'])}: retrieval</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )
    return write_text(Path(path), page)


def table_html(rows: Sequence[Sequence[Any]]) -> str:
    """Rows under a header as an HTML table; nothing where there is only the header."""
    if len(rows) < 2:
        return ""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    return f"<table><tr>{head}</tr>{''.join(_row(row) for row in rows[1:])}</table>"


def _titled(title: str, rows: Sequence[Sequence[Any]]) -> list[str]:
    table = table_html(rows)
    return [f"<h2>{escape(title)}</h2>", table] if table else []


def failing_html(failed: Iterable[QueryResult], dataset: Dataset) -> str:
    """Each failing query: what was asked, what should have been, what came instead with every signal's score."""
    texts = {(c.name, turn.turn_id): turn.transcript for c in dataset.conversations for turn in c.turns}
    return "\n".join(_failure(result, texts) for result in failed)


def _failure(result: QueryResult, texts: dict[tuple[str, str], str]) -> str:
    signals = sorted({name for hit in result.ranking for name in hit.signals})
    wanted = "".join(
        f"<li><code>{escape(turn_id)}</code> {escape(texts.get((result.conversation, turn_id), ''))}</li>"
        for turn_id in result.gold
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", "hit", "text", "score", *signals))
    rows = "".join(
        _row(
            [rank, hit.id if hit.kind == "turn" else ", ".join(hit.turn_ids), hit.text, hit.score]
            + [hit.signals.get(name) for name in signals],
            gold=not set(hit.turn_ids).isdisjoint(result.gold),
        )
        for rank, hit in enumerate(result.ranking, 1)
    )
    return (
        f"<details><summary>{escape(result.text)} <span class=quiet>{escape(result.category)}, "
        f"{escape(result.conversation)}, {escape(result.query_id)}</span></summary>"
        f"<p>What should have been:</p><ul>{wanted}</ul><p>What came:</p>"
        f"<table><tr>{head}</tr>{rows}</table></details>"
    )


def _row(values: Sequence[Any], *, gold: bool = False) -> str:
    cells = "".join(
        f"<td class=number>{value:.3f}</td>" if isinstance(value, float) else f"<td>{escape(_text(value))}</td>"
        for value in values
    )
    return f"<tr class=gold>{cells}</tr>" if gold else f"<tr>{cells}</tr>"


def _text(value: Any) -> str:
    return "–" if value is None else str(value)


def _picture(figure: Any) -> str:
    drawn = base64.b64encode(figures.svg(figure).encode()).decode()
    return f'<img alt="" src="data:image/svg+xml;base64,{drawn}">'


def _provenance(run: Run) -> list[list[Any]]:
    manifest = run.manifest
    return [
        ["run", manifest["run"]],
        ["data SHA-256", manifest["dataset"]["sha256"]],
        ["settings digest", manifest["config_digest"]],
        ["core digest", manifest["core_digest"]],
        ["embedder", manifest["embedder"]["name"]],
        ["extractor", extractor_text(run)],
        ["arguments", ", ".join(f"{name} {value}" for name, value in manifest["arguments"].items())],
        ["bootstrap", f"{manifest['resamples']} resamples, seed {manifest['seeds']['bootstrap']}"],
        ["versions", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())],
        ["time", f"{run.timings['fill_seconds']} s to fill, {run.timings['total_seconds']} s in all"],
    ]
