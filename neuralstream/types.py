"""The nouns: turns, gems, hits and what surrounds them. All frozen; all times aware UTC.

Every type that is stored has `to_dict` and `from_dict`, inverse to each other, with ISO 8601 times.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from neuralstream.clock import iso_time, parse_time
from neuralstream.errors import InputError

__all__ = [
    "DEFAULT_USER",
    "ContextBlock",
    "EndReason",
    "Gem",
    "GemTag",
    "Hit",
    "Lane",
    "Mode",
    "Part",
    "Role",
    "Source",
    "Status",
    "Summary",
    "Theme",
    "Turn",
    "Usage",
    "checked_reason",
    "checked_tags",
    "checked_turn",
    "checked_usage",
    "parse_time",
]

Role = Literal["user", "assistant", "tool", "person"]
"""Who speaks: a user and an assistant (with its tools), or a person among people."""

Lane = Literal["turns", "gems", "all"]
"""What is searched: raw turns, gems, or gems together with the turns that no gem covers."""

Mode = Literal["substring", "bm25", "semantic", "graph", "hybrid"]
"""How it is ranked."""

EndReason = Literal["end", "reset", "compaction", "shutdown"]
"""Why what is left of a session is distilled: it ended, was reset, is about to be compacted, or memory closes."""

GemTag = Literal["decision", "fact", "preference", "todo", "code"]

DEFAULT_USER = "default"
_LISTS = ("source_turns", "topics", "tags", "entities", "supersedes", "merged", "evidence", "questions")
"""Fields of a gem that hold several."""
_GEM_NAMESPACE = uuid.UUID("6f1d7a52-8c0e-5b3a-9d64-4e2f0a7c1b90")


@dataclass(frozen=True, slots=True)
class Part:
    """One message inside a turn. `speaker` is a name where the log has one."""

    role: Role
    text: str
    speaker: str | None = None

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InputError(f"role {self.role!r} is unknown; use one of {', '.join(get_args(Role))}")
        if not isinstance(self.text, str) or not isinstance(self.speaker, str | None):
            raise InputError(f"a part's text and speaker are text, got {self.text!r} and {self.speaker!r}")

    @property
    def label(self) -> str:
        """What a transcript writes before the colon."""
        return self.speaker or self.role


@dataclass(frozen=True, slots=True)
class Turn:
    """The unit that is captured, stored and counted: one exchange, or one utterance.

    Attributes:
        parts: what was said, in order.
        session_id: the conversation it belongs to.
        turn_id: stable; reading the same log twice gives the same ids.
        user_id: whose memory it is.
        index: position within the session, from 0; None until captured, when the buffer assigns the next one.
        created_at: aware UTC; None until captured, when the clock's time is taken.
        time_estimated: the log had no time for it.
        source: where it was read from, for people to look up ("openclaw:/path#12").
    """

    parts: tuple[Part, ...]
    session_id: str
    turn_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    user_id: str = DEFAULT_USER
    index: int | None = None
    created_at: datetime | None = None
    time_estimated: bool = False
    source: str | None = None

    def __post_init__(self) -> None:
        for name in ("session_id", "turn_id", "user_id"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"a turn's {name} must be a non-empty string, got {value!r}")
        if self.index is not None and self.index < 0:
            raise InputError(f"a turn's index counts from 0, got {self.index}")
        if self.created_at is not None:
            object.__setattr__(self, "created_at", parse_time(self.created_at))
        object.__setattr__(self, "parts", tuple(self.parts))

    @classmethod
    def exchange(cls, user: str, assistant: str, *, session_id: str, tools: Sequence[str] = (), **fields: Any) -> Turn:
        """One user message and the reply to it, the tool calls between them as one line each."""
        parts = (Part("user", user), *(Part("tool", tool) for tool in tools), Part("assistant", assistant))
        return cls(parts=tuple(part for part in parts if part.text), session_id=session_id, **fields)

    @classmethod
    def utterance(cls, speaker: str, text: str, *, session_id: str, role: Role = "person", **fields: Any) -> Turn:
        """One thing one person said."""
        return cls(parts=(Part(role, text, speaker),), session_id=session_id, **fields)

    @property
    def text(self) -> str:
        """All parts' text, without speakers."""
        return "\n".join(part.text for part in self.parts)

    @property
    def transcript(self) -> str:
        """All parts as `speaker: text` lines."""
        return "\n".join(f"{part.label}: {part.text}" for part in self.parts)

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of the people who speak in it, in order, each once."""
        return tuple(dict.fromkeys(part.speaker for part in self.parts if part.speaker))

    def at(self) -> datetime:
        """`created_at` of a captured turn.

        Raises:
            InputError: the turn has no time yet because it was not captured.
        """
        if self.created_at is None:
            raise InputError(f"turn {self.turn_id} has no created_at yet; capture() assigns it")
        return self.created_at

    def with_parts(self, parts: Sequence[Part]) -> Turn:
        """The same turn saying something else (cleaned, redacted)."""
        return replace(self, parts=tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "turn_id": self.turn_id,
            "session_id": self.session_id,
            "index": self.index,
            "user_id": self.user_id,
            "created_at": _iso(self.created_at),
            "time_estimated": self.time_estimated,
            "parts": [
                {"role": part.role, "text": part.text} | ({"speaker": part.speaker} if part.speaker else {})
                for part in self.parts
            ],
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Turn:
        """Inverse of `to_dict`.

        Raises:
            InputError: a key is missing or of the wrong shape; the message names it.
        """
        try:
            return cls(
                parts=tuple(Part(p["role"], p["text"], p.get("speaker")) for p in data["parts"]),
                session_id=data["session_id"],
                turn_id=data["turn_id"],
                user_id=data.get("user_id", DEFAULT_USER),
                index=data.get("index"),
                created_at=None if data.get("created_at") is None else parse_time(data["created_at"]),
                time_estimated=bool(data.get("time_estimated", False)),
                source=data.get("source"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"not a turn: {type(error).__name__} {error} in {str(data)[:120]}; write it as Turn.to_dict does"
            ) from error


@dataclass(frozen=True, slots=True)
class Usage:
    """How full the model's context is after a turn.

    Attributes:
        percent: 0 to 100, or None where the host does not know (right after a compaction); None never fires a trigger.
        tokens: tokens in the context, or None.
        context_window: tokens the model can hold, or None.
    """

    percent: float | None = None
    tokens: int | None = None
    context_window: int | None = None

    def __post_init__(self) -> None:
        if self.percent is None and self.tokens is not None and self.context_window:
            object.__setattr__(self, "percent", 100.0 * self.tokens / self.context_window)
        if self.percent is not None and not (isinstance(self.percent, int | float) and 0 <= self.percent <= 1000):
            raise InputError(f"usage percent is on a scale of 0 to 100, got {self.percent!r}; unknown is None")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a gem comes from, in the seed's own terms.

    Attributes:
        session_id: the session its turns belong to.
        date: `YYYY-MM-DD` of the first source turn, UTC.
        turn_range: first and last source turn's index, such as "15-20".
    """

    session_id: str
    date: str
    turn_range: str


@dataclass(frozen=True, slots=True)
class Gem:
    """A distilled memory: one self-contained statement and the turns it came from.

    Attributes:
        importance, confidence: 0 to 1.
        source_turns: ids of the turns that state it, as few as possible.
        evidence: ids of every turn that says the same, `source_turns` included.
        created_at: time of the last turn of the batch it was distilled from, so that a replay equals the live run.
        valid_from, valid_until: when the statement holds; `valid_until` is None while it does.
        supersedes: ids of the gems it replaced, because they say what holds no more.
        merged: ids of the gems that said the same and are part of it now.
        status: "active", or "superseded" once a newer gem replaced it or said the same more fully.
        questions: what it would answer; it is found by their words too, and they are never shown.
        model, prompt, embedder: what made it.
    """

    gem_id: str
    content: str
    source: Source
    source_turns: tuple[str, ...]
    created_at: datetime
    user_id: str = DEFAULT_USER
    summary: str = ""
    topics: tuple[str, ...] = ()
    tags: tuple[GemTag, ...] = ("fact",)
    importance: float = 0.5
    confidence: float = 1.0
    entities: tuple[str, ...] = ()
    context: str = ""
    snippet: str = ""
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    supersedes: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    status: Literal["active", "superseded"] = "active"
    evidence: tuple[str, ...] = ()
    model: str = ""
    prompt: str = ""
    embedder: str = ""
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.content.strip():
            raise InputError(f"gem {self.gem_id} has no content; let it say something")
        for name in ("importance", "confidence"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"a gem's {name} lies between 0 and 1, got {getattr(self, name)}")
        checked_tags(self.tags)
        if not self.evidence:
            object.__setattr__(self, "evidence", self.source_turns)

    @staticmethod
    def make_id(user_id: str, session_id: str, source_turns: Sequence[str], content: str) -> str:
        """UUIDv5 of user, session, source turns and content: the same gem made twice is one gem."""
        return str(uuid.uuid5(_GEM_NAMESPACE, "\x1f".join((user_id, session_id, *source_turns, "", content))))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping in the seed format plus the fields this version adds."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["source"] = {name: getattr(self.source, name) for name in Source.__slots__}
        for name, value in plain.items():
            if isinstance(value, tuple):
                plain[name] = list(value)
            elif isinstance(value, datetime):
                plain[name] = _iso(value)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Gem:
        """Inverse of `to_dict`; keys that a later version added are ignored.

        Raises:
            InputError: a key is missing or of the wrong shape.
        """
        try:
            known = {name: data[name] for name in cls.__slots__ if name in data}
            known["source"] = Source(**{name: data["source"][name] for name in Source.__slots__})
            for name in ("created_at", "valid_from", "valid_until"):
                if known.get(name) is not None:
                    known[name] = parse_time(known[name])
            for name in _LISTS:
                if name in known:
                    known[name] = tuple(known[name])
            return cls(**known)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"not a gem: {type(error).__name__} {error} in {str(data)[:120]}; write it as Gem.to_dict does"
            ) from error


@dataclass(frozen=True, slots=True)
class Hit:
    """What retrieval returns: a turn or a gem, its score, and the score of every signal that made it."""

    item: Turn | Gem
    score: float
    signals: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The turn's or gem's id."""
        return self.item.turn_id if isinstance(self.item, Turn) else self.item.gem_id

    @property
    def kind(self) -> Literal["turn", "gem"]:
        """Which of the two it is."""
        return "turn" if isinstance(self.item, Turn) else "gem"

    @property
    def text(self) -> str:
        """What it says."""
        return self.item.transcript if isinstance(self.item, Turn) else self.item.content

    @property
    def turn_ids(self) -> tuple[str, ...]:
        """The turns it stands for: itself, or a gem's source turns."""
        return (self.item.turn_id,) if isinstance(self.item, Turn) else self.item.source_turns

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {
            "id": self.id,
            "kind": self.kind,
            "score": self.score,
            "signals": dict(self.signals),
            self.kind: self.item.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """What is put back into a context: the fenced text, its size in tokens, and the hits inside, oldest first."""

    text: str
    tokens: int
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Theme:
    """A recurring subject.

    Attributes:
        name: its most distinctive terms, joined.
        terms: distinctive terms as people wrote them, best first.
        size: how many turns belong to it.
        first_at, last_at: its span in time.
        exemplars: the most central turns, best first.
        turn_ids: every turn of it, oldest first.
        gems: the most telling gems, best first.
        gem_ids: every gem of it, oldest first.
        summary: one line by a language model, with turn ids in brackets; empty where none was asked.
    """

    name: str
    terms: tuple[str, ...]
    size: int
    first_at: datetime
    last_at: datetime
    exemplars: tuple[Turn, ...]
    turn_ids: tuple[str, ...]
    gems: tuple[Gem, ...] = ()
    gem_ids: tuple[str, ...] = ()
    summary: str = ""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping; exemplars and the most telling gems in full, the others by id."""
        return {
            "name": self.name,
            "terms": list(self.terms),
            "size": self.size,
            "first_at": _iso(self.first_at),
            "last_at": _iso(self.last_at),
            "exemplars": [turn.to_dict() for turn in self.exemplars],
            "turn_ids": list(self.turn_ids),
            "gems": [gem.to_dict() for gem in self.gems],
            "gem_ids": list(self.gem_ids),
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """What was talked about in a range of time.

    Attributes:
        text: a few sentences by a language model, with turn ids in brackets; empty where it failed or there is nothing.
        themes: what they are made of, largest first, each with a line of its own.
    """

    text: str
    themes: tuple[Theme, ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping."""
        return {"summary": self.text, "themes": [theme.to_dict() for theme in self.themes]}


class Status(NamedTuple):
    """How much is where. `undistilled` and `unindexed` count turns that wait; the rest is stored."""

    turns: int
    gems: int
    sessions: int
    undistilled: int
    unindexed: int
    batches_waiting: int
    batches_done: int
    dead_letters: int


def checked_turn(given: object) -> Turn:
    """What is given, where it is a turn.

    Raises:
        InputError: it is a text or a dict, say.
    """
    if not isinstance(given, Turn):
        raise InputError(
            f"a turn is a Turn, got the {type(given).__name__} {str(given)[:80]!r}; "
            "Turn.exchange(message, reply, session_id=...) makes one"
        )
    return given


def checked_reason(given: object) -> EndReason:
    """What is given, where it is a reason.

    Raises:
        InputError: no session ends so.
    """
    reasons: tuple[EndReason, ...] = get_args(EndReason)
    for reason in reasons:
        if given == reason:
            return reason
    raise InputError(f"reason {given!r} is unknown; use one of {', '.join(reasons)}")


def checked_tags(given: Sequence[str]) -> tuple[GemTag, ...]:
    """What is given, where all of it are tags.

    Raises:
        InputError: it is a bare text, or a tag is unknown.
    """
    tags: tuple[GemTag, ...] = get_args(GemTag)
    if isinstance(given, str):
        raise InputError(f"tags are a list, got {given!r}; write [{given!r}]")
    unknown = [tag for tag in given if tag not in tags]
    if unknown:
        raise InputError(f"unknown gem tag {unknown}; use {', '.join(tags)}")
    return tuple(tag for one in given for tag in tags if tag == one)


def checked_usage(given: object) -> Usage | None:
    """What is given, where it is a usage, or unknown.

    Raises:
        InputError: it is a bare number, say.
    """
    if not isinstance(given, Usage | None):
        raise InputError(
            f"usage is a Usage, got {str(given)[:80]!r}; write Usage(percent=52), or None where it is unknown"
        )
    return given


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_time(moment)
