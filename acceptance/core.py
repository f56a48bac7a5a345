"""The core: set-up, what is captured is kept, found, forgotten and moved."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acceptance.line import Check, Line, Shown, checked, not_shown
from acceptance.site import ROOT, by_tests, came_to, redis_server

if TYPE_CHECKING:
    from acceptance.site import Site

__all__ = ["LINES"]

_LOCOMO = "locomo/locomo_dev5.json"
_MODES = "substring,bm25,semantic,graph,hybrid"
_FLOORS = {
    ("bm25", "R@5"): 0.58,
    ("bm25", "nDCG@10"): 0.51,
    ("semantic", "R@5"): 0.34,
    ("hybrid", "R@5"): 0.66,
    ("hybrid", "nDCG@10"): 0.58,
}
_LARGEST = 500


def _importing(site: Site) -> Shown:
    code = (
        "import sys, time; began = time.perf_counter(); import neuralstream; print(time.perf_counter() - began);"
        " print(sorted({'torch', 'pandas', 'numba', 'grpc', 'jupyter'} & set(sys.modules)))"
    )
    runs = [site.run("python", "-c", code).text.splitlines() for _ in range(3)]
    seconds = min(float(run[0]) for run in runs)
    return checked(
        Check(f"{seconds:.2f} s, best of three", seconds < 0.5),
        Check(f"heavy modules loaded: {runs[0][1]}", runs[0][1] == "[]"),
    )


def _on_locomo(site: Site) -> Shown:
    path = site.public(_LOCOMO)
    if path is None:
        return not_shown(f"needs {_LOCOMO}")
    cache = site.scratch / "cold-cache"
    shutil.rmtree(cache, ignore_errors=True)
    bytes_of, seconds = [], []
    for name in ("cold", "cached"):
        out = site.scratch / name
        command = ("eval", "--dataset", f"locomo:{path}", "--modes", _MODES, "--lane", "turns", "--out", str(out))
        ran = site.run("neuralstream", *command, environment={"NEURALSTREAM_CACHE_DIR": str(cache)})
        if ran.code != 0:
            raise RuntimeError(ran.text)
        seconds.append(ran.seconds)
        bytes_of.append((out / "metrics.json").read_bytes())
    metrics = json.loads(bytes_of[0])
    figures = {key: _overall(metrics, "turns", key[0])[key[1]] for key in _FLOORS}
    graph = _overall(metrics, "turns", "graph")
    asked = metrics["dataset"]
    return checked(
        *(
            Check(f"{mode} {measure} {figures[mode, measure]:.3f} (at least {floor})", figures[mode, measure] >= floor)
            for (mode, measure), floor in _FLOORS.items()
        ),
        Check(f"graph R@5 {graph['R@5']:.3f}, nDCG@10 {graph['nDCG@10']:.3f}", True),
        Check(
            f"{asked['queries_scored']} of {asked['queries_total']} scored",
            (asked["queries_scored"], asked["queries_total"]) == (997, 999),
        ),
        Check(
            "the same bytes twice" if bytes_of[0] == bytes_of[1] else "other bytes the second time",
            bytes_of[0] == bytes_of[1],
        ),
        Check(f"{seconds[0]:.0f} s cold", seconds[0] < 360),
        Check(f"{seconds[1]:.0f} s with embeddings cached", seconds[1] < 60),
    )


def _gems_on_locomo(site: Site) -> Shown:
    path = site.public(_LOCOMO)
    if path is None:
        return not_shown(f"needs {_LOCOMO}")
    metrics = site.evaluated(f"locomo:{path}", "bm25,hybrid", "gems")
    gems, raw = _overall(metrics, "gems", "hybrid"), _overall(metrics, "turns", "bm25")
    return checked(
        Check(
            f"evidence@500 {gems['evidence@500']:.3f} beside BM25's {raw['evidence@500']:.3f} of raw turns",
            gems["evidence@500"] >= raw["evidence@500"],
        ),
        Check(f"{gems['gems_per_100_turns']:.1f} gems per 100 turns", gems["gems_per_100_turns"] <= 80),
        Check(f"{gems['source_turns_per_gem']:.2f} source turns per gem", gems["source_turns_per_gem"] <= 1.5),
    )


def _forty_exchanges(site: Site) -> Shown:
    folder = site.scratch / "forty"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log, home = folder / "one-session.jsonl", folder / "home"
    _openclaw_log(log, 40)
    replay = ("neuralstream", "--home", str(home), "replay", str(log), "--json")
    first, second = (json.loads(site.run(*replay).text) for _ in range(2))
    recent = json.loads(site.run("neuralstream", "--home", str(home), "recent", "-n", "5", "--json").text)
    newest = [any(f"number {number} " in json.dumps(hit) for hit in recent) for number in range(36, 41)]
    tests = site.tests(
        "tests/workbench/test_replay.py::test_forty_exchanges_make_eight_batches_and_a_second_replay_adds_nothing",
        "tests/test_stream.py",
    ).shown()
    return checked(
        Check(
            f"{_sum(first, 'batches')} batches, {_sum(first, 'new')} new turns",
            (_sum(first, "batches"), _sum(first, "new")) == (8, 40),
        ),
        Check(
            f"again {_sum(second, 'batches')} and {_sum(second, 'new')}",
            (_sum(second, "batches"), _sum(second, "new")) == (0, 0),
        ),
        Check(
            "recent -n 5 gives the last five" if all(newest) and len(recent) == 5 else f"recent gives {recent}",
            all(newest) and len(recent) == 5,
        ),
        Check(
            f"gems cite the right turns, turns are found before they are indexed or distilled: {tests.figure}",
            tests.verdict == "holds",
        ),
    )


def _no_long_module(_: Site) -> Shown:
    sizes = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "neuralstream").rglob("*.py")
    }
    largest = max(sizes, key=lambda path: sizes[path])
    return checked(
        Check(f"the largest of {len(sizes)} is {largest}, {sizes[largest]} lines", sizes[largest] <= _LARGEST)
    )


def _labelled_set(site: Site) -> Shown:
    ran = site.run("neuralstream", "datasets", "validate", "workdays", "--json")
    checks = json.loads(ran.text)
    failed = [check["name"] for check in checks if not check["passed"]]
    return checked(Check(f"{len(checks)} checks, failed: {failed or 'none'}", ran.code == 0 and not failed))


def _on_redis(site: Site) -> Shown:
    suite = ("python", "-m", "pytest", "-q", "-m", "", "tests/capture")
    url = os.environ.get("NEURALSTREAM_TEST_REDIS_URL")
    if url is not None:
        ran = site.run(*suite)
    elif shutil.which("redis-server") is None:
        return not_shown("needs NEURALSTREAM_TEST_REDIS_URL, or Debian's redis-server")
    else:
        with redis_server(site.scratch / "redis") as url:
            ran = site.run(*suite, environment={"NEURALSTREAM_TEST_REDIS_URL": url})
    return checked(Check(came_to(ran), ran.code == 0))


def _on_qdrant(site: Site) -> Shown:
    if not os.environ.get("NEURALSTREAM_TEST_QDRANT_URL"):
        return not_shown("needs NEURALSTREAM_TEST_QDRANT_URL")
    return site.tests("tests/store").shown()


def _overall(metrics: dict[str, Any], lane: str, mode: str) -> dict[str, float]:
    overall: dict[str, float] = metrics["lanes"][lane][mode]["overall"]
    return overall


def _sum(replayed: list[dict[str, int]], key: str) -> int:
    return sum(row[key] for row in replayed)


def _openclaw_log(path: Path, exchanges: int) -> None:
    """A session as OpenClaw writes it, a minute between messages."""
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "one-session", "timestamp": "2026-03-01T09:00:00.000Z", "cwd": "/work"}
    ]
    for number in range(1, exchanges + 1):
        for offset, role, text in (
            (0, "user", f"We decided that service number {number} listens on port {7000 + number}."),
            (1, "assistant", f"Noted: port {7000 + number} for service number {number} ."),
        ):
            minute = 2 * number + offset
            lines.append(
                {
                    "type": "message",
                    "id": f"m{number}-{role}",
                    "parentId": lines[-1].get("id") if len(lines) > 1 else None,
                    "timestamp": f"2026-03-01T{9 + minute // 60:02}:{minute % 60:02}:00.000Z",
                    "message": {"role": role, "content": [{"type": "text", "text": text}]},
                }
            )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


LINES = (
    Line(
        "import",
        "`import neuralstream` takes under 0.5 s and loads nothing heavy",
        "python -c 'import neuralstream'",
        _importing,
        alone=True,
    ),
    Line(
        "locomo",
        "LoCoMo's development half reaches its floors in every mode, twice to the same bytes, in 6 min cold, 1 cached",
        "neuralstream eval --dataset locomo:locomo_dev5.json --lane turns --out OUT",
        _on_locomo,
        alone=True,
    ),
    Line(
        "locomo-gems",
        "Gems by rules: raw-turn BM25's evidence@500 at least, at most 80 per 100 turns and 1.5 source turns each",
        "neuralstream eval --dataset locomo:locomo_dev5.json --lane gems --out OUT",
        _gems_on_locomo,
    ),
    Line(
        "forty",
        "An OpenClaw log of 40 exchanges makes 8 batches, and none when it is replayed again",
        "neuralstream replay LOG",
        _forty_exchanges,
    ),
    by_tests(
        "triggers",
        "Context usage and silence fire once a crossing: at 50 and 51 percent, at 15 minutes",
        "tests/capture/test_buffer.py",
        "tests/capture/test_planned.py",
    ),
    by_tests(
        "kills",
        "Ten SIGKILLs of a replay change nothing, whatever the extractor answers; the Valkey left behind is adopted",
        "tests/test_crash.py",
        "tests/capture/test_valkey.py",
    ),
    by_tests(
        "contracts",
        "Every store and every buffer keeps one contract: edge, :memory:, embedded Valkey",
        "tests/store/test_contract.py",
        "tests/capture/test_buffer.py",
    ),
    Line(
        "redis",
        "The same buffer on Debian's Redis server",
        "NEURALSTREAM_TEST_REDIS_URL=… pytest tests/capture",
        _on_redis,
    ),
    Line(
        "qdrant",
        "The same store on a Qdrant server",
        "NEURALSTREAM_TEST_QDRANT_URL=… pytest tests/store",
        _on_qdrant,
    ),
    by_tests(
        "forget",
        "What is forgotten is found by no query and in no byte of the data folder; everything of others stays",
        "tests/test_forgetting.py",
    ),
    by_tests("export", "An export restored into another store answers alike", "tests/test_upkeep.py"),
    Line("modules", f"No module is longer than {_LARGEST} lines", "wc -l neuralstream/**/*.py", _no_long_module),
    Line(
        "workdays",
        "The shipped labelled set is what its datasheet says",
        "neuralstream datasets validate workdays",
        _labelled_set,
    ),
)
