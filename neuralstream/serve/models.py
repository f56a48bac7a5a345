"""The JSON of the HTTP routes: what they take, and what they answer. `docs/http.md` shows each."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from neuralstream.types import EndReason, GemTag, Lane, Mode, Part, Role, Turn, Usage

__all__ = [
    "Captured",
    "ContextAsked",
    "ContextBlockOut",
    "Correction",
    "DeadLetterOut",
    "DeadLetters",
    "EntityOut",
    "ErrorOut",
    "Fired",
    "ForgetAsked",
    "ForgottenOut",
    "GemDetail",
    "GemOut",
    "Gems",
    "HitOut",
    "Hits",
    "Queued",
    "RememberAsked",
    "SearchAsked",
    "SessionEnded",
    "SessionOut",
    "Sessions",
    "StatusOut",
    "Themes",
    "Thread",
    "TurnEnded",
    "TurnOut",
    "TurnsIn",
]

MOST_TURNS = 1000
"""Turns in one request."""


class _Closed(BaseModel):
    """A name that is none of its is refused, so that a misspelt one does not go unnoticed."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _knows_every_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := data.keys() - cls.model_fields.keys()):
            raise ValueError(f"there is no {', '.join(sorted(unknown))[:200]} here, but {', '.join(cls.model_fields)}")
        return data


class _Asked(_Closed):
    """A request about somebody's memory."""

    user_id: str | None = Field(None, min_length=1, description="whose memory; with tokens, only the token's user")


class PartIn(_Closed):
    """One message."""

    role: Role
    text: str
    speaker: str | None = None


class TurnIn(_Asked):
    """A turn: an exchange as `user`, `assistant` and `tools`, or any messages as `parts`."""

    session_id: str = Field(min_length=1)
    turn_id: str | None = Field(None, min_length=1, description="the same id is kept once; unset: a random one")
    user: str | None = None
    assistant: str | None = None
    tools: list[str] = Field(default_factory=list, description="a line for each tool call between the two")
    parts: list[PartIn] = Field(default_factory=list)
    created_at: datetime | None = Field(None, description="unset: now")
    time_estimated: bool = Field(False, description="the log it is from had no time for it")
    source: str | None = Field(None, description="where it can be looked up")

    @model_validator(mode="after")
    def _says_something_once(self) -> Self:
        if bool(self.parts) == (self.user is not None or self.assistant is not None or bool(self.tools)):
            raise ValueError("give either parts, or user and assistant")
        return self

    def turn(self, user_id: str) -> Turn:
        """The turn, of a user."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in ("created_at", "time_estimated", "source")} | {
            "user_id": user_id
        }
        if self.turn_id is not None:
            fields["turn_id"] = self.turn_id
        if self.parts:
            parts = tuple(Part(part.role, part.text, part.speaker) for part in self.parts)
            return Turn(parts, self.session_id, **fields)
        return Turn.exchange(
            self.user or "", self.assistant or "", session_id=self.session_id, tools=self.tools, **fields
        )


class TurnsIn(_Closed):
    """Turns to keep, in order."""

    turns: list[TurnIn] = Field(min_length=1, max_length=MOST_TURNS)


class CapturedTurn(BaseModel):
    """A turn that is kept now."""

    turn_id: str
    new: bool = Field(description="false: it was known, or nothing is left of it after cleaning")


class Captured(BaseModel):
    """Each turn, in the order they were sent, and how many are new."""

    new: int
    turns: list[CapturedTurn]


class UsageIn(_Closed):
    """How full the model's context is: a percent, or tokens of a window. Unknown is null."""

    percent: float | None = None
    tokens: int | None = Field(None, ge=0)
    context_window: int | None = Field(None, gt=0)

    def usage(self) -> Usage:
        """The core's own."""
        return Usage(self.percent, self.tokens, self.context_window)


class TurnEnded(_Asked):
    """A turn is over, and this is how full the context is."""

    session_id: str = Field(min_length=1)
    usage: UsageIn | None = None
    turn_id: str | None = Field(None, description="the turn it was measured after; reported twice, it counts once")


class Fired(BaseModel):
    """Whether `context_threshold` was crossed, and everything undistilled is due now."""

    fired: bool


class SessionEnded(_Asked):
    """Why everything undistilled of a session is due now."""

    reason: EndReason = "end"


class Queued(BaseModel):
    """How many turns or batches are due now."""

    queued: int


class ContextAsked(_Asked):
    """What is to be put back before the next prompt."""

    query: str = Field(description="the last message of the user")
    session_id: str | None = None
    window: list[str] | None = Field(
        None, description="ids of turns the context still holds; unset: taken from the session"
    )
    budget_tokens: int | None = Field(None, ge=0)
    max_gems: int | None = Field(None, ge=0)
    as_of: datetime | None = None


class SearchAsked(_Asked):
    """What is looked for; what is unset is the settings'."""

    query: str
    mode: Mode | None = None
    k: int | None = Field(None, ge=1, le=1000)
    lane: Lane | None = None
    since: datetime | None = None
    until: datetime | None = None
    session_id: str | None = None
    tags: list[GemTag] = Field(default_factory=list)
    exclude_turns: list[str] = Field(default_factory=list)
    explain: bool = False
    as_of: datetime | None = None


class RememberAsked(_Asked):
    """A statement to keep as a gem."""

    text: str
    tags: tuple[GemTag, ...] = Field(("fact",), min_length=1)
    topics: list[str] = Field(default_factory=list)
    importance: float = Field(0.8, ge=0, le=1)


class Correction(_Asked):
    """What a gem is to say."""

    content: str


class ForgetAsked(_Asked):
    """What is to be removed: exactly one of them."""

    gem_id: str | None = None
    session_id: str | None = None
    before: datetime | None = None
    everything: bool = Field(False, description="all of the user's memory")

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        named = [self.gem_id is not None, self.session_id is not None, self.before is not None, self.everything]
        if sum(named) != 1:
            raise ValueError("name exactly one of gem_id, session_id, before and everything")
        return self


class PartOut(BaseModel):
    """One message of a turn."""

    role: Role
    text: str
    speaker: str | None = None


class TurnOut(BaseModel):
    """A turn, as `Turn.to_dict` has it."""

    turn_id: str
    session_id: str
    index: int | None
    user_id: str
    created_at: datetime | None
    time_estimated: bool
    parts: list[PartOut]
    source: str | None


class SourceOut(BaseModel):
    """Where a gem comes from."""

    session_id: str
    date: str
    turn_range: str


class GemOut(BaseModel):
    """A gem, as `Gem.to_dict` has it."""

    gem_id: str
    content: str
    source: SourceOut
    source_turns: list[str]
    created_at: datetime
    user_id: str
    summary: str
    topics: list[str]
    tags: list[GemTag]
    importance: float
    confidence: float
    entities: list[str]
    context: str
    snippet: str
    valid_from: datetime | None
    valid_until: datetime | None
    supersedes: list[str]
    merged: list[str]
    status: Literal["active", "superseded"]
    evidence: list[str]
    model: str
    prompt: str
    embedder: str
    questions: list[str]


class HitOut(BaseModel):
    """A turn or a gem that was found, its score, and what every signal gave it."""

    id: str
    kind: Literal["turn", "gem"]
    score: float
    signals: dict[str, float]
    turn: TurnOut | None = None
    gem: GemOut | None = None


class Hits(BaseModel):
    """Hits in order."""

    hits: list[HitOut]


class ContextBlockOut(BaseModel):
    """The fenced block, its size, and the hits in it, oldest first."""

    text: str
    tokens: int
    hits: list[HitOut]


class SessionOut(BaseModel):
    """A session at a glance."""

    session_id: str
    turns: int
    gems: int
    undistilled: int
    first_at: datetime | None
    last_at: datetime | None


class Sessions(BaseModel):
    """Sessions, the latest first."""

    sessions: list[SessionOut]


class Thread(BaseModel):
    """A whole session: its turns, oldest first, and the gems distilled from it that hold."""

    session_id: str
    turns: list[TurnOut]
    gems: list[GemOut]


class ThemeOut(BaseModel):
    """A recurring subject, as `Theme.to_dict` has it."""

    name: str
    terms: list[str]
    size: int
    first_at: datetime
    last_at: datetime
    exemplars: list[TurnOut]
    turn_ids: list[str]
    gems: list[GemOut]
    gem_ids: list[str]
    summary: str


class Themes(BaseModel):
    """Themes, largest first, and a few sentences about all where they were asked for."""

    summary: str = ""
    themes: list[ThemeOut]


class Gems(BaseModel):
    """Gems, newest first."""

    gems: list[GemOut]


class VersionOut(BaseModel):
    """One version of a gem, by what it was replaced, and the turns that say it."""

    gem: GemOut
    replaced_by: list[str]
    evidence: list[TurnOut]


class GemDetail(BaseModel):
    """A gem, the turns it was distilled from that are still kept, and its versions where they were asked for."""

    gem: GemOut
    turns: list[TurnOut]
    versions: list[VersionOut] | None = None


class ForgottenOut(BaseModel):
    """What was removed, and what was asked again to prove it."""

    what: str
    turns: int
    gems: int
    sessions: int
    buffered: int
    vectors: int
    answers: int
    rewritten: list[str]
    checks: dict[str, bool]
    proved: bool


class DeadLetterOut(BaseModel):
    """A batch that could not be distilled."""

    batch_id: str
    user_id: str
    session_id: str
    reason: str
    turns: list[TurnOut]
    answer: str | None


class DeadLetters(BaseModel):
    """Dead letters, oldest first."""

    dead_letters: list[DeadLetterOut]


class NeighbourOut(BaseModel):
    """Something named together with an entity, and how often."""

    name: str
    together: int


class EntityOut(BaseModel):
    """The gems and turns that name an entity, newest first, and what they name beside it."""

    name: str
    gems: list[GemOut]
    turns: list[TurnOut]
    neighbours: list[NeighbourOut]


class StatusOut(BaseModel):
    """How much of a user is where."""

    user_id: str
    turns: int
    gems: int
    sessions: int
    undistilled: int
    unindexed: int
    dead_letters: int


class ErrorDetail(BaseModel):
    """What went wrong: its class, and what to do."""

    type: str
    message: str


class ErrorOut(BaseModel):
    """Every answer that is not 2xx."""

    error: ErrorDetail
