"""LongMemEval: a user's many sessions with an assistant, and one question about them per record.

Wu et al. 2024, "LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory", xiaowu0162/LongMemEval.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import Conversation, Format, Log, Message, Question, assemble
from neuralstream.logs.content import content_text
from neuralstream.logs.files import read_records
from neuralstream.types import Role, Turn

__all__ = ["FORMAT", "read_conversations"]

_WEEKDAY = re.compile(r"\s*\(\w+\)")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_UNANSWERABLE = "_abs"
"""End of the ids of questions that the history does not answer: they have no evidence."""


def read_conversations(path: Path | str) -> Iterator[Conversation]:
    """One conversation per record, with its question; turns are utterances of both roles, sessions in order of time.

    Sessions are called `s000`, `s001`, … by their place in the record, because the file's own ids of those that hold
    the evidence contain the word "answer". A turn's id is `s000:0`, `s000:1`, …. The benchmark asks of the whole
    history; where it dates a session after the question, the question is asked right after that session.

    Raises:
        LogFormatError: the file, or a part of it, cannot be read.
    """
    log = Log(Path(path), FORMAT.name, _read, unit=FORMAT.unit)
    for history in _histories(log):
        log.refuse_problems()
        yield Conversation(history.name, history.turns, (_question(history),))
    log.refuse_problems()


class _History(NamedTuple):
    name: str
    turns: tuple[Turn, ...]
    record: Mapping[str, Any]


class _Session(NamedTuple):
    key: str
    at: datetime | None
    said: list[Any]


def _read(log: Log) -> Iterator[Turn]:
    for history in _histories(log):
        yield from history.turns


def _recognises(value: Any) -> bool:
    sessions = value.get("haystack_sessions") if isinstance(value, dict) else None
    return isinstance(sessions, list) and all(isinstance(session, list) for session in sessions)


FORMAT = Format("longmemeval", _recognises, _read, unit="utterance")


def _histories(log: Log) -> Iterator[_History]:
    for line, value in read_records(log, log.path):
        if not _recognises(value):
            log.problem(line, "not a LongMemEval record: it has no list of `haystack_sessions`")
            continue
        name = str(value.get("question_id") or f"question-{line}")
        turns = [
            assembled.turn
            for session in _sessions(value)
            for assembled in assemble(
                list(_messages(session, line, log)), log, session_id=session.key, path=log.path, user_id=name
            )
        ]
        log.used += 1
        yield _History(name, tuple(turns), value)


def _sessions(record: Mapping[str, Any]) -> list[_Session]:
    dates = record.get("haystack_dates") or []
    sessions = [
        _Session(f"s{place:03}", _date(dates[place]) if place < len(dates) else None, said)
        for place, said in enumerate(record["haystack_sessions"])
    ]
    return sorted(sessions, key=lambda session: session.at or datetime.min.replace(tzinfo=UTC))


def _messages(session: _Session, line: int, log: Log) -> Iterator[Message]:
    for position, said in enumerate(session.said):
        role = _ROLES.get(str(said.get("role"))) if isinstance(said, dict) else None
        if role is None:
            log.problem(line, f"session {session.key}, message {position + 1} has no role user or assistant")
            continue
        text = content_text(said.get("content"))
        yield Message(role, text, f"{session.key}:{position}", line, session.at if position == 0 else None)


def _date(value: Any) -> datetime | None:
    """From the file's own form, "2023/05/30 (Tue) 23:40"; it names no zone, so UTC is taken."""
    try:
        return datetime.strptime(_WEEKDAY.sub("", value), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return None


def _question(history: _History) -> Question:
    record = history.record
    labelled = [
        f"s{place:03}:{position}"
        for place, session in enumerate(record["haystack_sessions"])
        for position, said in enumerate(session)
        if isinstance(said, dict) and said.get("has_answer") and not history.name.endswith(_UNANSWERABLE)
    ]
    turn_ids = {turn.turn_id for turn in history.turns}
    evidence = tuple(turn_id for turn_id in labelled if turn_id in turn_ids)
    try:
        text, category = str(record["question"]), str(record["question_type"])
    except KeyError as error:
        raise LogFormatError(
            f"record {history.name} is not a LongMemEval question: it has no {error}; take it out"
        ) from error
    return Question(
        query_id=history.name,
        text=text,
        category=category,
        evidence=evidence,
        answer=str(record.get("answer", "")),
        asked_at=max(
            filter(None, (_date(record.get("question_date")), *(turn.at() for turn in history.turns))), default=None
        ),
        unreadable_evidence=len(labelled) - len(evidence),
    )
