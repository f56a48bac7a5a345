"""What all log readers share: a log and its outcome, labelled questions, and making turns out of messages.

A reader turns a file's records into `Message`s and lets `assemble` group them into turns. Nothing in a file is fatal: a
record that cannot be read becomes a `Problem` with its line, and reading goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

from neuralstream.clock import parse_time, utc_now
from neuralstream.errors import InputError, LogFormatError
from neuralstream.types import Part, Role, Turn, Usage

__all__ = [
    "Assembled",
    "Conversation",
    "Format",
    "Log",
    "Message",
    "Problem",
    "Question",
    "Unit",
    "assemble",
    "fill_times",
    "read_time",
    "stable_id",
]

Unit = Literal["exchange", "utterance"]
"""What a turn is: a user's message with the reply to it, or one thing one speaker said."""

TURN_STEP = timedelta(seconds=30)
"""Assumed distance of two turns where a log has no times."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a log that could not be read.

    Attributes:
        line: counted from 1; in a file that is one JSON array, the line where the entry starts.
        reason: what was wrong.
        file: the file below the log's folder, where the log is a folder.
    """

    line: int
    reason: str
    file: str = ""


@dataclass
class Log:
    """An iterable of turns, once or many times. What was met on the way is there when an iteration has ended.

    Attributes:
        path: the file or folder.
        format: its format's name.
        reader: yields the turns and reports into this log.
        user_id: whose turns they are, where the log names nobody.
        unit: what a turn is.
        max_tool_chars: characters kept of a tool's result; 0 keeps the call alone.
        branches: also read the branches that the conversation left.
        problems: what could not be read.
        rotated: earlier pieces of the file, oldest first, that are read before it.
        usage: context use after a turn, by turn id, where the log tells.
        ended: ids of turns that the log says are over; nothing joins them, however the log grows.
        keys: by turn id, the id of each part's message; a message that once opens a turn has that id.
        used: records that are part of a turn.
        skipped: records that are no conversation, or lie on a branch that was not asked for.
    """

    path: Path
    format: str
    reader: Callable[[Log], Iterator[Turn]]
    user_id: str = "default"
    unit: Unit = "exchange"
    max_tool_chars: int = 400
    branches: bool = False
    rotated: tuple[Path, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    used: int = 0
    skipped: int = 0

    def __iter__(self) -> Iterator[Turn]:
        self.problems.clear()
        self.usage.clear()
        self.ended.clear()
        self.keys.clear()
        self.used = self.skipped = 0
        yield from self.reader(self)

    def problem(self, line: int, reason: str, path: Path | None = None) -> None:
        """Record what could not be read, in one of a folder's files where `path` is not the log's own."""
        file = path.relative_to(self.path) if path and path.is_relative_to(self.path) else path
        self.problems.append(Problem(line, reason, "" if file in (None, Path()) else str(file)))

    def refuse_problems(self) -> None:
        """For labelled data, where a part that is silently missing would falsify every number.

        Raises:
            LogFormatError: a part could not be read.
        """
        if self.problems:
            first = self.problems[0]
            where = self.path / first.file if first.file else self.path
            raise LogFormatError(f"{where}, line {first.line}: {first.reason}; repair the file, or leave the line out")


class Format(NamedTuple):
    """A log format.

    Attributes:
        name: as `read_log` and the command line take it.
        recognises: whether a JSON value is a record of it.
        read: the reader.
        unit: what a turn is, where the caller does not say.
        folders: a log may be a folder of files.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Callable[[Log], Iterator[Turn]]
    unit: Unit = "exchange"
    folders: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled query.

    Attributes:
        query_id: unique within its data set.
        text: what is asked.
        category: the category's name.
        evidence: ids of the turns that answer it, each once, each existing.
        answer: the expected answer, as text.
        asked_at: when it is asked; None is right after the last turn.
        unreadable_evidence: labels that could not be read or name no turn.
    """

    query_id: str
    text: str
    category: str
    evidence: tuple[str, ...]
    answer: str
    asked_at: datetime | None = None
    unreadable_evidence: int = 0


@dataclass(frozen=True, slots=True)
class Conversation:
    """One user's turns, oldest first, and the questions about them."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a log.

    Attributes:
        role: who speaks.
        text: what is said; a user's message without text still opens a turn, so that the reply to it joins no other.
        key: id of the turn that this message opens.
        line: where it was read.
        at: aware UTC, or None where the log has no time.
        speaker: a name where the log has one.
        last: the log says that the turn ends with it.
    """

    role: Role
    text: str
    key: str
    line: int
    at: datetime | None = None
    speaker: str | None = None
    last: bool = False


class Assembled(NamedTuple):
    """A turn, and the last line of the log that is part of it."""

    turn: Turn
    last_line: int


def assemble(
    messages: Sequence[Message], log: Log, *, session_id: str, path: Path, user_id: str | None = None
) -> Iterator[Assembled]:
    """The turns of one session.

    A user's message opens an exchange; replies and tool calls join it. A last message without a reply is a turn, too.
    Its id is the message's: once the log has grown by the reply, the turn is known and stays as it was first read.

    Args:
        messages: of one session, in order.
        log: gives the unit and the user.
        session_id: the session.
        path: the file, for the turns' source and, where no message has a time, for the last turn's time.
        user_id: whose turns they are, where the log names somebody.
    """
    groups = list(_groups(messages, log.unit))
    moments = [next((message.at for message in group if message.at), None) for group in groups]
    for group, moment, known in zip(groups, fill_times(moments, path), moments, strict=True):
        parts = tuple(Part(message.role, message.text, message.speaker) for message in group if message.text)
        if any(part.role != "tool" for part in parts):
            turn = Turn(
                parts=parts,
                session_id=session_id,
                turn_id=group[0].key,
                user_id=user_id or log.user_id,
                created_at=moment,
                time_estimated=known is None,
                source=f"{log.format}:{path}#{group[0].line}",
            )
            log.keys[turn.turn_id] = tuple(message.key for message in group if message.text)
            if group[-1].last:
                log.ended.add(turn.turn_id)
            yield Assembled(turn, max(message.line for message in group))


def fill_times(moments: Sequence[datetime | None], path: Path) -> list[datetime]:
    """Times for all: between two known ones in equal steps, beyond them in steps of `TURN_STEP`.

    Args:
        moments: aware UTC, or None where the log has no time.
        path: where nothing is known, the last turn gets the time this file was last written, or now.
    """
    known = [(position, moment) for position, moment in enumerate(moments) if moment is not None]
    if not known and moments:
        known = [(len(moments) - 1, parse_time(path.stat().st_mtime) if path.exists() else utc_now())]
    filled = []
    ahead = 0
    for position, moment in enumerate(moments):
        while ahead < len(known) and known[ahead][0] < position:
            ahead += 1
        if moment is not None:
            filled.append(moment)
        elif ahead == 0:
            filled.append(known[0][1] - TURN_STEP * (known[0][0] - position))
        elif ahead == len(known):
            filled.append(known[-1][1] + TURN_STEP * (position - known[-1][0]))
        else:
            (before, start), (after, end) = known[ahead - 1], known[ahead]
            filled.append(start + (end - start) * ((position - before) / (after - before)))
    return filled


def read_time(value: Any) -> datetime | None:
    """Aware UTC, or None where the value is missing or is not a time."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return parse_time(value)
    except (InputError, OverflowError):
        return None


def stable_id(*parts: object) -> str:
    """An id that depends on nothing but its parts: 32 hex digits of their SHA-256."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:32]


def _groups(messages: Iterable[Message], unit: Unit) -> Iterator[list[Message]]:
    group: list[Message] = []
    for message in messages:
        if group and _opens(message, group, unit):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _opens(message: Message, group: list[Message], unit: Unit) -> bool:
    if message.role == "tool":
        return False
    if message.role == "user":
        return True
    if unit == "utterance":
        return bool(message.text)
    # Among people, whoever opened the exchange opens the next one after somebody answered.
    return message.role == "person" and message.speaker == group[0].speaker != group[-1].speaker
