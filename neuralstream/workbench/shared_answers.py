"""Answers that several cells of a sweep share, kept in a folder by all that determines them.

Cells that distil at other moments often end with the same gems of a person, and raw turns are the same in every cell.
What a memory answers to that person's questions is then the same too: nobody else's turns change a score.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from neuralstream.ranking import Kind
from neuralstream.workbench.runs import core_digest, from_line, to_line, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from neuralstream.config import Settings
    from neuralstream.stream import NeuralStream
    from neuralstream.workbench.runs import QueryResult

__all__ = ["Answer", "SharedAnswers"]

_SEEN_IN_GEMS = frozenset(
    {
        "batch_size", "context_threshold", "idle_timeout", "context_window", "compact_at", "compact_to", "gem_model",
        "extract", "llm", "max_gems_injected", "context_budget",
    }
)  # fmt: skip
"""Settings that decide which gems there are, and nothing else about an answer."""

_NAMED_BY_THE_QUESTION = frozenset({"mode", "lane", "k"})


class Answer(NamedTuple):
    """A question's result, and the seconds that its search took."""

    result: QueryResult
    seconds: float


class SharedAnswers:
    """What memories answered, on disk.

    Args:
        folder: of the answers; it is created.
        settings: of the memories that ask.
        data_sha256: of the data set.
        k: hits recorded for each query.
        depth: hits retrieved for each query.
    """

    def __init__(self, folder: Path, settings: Settings, data_sha256: str, *, k: int, depth: int) -> None:
        self._folder = folder
        kept = {name: value for name, value in settings.deciding().items() if name not in _SEEN_IN_GEMS}
        kept["retrieval"] = {n: v for n, v in kept["retrieval"].items() if n not in _NAMED_BY_THE_QUESTION}
        self._about = [data_sha256, core_digest(), kept, k, depth]
        self._graph = any(settings.retrieval.ranking(kind).weights.get("graph") for kind in get_args(Kind))
        folder.mkdir(parents=True, exist_ok=True)

    def of(
        self, memory: NeuralStream, user: str, lane: str, mode: str, ask: Callable[[], Iterable[Answer]]
    ) -> Iterator[Answer]:
        """The answers to all of a person's questions: those that are kept, else what `ask` gives, kept from now on."""
        file = self._folder / f"{self._key(memory, user, lane, mode)}.jsonl"
        if file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                seconds, _, result = line.partition(" ")
                yield Answer(from_line(result), float(seconds))
            return
        lines = []
        for answer in ask():
            lines.append(f"{answer.seconds} {to_line(answer.result)}\n")
            yield answer
        write_text(file, "".join(lines))

    def _key(self, memory: NeuralStream, user: str, lane: str, mode: str) -> str:
        parts: list[Any] = [*self._about, memory.parts.embedder.digest, user, lane, mode]
        # The graph links turns by the gems that cite them; all else ranks raw turns as if there were no gems.
        if lane != "turns" or mode == "graph" or (mode == "hybrid" and self._graph):
            gems = memory.gems(user_id=user, status=None)
            parts.append(sorted((gem.to_dict() for gem in gems), key=lambda gem: str(gem["gem_id"])))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
