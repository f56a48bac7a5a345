"""What a cassette of recorded answers can replay: which users of a data set, and how its model was asked."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuralstream.errors import InputError
from neuralstream.extract.prompts import load_prompt
from neuralstream.llm.cassette import Cassette
from neuralstream.workbench.report import set_options

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.workbench.datasets import Dataset

__all__ = ["answers_of", "asked_as", "how_to_record", "users_covered"]

_FOLDER = "answers"

_PACKAGED = "sentence-transformers:all-MiniLM-L6-v2"


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


def how_to_record(spec: str, mode: str, settings: Settings) -> str:
    """What is missing, and the command that asks a server for it, to be followed where these settings were replayed.

    Args:
        spec: of the data set whose turns are distilled.
        mode: that the command is to measure, too.
        settings: which replay.

    Raises:
        SettingsError: there is no such prompt, or its file cannot be used.
    """
    prompt = load_prompt(settings.extract.prompt, settings.extract.prompts)
    server: dict[str, Any] = {"llm": {**settings.llm.model_dump(mode="json"), "mode": "record"}}
    if settings.ollama_url is None:
        # A server for the one is a server for the other, unless the embedder is named.
        server["ollama_url"] = "http://localhost:11434"
        server["embedding"] = settings.embedding if ":" in settings.embedding else _PACKAGED
    given = " ".join(f"--set {shlex.quote(one)}" for one in set_options(settings.model_dump(mode="json") | server))
    return (
        f"{settings.llm.cassette} lacks answers of {settings.gem_model} to prompt {prompt}. Record "
        "them from a server that has this model, and run this again (prompts/README.md: with a model of your own):\n"
        f"  neuralstream eval --dataset {spec} --lane gems --modes {mode} {given} --out reports/runs/recorded"
    )
