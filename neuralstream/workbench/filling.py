"""A memory filled with a labelled set: what is evaluated, and what weights are fitted on.

Each conversation is one user of one memory in a folder of its own, on the embedded engines whatever the settings name:
measuring never touches the memory that is served. Turns are captured in order, session by session, under a clock that
shows their own times; sessions end where they end in the log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from neuralstream.extract.base import Extraction
from neuralstream.stream import NeuralStream

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Batch, Extractor
    from neuralstream.logs.base import Conversation, Question
    from neuralstream.types import Turn
    from neuralstream.workbench.datasets import Dataset

__all__ = ["NoExtractor", "Progress", "TurnClock", "asked_at", "filled_memory"]

Progress = Callable[[str, int, int], None]
"""Told the stage, what is done, and how much there is to do."""

_OWN_FOLDER = {"worker": "inline", "redis_url": None, "qdrant_url": None, "retention": None, "max_disk_mb": None}


@dataclass
class TurnClock:
    """Shows the time of the session being captured."""

    now: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The time shown."""
        return self.now


class NoExtractor:
    """Distils nothing: what is measured on turns alone needs no gems, and their vectors cost more than all else."""

    name = "none"

    def extract(self, batch: Batch) -> Extraction:  # noqa: ARG002 - whatever it holds
        """No gems."""
        return Extraction()


@contextmanager
def filled_memory(
    dataset: Dataset,
    settings: Settings,
    folder: Path,
    *,
    clock: TurnClock,
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
    progress: Progress | None = None,
) -> Iterator[NeuralStream]:
    """A memory that holds all of a set's conversations, each as the user of its name.

    Args:
        dataset: what is captured; its questions are not looked at.
        settings: of the memory, but for what would reach outside of `folder`.
        folder: holds the memory's data until it is closed.
        clock: set to each session's time as it is captured.
        embedder, extractor: used instead of what the settings name.
        progress: told how many turns were captured.
    """
    with (
        tempfile.TemporaryDirectory(prefix="data-", dir=folder) as home,
        NeuralStream(
            settings.model_copy(update={**_OWN_FOLDER, "home": Path(home)}),
            clock=clock,
            embedder=embedder,
            extractor=extractor,
        ) as memory,
    ):
        _fill(memory, dataset, clock, progress)
        yield memory


def asked_at(conversation: Conversation, question: Question, clock: TurnClock) -> datetime:
    """The moment a question is asked: its own date, else the conversation's last turn's time."""
    times = (turn.created_at for turn in conversation.turns if turn.created_at)
    return question.asked_at or max(times, default=clock.now)


def _fill(memory: NeuralStream, dataset: Dataset, clock: TurnClock, progress: Progress | None) -> None:
    total = sum(len(conversation.turns) for conversation in dataset.conversations)
    done = 0
    for conversation in dataset.conversations:
        clock.now = min((turn.created_at for turn in conversation.turns if turn.created_at), default=clock.now)
        last = {turn.session_id: position for position, turn in enumerate(conversation.turns)}
        waiting: list[Turn] = []
        for position, turn in enumerate(conversation.turns):
            waiting.append(replace(turn, user_id=conversation.name))
            if last[turn.session_id] == position:
                clock.now = turn.created_at or clock.now
                memory.capture_all(waiting)
                memory.end_session(turn.session_id, user_id=conversation.name)
                done += len(waiting)
                waiting.clear()
                if progress:
                    progress("capture", done, total)
    memory.flush()
