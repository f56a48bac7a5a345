"""Labelled conversation logs: naming them, loading them, describing them.

A SPEC is `[FORMAT:]NAME-OR-PATH[@SPLIT]`: `locomo:locomo10.json`, `longmemeval:longmemeval_s.json.gz`, `native:folder`,
`openclaw:folder`, or the bare name of a shipped set, such as `workdays@dev`. A known name wins over a path; the text
before the first colon is a format only if it is a known one. Only the native format has splits; beside those that a set
names, some of its users are one: `workdays@nils,wren`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.clock import iso_time
from neuralstream.errors import DatasetError
from neuralstream.logs import FORMATS, detect_format, locomo, longmemeval, native, read_log
from neuralstream.logs.base import Conversation, Question
from neuralstream.shipped import SHIPPED
from neuralstream.tokens import count_tokens
from neuralstream.types import Turn
from neuralstream.workbench.metrics import precision_ceiling

__all__ = ["OWN", "Dataset", "Spec", "description", "list_datasets", "load", "parse_spec", "stats"]

OWN = "workdays"
"""The set written for this project; listed first."""

_SHIPPED = SHIPPED / "datasets"
_LABELLED: Mapping[str, Callable[[Spec], Iterable[Conversation]]] = {
    "locomo": lambda spec: locomo.read_conversations(spec.path),
    "longmemeval": lambda spec: longmemeval.read_conversations(spec.path),
    "native": lambda spec: native.read_conversations(spec.path),
}
_CLUSTERS = {"locomo": "conversation", "longmemeval": "question", "native": "user"}
_DESCRIPTION = "dataset.json"


class Spec(NamedTuple):
    """A SPEC taken apart: the format, where the data lies, the split (None for all of it), and a name for reports."""

    format: str
    path: Path
    split: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """Conversations and the questions asked of them.

    Attributes:
        name: what reports call it, with the split.
        sha256: of the file's bytes, or for a folder of the names and bytes of the files that were loaded.
        conversations: each is one user of the memory that is evaluated, and one cluster of the statistics.
        cluster: what a cluster is: "conversation", "user" or "question".
        spec: where it came from.
    """

    name: str
    sha256: str
    conversations: tuple[Conversation, ...]
    cluster: str
    spec: Spec

    @property
    def shipped(self) -> bool:
        """Whether it is one of the project's own sets, which have to meet the project's rules."""
        return self.spec.path.parent == _SHIPPED

    def questions(self) -> list[tuple[Conversation, Question]]:
        """Every question beside its conversation, in file order."""
        return [(conversation, question) for conversation in self.conversations for question in conversation.questions]


def parse_spec(spec: str) -> Spec:
    """Take a SPEC apart and find what it names.

    Raises:
        DatasetError: it names no shipped set and no existing path.
    """
    prefix, colon, rest = spec.partition(":")
    named_format, place = (prefix, rest) if colon and prefix in FORMATS else (None, spec)
    # A path may hold an @ of its own.
    if "@" in place and not Path(place).expanduser().exists():
        place, _, split = place.rpartition("@")
    else:
        split = ""
    if named_format in {None, "native"} and place in _shipped_names():
        return Spec("native", _SHIPPED / place, split or None, f"{place}@{split}" if split else place)
    path = Path(place).expanduser()
    if not place or not path.exists():
        shipped = ", ".join(_shipped_names())
        raise DatasetError(
            f"{spec!r} names no data: {place!r} is no shipped set ({shipped}) and no existing path; "
            f"write [FORMAT:]NAME-OR-PATH[@SPLIT], FORMAT one of {', '.join(sorted(FORMATS))}"
        )
    found = named_format or ("native" if (path / _DESCRIPTION).is_file() else detect_format(path))
    return Spec(found, path, split or None, f"{path.name}@{split}" if split else path.name)


def load(spec: str | Spec) -> Dataset:
    """Read a data set.

    A log in a format without labels loads too, with no questions.

    Raises:
        DatasetError: the SPEC names nothing, has a split that the set does not, or the set is empty.
        LogFormatError: a file cannot be read as its format.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    reader = _from_log if spec.path.is_file() and spec.format == "native" else _LABELLED.get(spec.format, _from_log)
    conversations = tuple(reader(spec))
    if spec.split:
        members = _members(spec, {conversation.name for conversation in conversations})
        conversations = tuple(found for found in conversations if found.name in members)
    if not conversations:
        raise DatasetError(f"{spec.name} holds no conversation; check its files with `neuralstream datasets validate`")
    digest = _digest(spec, {conversation.name for conversation in conversations})
    return Dataset(spec.name, digest, conversations, _CLUSTERS.get(spec.format, "user"), spec)


def description(spec: Spec) -> dict[str, Any]:
    """A native set's own `dataset.json`; empty for other formats.

    Raises:
        DatasetError: the file is not a JSON object.
    """
    file = spec.path / _DESCRIPTION
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DatasetError(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DatasetError(f"{file} must hold an object with name, description, licence and splits")
    return found


def list_datasets() -> list[dict[str, Any]]:
    """The shipped sets, our own first: name, description, licence, languages, splits with their users, path."""
    listed = []
    for name in _shipped_names():
        about = description(Spec("native", _SHIPPED / name, None, name))
        listed.append(
            {
                "name": name,
                "description": about.get("description", ""),
                "licence": about.get("licence", ""),
                "languages": about.get("languages", []),
                "splits": about.get("splits", {}),
                "path": str(_SHIPPED / name),
            }
        )
    return listed


def stats(data: str | Dataset) -> dict[str, Any]:
    """What a set holds, as a JSON-ready mapping.

    `ceiling_P@5` is the highest P@5 that any ranking of turns can reach; `unscored` counts questions without readable
    evidence, `unreadable_evidence` the evidence ids among all questions that name no turn.
    """
    dataset = load(data) if isinstance(data, str) else data
    questions = [question for _, question in dataset.questions()]
    gold = [frozenset(question.evidence) for question in questions if question.evidence]
    turns = [turn for conversation in dataset.conversations for turn in conversation.turns]
    return {
        "name": dataset.name,
        "format": dataset.spec.format,
        "sha256": dataset.sha256,
        "conversations": len(dataset.conversations),
        "sessions": len({(c.name, turn.session_id) for c in dataset.conversations for turn in c.turns}),
        "turns": len(turns),
        "tokens": sum(count_tokens(turn.text) for turn in turns),
        "first_at": min((iso_time(turn.created_at) for turn in turns if turn.created_at), default=None),
        "last_at": max((iso_time(turn.created_at) for turn in turns if turn.created_at), default=None),
        "questions": len(questions),
        "by_category": dict(sorted(Counter(question.category for question in questions).items())),
        "scored": len(gold),
        "unscored": len(questions) - len(gold),
        "unreadable_evidence": sum(question.unreadable_evidence for question in questions),
        "gold_per_question": round(sum(map(len, gold)) / len(gold), 3) if gold else None,
        "ceiling_P@5": round(sum(precision_ceiling(ids, 5) for ids in gold) / len(gold), 3) if gold else None,
    }


def _members(spec: Spec, users: AbstractSet[str]) -> Collection[str]:
    """The users of a split: one of those that a native set names, or users with commas between them."""
    splits: dict[str, list[str]] = description(spec).get("splits", {})
    split = spec.split or ""
    named = splits.get(split, split.split(","))
    if split in splits or (splits and set(named) <= users):
        return named
    raise DatasetError(
        f"{spec.path} has no split {split!r}; it has {', '.join(splits) or 'none'}"
        + (f", and users {', '.join(sorted(users))}" if splits else "")
    )


def _shipped_names() -> list[str]:
    names = [file.parent.name for file in _SHIPPED.glob(f"*/{_DESCRIPTION}")]
    return sorted(names, key=lambda name: (name != OWN, name))


def _from_log(spec: Spec) -> list[Conversation]:
    by_user: dict[str, list[Turn]] = defaultdict(list)
    for turn in read_log(spec.path, spec.format):
        by_user[turn.user_id].append(turn)
    return [Conversation(name=user, turns=tuple(turns), questions=()) for user, turns in by_user.items()]


def _digest(spec: Spec, names: set[str]) -> str:
    """As `sha256sum` prints it for a file; for a folder, of the lines it prints for the files that were loaded."""
    if spec.path.is_file():
        return hashlib.sha256(spec.path.read_bytes()).hexdigest()
    files = sorted(file for file in spec.path.rglob("*") if file.is_file())
    if spec.format == "native":
        loaded = {f"{name}.jsonl" for name in names}
        files = [f for f in files if f.parent.name in {"conversations", "queries"}]
        files = [f for f in files if f.name.removesuffix(".gz") in loaded]
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(spec.path).as_posix()}\n" for file in files
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
