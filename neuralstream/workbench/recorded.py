"""What a cassette of recorded answers can replay: which users of a data set, and how its model was asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import InputError
from neuralstream.llm.cassette import Cassette

if TYPE_CHECKING:
    from neuralstream.workbench.datasets import Dataset

__all__ = ["answers_of", "asked_as", "users_covered"]

_FOLDER = "answers"


def answers_of(dataset: Dataset) -> Path | None:
    """The recorded answers beside a native set, in `answers/`: the first file by name; None where there is none."""
    return min((dataset.spec.path / _FOLDER).glob("*.jsonl"), default=None)


def users_covered(dataset: Dataset, cassette: Path, prompts: Sequence[str]) -> list[str]:
    """The users all of whose turns every prompt was asked to distil, in the set's order.

    Args:
        dataset: whose users.
        cassette: file of recorded answers.
        prompts: names, without versions.
    """
    distilled: dict[str, set[str]] = defaultdict(set)
    for recording in Cassette(cassette):
        name, _, _ = str(recording.about.get("prompt", "")).partition("@")
        distilled[name].update(recording.about.get("turns", ()))
    return [
        one.name
        for one in dataset.conversations
        if prompts and all(turn.turn_id in distilled[prompt] for prompt in prompts for turn in one.turns)
    ]


def asked_as(cassette: Path) -> dict[str, Any]:
    """Settings of the model under which most answers were recorded, by dotted names, and replay from the file.

    Raises:
        InputError: it holds no answer.
    """
    ways = Counter((recording.model, tuple(sorted(recording.options.items()))) for recording in Cassette(cassette))
    if not ways:
        raise InputError(f"{cassette} holds no recorded answer; record some with llm.mode=record")
    (model, options), _ = ways.most_common(1)[0]
    return {
        "extract.extractor": "llm",
        "gem_model": model,
        "llm.mode": "replay",
        "llm.cassette": str(cassette),
        **{f"llm.{name}": value for name, value in options},
    }
