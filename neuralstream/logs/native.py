"""The native format: turns as they are stored, one a line, and labelled queries beside them (`datasets/README.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuralstream.errors import InputError, LogFormatError
from neuralstream.logs.base import Conversation, Format, Log, Question, fill_times, read_time
from neuralstream.logs.files import log_files, read_records
from neuralstream.types import Turn

__all__ = ["CONVERSATIONS", "FORMAT", "read_conversations"]

CONVERSATIONS = "conversations"
"""The folder of a data set that holds a file of turns per user."""

_QUERIES = "queries"


def read_conversations(path: Path | str) -> Iterator[Conversation]:
    """The conversations of a data set with their queries, in order of the users' names.

    Args:
        path: the data set's folder.

    Raises:
        LogFormatError: it is not a data set's folder, or a line of it cannot be read.
    """
    root = Path(path)
    if not (root / CONVERSATIONS).is_dir():
        raise LogFormatError(f"{root} has no folder {CONVERSATIONS}/; name a data set's folder (datasets/README.md)")
    log = Log(root, FORMAT.name, _read)
    for file in log_files(log, root / CONVERSATIONS):
        turns = tuple(_turns(log, file))
        log.refuse_problems()
        turn_ids = {turn.turn_id for turn in turns}
        queries = root / _QUERIES / file.name
        records = read_records(log, queries, lines_only=True) if queries.is_file() else ()
        questions = tuple(_question(record.value, turn_ids, f"{queries}, line {record.line}") for record in records)
        log.refuse_problems()
        yield Conversation(_user(file), turns, questions)


def _read(log: Log) -> Iterator[Turn]:
    conversations = log.path / CONVERSATIONS
    for file in log_files(log, conversations if conversations.is_dir() else None):
        yield from _turns(log, file)


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and "turn_id" in value and isinstance(value.get("parts"), list)


FORMAT = Format("native", _recognises, _read, folders=True)


def _turns(log: Log, file: Path) -> Iterator[Turn]:
    user_id = _user(file) if file.parent.name == CONVERSATIONS else log.user_id
    turns: dict[tuple[str, str], Turn] = {}
    for line, value in read_records(log, file, lines_only=True):
        try:
            turn = Turn.from_dict({"user_id": user_id} | value if isinstance(value, dict) else {})
            if (turn.user_id, turn.turn_id) in turns:
                log.problem(line, f"turn id {turn.turn_id!r} was used before", file)
            else:
                turns[turn.user_id, turn.turn_id] = replace(turn, source=turn.source or f"{FORMAT.name}:{file}#{line}")
                log.used += 1
        except InputError as error:
            log.problem(line, str(error), file)
    moments = fill_times([turn.created_at for turn in turns.values()], file)
    for turn, moment in zip(turns.values(), moments, strict=True):
        yield turn if turn.created_at else replace(turn, created_at=moment, time_estimated=True)


def _question(value: Any, turn_ids: set[str], where: str) -> Question:
    try:
        labelled = tuple(dict.fromkeys(map(str, value["evidence"])))
        evidence = tuple(turn_id for turn_id in labelled if turn_id in turn_ids)
        return Question(
            query_id=str(value["query_id"]),
            text=str(value["text"]),
            category=str(value["category"]),
            evidence=evidence,
            answer=str(value.get("answer") or ""),
            asked_at=read_time(value.get("asked_at")),
            unreadable_evidence=len(labelled) - len(evidence),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise LogFormatError(f"{where}: not a query, {type(error).__name__} {error}; see datasets/README.md") from error


def _user(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".jsonl")
