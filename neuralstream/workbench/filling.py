"""A memory filled with a labelled set: what is evaluated, and what weights are fitted on.

Each conversation is one user of one memory in a folder of its own, on the embedded engines whatever the settings name:
measuring never touches the memory that is served. There are two ways to fill it:

- `filled_memory` captures turns in order, session by session, under a clock that shows their own times; sessions end
  where they end in the log. Batches are made by `batch_size` and by sessions' ends alone, and filling is fast.
- `replayed_memory` replays each conversation as a host would have lived it, idle and full contexts included, and tells
  what happened when: for measuring a capture policy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from neuralstream.extract.base import Extraction
from neuralstream.stream import NeuralStream
from neuralstream.workbench.replay import replay
from neuralstream.workbench.timeline import Recorder, Timeline
from neuralstream.workbench.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from datetime import datetime

    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Batch, Extractor
    from neuralstream.logs.base import Conversation, Question
    from neuralstream.types import Turn
    from neuralstream.workbench.datasets import Dataset

__all__ = ["Filled", "NoExtractor", "Progress", "asked_at", "filled_memory", "replayed_memory"]

Progress = Callable[[str, int, int], None]
"""Told the stage, what is done, and how much there is to do."""

_OWN_FOLDER = {"worker": "inline", "redis_url": None, "qdrant_url": None, "retention": None, "max_disk_mb": None}


class Filled(NamedTuple):
    """A memory that holds a set's conversations, and what happened when, where it lived them."""

    memory: NeuralStream
    timeline: Timeline | None = None


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
    clock: VirtualClock,
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
    progress: Progress | None = None,
) -> Iterator[Filled]:
    """A memory that holds all of a set's conversations, each as the user of its name.

    Args:
        dataset: what is captured; its questions are not looked at.
        settings: of the memory, but for what would reach outside of `folder`.
        folder: holds the memory's data until it is closed.
        clock: set to each session's time as it is captured.
        embedder, extractor: used instead of what the settings name.
        progress: told how many turns were captured.
    """
    with _opened(settings, folder, clock, embedder, extractor) as memory:
        _fill(memory, dataset, clock, progress)
        yield Filled(memory)


@contextmanager
def replayed_memory(
    dataset: Dataset,
    settings: Settings,
    folder: Path,
    *,
    clock: VirtualClock,
    extractor: Extractor,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
) -> Iterator[Filled]:
    """A memory that lived all of a set's conversations, each as the user of its name, one after the other.

    Args:
        dataset, settings, folder, embedder: as for `filled_memory`; `context_window` simulates a host's context.
        extractor: distils.
        clock: shows the logs' times.
        progress: told how many turns were captured.
    """
    recorder = Recorder(extractor, clock)
    total = sum(len(conversation.turns) for conversation in dataset.conversations)
    done = 0
    timelines = []
    with _opened(settings, folder, clock, embedder, recorder) as memory:
        for conversation in dataset.conversations:
            turns = [replace(turn, user_id=conversation.name) for turn in conversation.turns]
            timelines.append(replay(memory, turns, clock=clock, recorder=recorder).timeline)
            done += len(turns)
            if progress:
                progress("capture", done, total)
        yield Filled(memory, Timeline.joined(timelines))


def asked_at(conversation: Conversation, question: Question, clock: VirtualClock) -> datetime:
    """The moment a question is asked: its own date, else the conversation's last turn's time."""
    times = (turn.created_at for turn in conversation.turns if turn.created_at)
    return question.asked_at or max(times, default=clock.now)


@contextmanager
def _opened(
    settings: Settings, folder: Path, clock: VirtualClock, embedder: Embedder | None, extractor: Extractor | None
) -> Iterator[NeuralStream]:
    with (
        tempfile.TemporaryDirectory(prefix="data-", dir=folder) as home,
        NeuralStream(
            settings.model_copy(update={**_OWN_FOLDER, "home": Path(home)}),
            clock=clock,
            embedder=embedder,
            extractor=extractor,
        ) as memory,
    ):
        yield memory


def _fill(memory: NeuralStream, dataset: Dataset, clock: VirtualClock, progress: Progress | None) -> None:
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
