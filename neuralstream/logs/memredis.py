"""The earlier Redis buffer, mem-redis: a list per user of JSON strings, pushed from either end.

An entry is one message, `{turn, role, content, timestamp, user_id, session}` (`turn` may be missing), or one exchange,
`{user_id, user_message, ai_response, turn, timestamp, date, conversation_id, channel}`. A dump of the list is a JSON
array, or one entry a line. A turn's id is a hash of user, session, time and words: the list may grow, or be cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from neuralstream.logs.base import Format, Log, Message, assemble, read_time, stable_id
from neuralstream.logs.content import content_text
from neuralstream.logs.files import Record, decode, read_records
from neuralstream.types import Role, Turn

__all__ = ["FORMAT", "list_log"]

_ROLES: dict[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "tool": "tool"}
_OWN_KEYS = frozenset({"timestamp", "turn", "session", "user_id"})
"""What tells an entry from a bare chat message."""


def list_log(name: str, entries: Iterable[str | bytes], *, user_id: str = "default") -> Log:
    """A log over a list's entries, as `LRANGE` gives them; the list itself is left alone.

    Args:
        name: what to call the list in a turn's source, such as `mem:ana`.
        entries: from head to tail.
        user_id: whose turns they are, where an entry names nobody.
    """
    kept = [entry.decode("utf-8", errors="replace") if isinstance(entry, bytes) else entry for entry in entries]
    records = [Record(place, text) for place, text in enumerate(kept, 1)]
    return Log(Path(name), FORMAT.name, lambda log: _turns(log, records), user_id)


def _read(log: Log) -> Iterator[Turn]:
    yield from _turns(log, read_records(log, log.path))


def _recognises(value: Any) -> bool:
    try:
        entry = decode(value) if isinstance(value, str) else value
    except ValueError:
        return False
    return isinstance(entry, dict) and (
        "user_message" in entry or ({"role", "content"} <= entry.keys() and not _OWN_KEYS.isdisjoint(entry))
    )


FORMAT = Format("memredis", _recognises, _read)


class _Session(NamedTuple):
    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class _Said:
    session: _Session
    at: datetime | None
    turn: int
    message: Message


def _turns(log: Log, records: Iterable[Record]) -> Iterator[Turn]:
    sessions: defaultdict[_Session, list[_Said]] = defaultdict(list)
    for said in chain.from_iterable(_in_order(_said(record, log) for record in records)):
        sessions[said.session].append(said)
    for session, messages in sessions.items():
        for turn, _ in assemble(
            [said.message for said in _behind_questions(messages)],
            log,
            session_id=session.session_id,
            path=log.path,
            user_id=session.user_id,
        ):
            yield turn


def _behind_questions(messages: list[_Said]) -> list[_Said]:
    """A reply that came after the next question stands behind its own, which has the same turn number."""
    asked = {said.turn: place for place, said in enumerate(messages) if said.turn and said.message.role == "user"}
    places = [
        place if said.message.role == "user" else min(place, asked.get(said.turn, place))
        for place, said in enumerate(messages)
    ]
    return [messages[place] for place in sorted(range(len(messages)), key=places.__getitem__)]


def _said(record: Record, log: Log) -> list[_Said]:
    """The messages of one entry; none where it cannot be read."""
    try:
        entry = dict(decode(record.value) if isinstance(record.value, str) else record.value)
        parts = _parts(entry)
    except (ValueError, TypeError, KeyError) as error:
        log.problem(record.line, f"not a buffer entry: {error}")
        return []
    log.used += bool(parts)
    log.skipped += not parts
    user_id = _name(entry, "user_id") or log.user_id
    session = _Session(user_id, _name(entry, "session") or _name(entry, "conversation_id") or f"mem:{user_id}")
    at = _time(entry)
    turn = entry.get("turn")
    return [
        _Said(
            session,
            at,
            turn if isinstance(turn, int) else 0,
            Message(
                role,
                text,
                stable_id(FORMAT.name, *session, at, turn, role, text),
                record.line,
                at,
                last=role == "assistant",
            ),
        )
        for role, text in parts
    ]


def _parts(entry: Mapping[str, Any]) -> list[tuple[Role, str]]:
    if "user_message" in entry:
        spoken: list[tuple[Role, str]] = [
            ("user", content_text(entry["user_message"])),
            ("assistant", content_text(entry.get("ai_response"))),
        ]
    else:
        role = _ROLES.get(str(entry["role"]).lower())
        spoken = [(role, content_text(entry["content"]))] if role else []
    return [(role, text) for role, text in spoken if text]


def _name(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _time(entry: Mapping[str, Any]) -> datetime | None:
    """The timestamp, which may be a time of day beside a date."""
    stamp, date = entry.get("timestamp"), entry.get("date")
    return read_time(stamp) or read_time(f"{date}T{stamp}") or read_time(date)


def _in_order(entries: Iterable[list[_Said]]) -> list[list[_Said]]:
    """Oldest first by time and turn number; entries that tell neither keep the list's order, read from its old end."""
    found = [entry for entry in entries if entry]
    epoch = datetime.min.replace(tzinfo=UTC)
    ends = [(entry[0].at or epoch, entry[0].turn, entry[0].message.role != "user") for entry in found[:1] + found[-1:]]
    if ends != sorted(ends):
        found.reverse()
    moments: list[tuple[datetime, int]] = []
    for entry in found:
        # An entry without a time stays behind the one before it.
        latest = moments[-1][0] if moments else epoch
        moments.append((entry[0].at or latest, entry[0].turn))
    return [found[place] for place in sorted(range(len(found)), key=moments.__getitem__)]
