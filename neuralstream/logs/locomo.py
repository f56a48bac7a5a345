"""LoCoMo: two people who talk over months, and questions with the utterances that answer them.

Maharana et al. 2024, "Evaluating Very Long-Term Conversational Memory of LLM Agents", snap-research/locomo. A file is
an array of samples; each is one conversation of numbered sessions, `session_<n>` beside `session_<n>_date_time`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.errors import LogFormatError
from neuralstream.logs.base import Conversation, Format, Log, Message, Question, assemble
from neuralstream.logs.files import read_records
from neuralstream.types import Turn

__all__ = ["CATEGORIES", "FORMAT", "read_conversations"]

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""The numbers of the published file. Several published tables permute these names."""

_SESSION = re.compile(r"session_(\d+)")
_DIALOGUE_ID = re.compile(r"D:?(\d+):(\d+)")


def read_conversations(path: Path | str) -> Iterator[Conversation]:
    """The conversations of a LoCoMo file with their questions; turns are utterances, a turn's id is its `dia_id`.

    Raises:
        LogFormatError: the file, or a part of it, cannot be read.
    """
    log = Log(Path(path), FORMAT.name, _read, unit=FORMAT.unit)
    for sample in _samples(log):
        log.refuse_problems()
        yield Conversation(sample.name, sample.turns, tuple(_questions(sample)))
    log.refuse_problems()


class _Sample(NamedTuple):
    name: str
    turns: tuple[Turn, ...]
    questions: list[Any]


def _read(log: Log) -> Iterator[Turn]:
    for sample in _samples(log):
        yield from sample.turns


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("conversation"), dict)


FORMAT = Format("locomo", _recognises, _read, unit="utterance")


def _samples(log: Log) -> Iterator[_Sample]:
    for line, value in read_records(log, log.path):
        if not _recognises(value):
            log.problem(line, "not a LoCoMo sample: it has no `conversation`")
            continue
        name = str(value.get("sample_id") or f"conversation-{line}")
        sessions = sorted(
            (int(match[1]), key) for key in value["conversation"] if (match := _SESSION.fullmatch(key)) is not None
        )
        turns = [
            assembled.turn
            for _, key in sessions
            for assembled in assemble(
                list(_messages(value["conversation"], key, line, log)),
                log,
                session_id=key,
                path=log.path,
                user_id=name,
            )
        ]
        log.used += 1
        yield _Sample(name, tuple(turns), value.get("qa") or [])


def _messages(conversation: Mapping[str, Any], session: str, line: int, log: Log) -> Iterator[Message]:
    """The session's utterances; the first has the session's time, the others follow it."""
    at = _session_time(conversation.get(f"{session}_date_time"))
    utterances = conversation[session]
    for position, said in enumerate(utterances if isinstance(utterances, list) else ()):
        match said:
            case {"speaker": str() as speaker, "dia_id": str() as key, "text": str() as text} if key.strip():
                pass
            case _:
                log.problem(line, f"{session}, utterance {position + 1} has no speaker, dia_id or text")
                continue
        # The picture counts by its caption. `query` and `img_url` were not said by anybody.
        caption = said.get("blip_caption")
        words = f"{text.strip()} [image: {caption}]".lstrip() if caption else text.strip()
        yield Message("person", words, key, line, at if position == 0 else None, speaker)


def _session_time(value: Any) -> datetime | None:
    """From the file's own form, "1:56 pm on 8 May, 2023"; it names no zone, so UTC is taken."""
    try:
        return datetime.strptime(value, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except (ValueError, TypeError):
        return None


def _questions(sample: _Sample) -> Iterator[Question]:
    turn_ids = {turn.turn_id for turn in sample.turns}
    for number, labelled in enumerate(sample.questions, 1):
        try:
            evidence, unreadable = _evidence(labelled.get("evidence") or [], turn_ids)
            yield Question(
                query_id=f"{sample.name}-q{number:03}",
                text=str(labelled["question"]),
                category=CATEGORIES.get(labelled["category"], str(labelled["category"])),
                evidence=evidence,
                answer=str(labelled.get("answer", "")),
                unreadable_evidence=unreadable,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise LogFormatError(
                f"question {number} of {sample.name} is not a LoCoMo question: {error!r}; take it out"
            ) from error


def _evidence(labels: list[str] | str, turn_ids: Collection[str]) -> tuple[tuple[str, ...], int]:
    """The ids that name turns, each once, and how many labels do not.

    Some labels hold several ids (`D8:6; D9:17`), or are malformed (`D:11:26`, `D30:05`, `D`).
    """
    found: dict[str, None] = {}
    unreadable = 0
    for label in [labels] if isinstance(labels, str) else labels:
        ids = [f"D{int(session)}:{int(number)}" for session, number in _DIALOGUE_ID.findall(label)]
        known = [turn_id for turn_id in ids if turn_id in turn_ids]
        unreadable += max(len(ids), 1) - len(known)
        found.update(dict.fromkeys(known))
    return tuple(found), unreadable
