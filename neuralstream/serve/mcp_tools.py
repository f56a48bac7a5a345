"""The tools and the prompt of the MCP server. Their docstrings are what a model reads to choose among them.

Whose memory it is comes from the connection, never from an argument: no tool can name another user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from mcp.server.mcpserver import Context  # noqa: TC002 - the server finds the parameter by its type
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from neuralstream.clock import parse_time
from neuralstream.errors import InputError, NotFoundError
from neuralstream.extract.transcript import fence
from neuralstream.serve.exchanges import Exchange, Remembers, recent_exchanges
from neuralstream.serve.mcp_results import (
    ContextResult,
    ConversationExchange,
    Conversations,
    ConversationThread,
    ForgottenResult,
    Found,
    Remembered,
    ThemeItem,
    ThemesResult,
    ThreadTurn,
    shortened,
)
from neuralstream.types import ContextBlock, Gem, GemTag, Hit, Mode, Theme

if TYPE_CHECKING:
    from neuralstream.forgetting import Forgotten

__all__ = ["Memory", "MemoryTools"]

Since = Annotated[
    str | None,
    Field(description="nothing older: an age (12h, 7d, 2w) or a UTC date or time (2026-05-01, 2026-05-01T13:00Z)"),
]
Until = Annotated[
    str | None,
    Field(description="nothing newer: an age (7d) or a UTC date, all of that day included, or time"),
]
SessionId = Annotated[str, Field(min_length=1, description="a session_id that another tool gave")]
Query = Annotated[str, Field(min_length=1, description="what to look for, in a few words or as a question")]
Hits = Annotated[int, Field(ge=1, le=50, description="most hits")]

_AGE = re.compile(r"\s*(\d{1,5})\s*([mhdw])\s*")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAY = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")


class Memory(Remembers, Protocol):
    """What the tools ask of memory; `NeuralStream` answers it in this process, and a client from another one."""

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        k: int | None = None,
        user_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
        tags: Sequence[GemTag] = (),
    ) -> list[Hit]:
        """Turns and gems, best first."""
        ...

    def context(
        self,
        query: str,
        *,
        session_id: str | None = None,
        budget_tokens: int | None = None,
        user_id: str | None = None,
    ) -> ContextBlock:
        """What to put back before a prompt."""
        ...

    def themes(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> list[Theme]:
        """What conversations keep returning to."""
        ...

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[GemTag] = ("fact",),
        topics: Sequence[str] = (),
        importance: float = 0.8,
        user_id: str | None = None,
    ) -> Gem:
        """Keep a statement as a gem."""
        ...

    def gem(self, gem_id: str, *, user_id: str | None = None) -> Gem:
        """One gem."""
        ...

    def forget(
        self, *, gem_id: str | None = None, session_id: str | None = None, user_id: str | None = None
    ) -> Forgotten:
        """Remove a gem or a session, and prove it."""
        ...


class MemoryTools:
    """The tools, on one memory.

    Args:
        memory: what they ask.
        user_of: whose memory a call is about; None is the memory's own user.
        clock: what ages such as "7d" count back from, aware UTC.
    """

    def __init__(self, memory: Memory, user_of: Callable[[Context], str | None], clock: Callable[[], datetime]) -> None:
        self._memory = memory
        self._user_of = user_of
        self._clock = clock

    # Reading.

    def recent_conversations(
        self,
        ctx: Context,
        limit: Annotated[int, Field(ge=1, le=200, description="most exchanges")] = 20,
        since: Since = None,
        until: Until = None,
    ) -> Conversations:
        """What was said lately: the newest exchanges over all conversations, newest first, whatever they are about.

        Use it for all that is asked by time: "recent", "lately", "this week", "yesterday", "last time", "what did we
        talk about?", "summarise our conversations", "what have I been working on?". Give `since` (and `until`) for a
        span, and raise `limit` to cover all of it. For a subject, whenever it came up, use search_memory.
        """
        found = recent_exchanges(
            self._memory,
            limit,
            since=self._moment("since", since),
            until=self._moment("until", until),
            user_id=self._user_of(ctx),
        )
        return Conversations(exchanges=[ConversationExchange.of(exchange) for exchange in found])

    def search_memory(  # noqa: PLR0917 - a tool's arguments are named
        self,
        ctx: Context,
        query: Query,
        limit: Hits = 10,
        since: Since = None,
        until: Until = None,
        session_id: Annotated[str | None, Field(min_length=1, description="only this conversation")] = None,
        tags: Annotated[list[GemTag] | None, Field(description="only gems with any of these tags")] = None,
    ) -> Found:
        """Find what was said or decided about a subject, whenever that was: turns and distilled statements, best first.

        The first choice for names, numbers, errors, files, decisions and questions of fact ("which port does redis
        use?", "what did Mira decide about billing?"): it weighs words, meaning and connections together. Search is for
        a subject, not a time: for "recent" or "lately" use recent_conversations; to bound a subject in time, `since`.
        """
        return self._search(ctx, query, limit, since, until, session_id=session_id, tags=tags or ())

    def semantic_search(
        self, ctx: Context, query: Query, limit: Hits = 10, since: Since = None, until: Until = None
    ) -> Found:
        """Find what is close in meaning, though said in other words. Best first; there is always something closest.

        Use it when search_memory missed because the wording is unknown or vague ("that problem with slow pages", "how I
        felt about the move"). It is weak on exact names, numbers and identifiers: use search_memory for those.
        """
        return self._search(ctx, query, limit, since, until, mode="semantic")

    def recall(
        self,
        ctx: Context,
        query: Annotated[str, Field(min_length=1, description="the user's message, as it is")],
        budget_tokens: Annotated[
            int | None, Field(ge=64, le=20_000, description="longest text, in tokens; unset: the configured budget")
        ] = None,
    ) -> ContextResult:
        """Get one ready-made block of everything relevant to the user's message, dated, within a token budget.

        Call it before answering where earlier conversations may matter: the user's preferences, plans, people,
        projects, or a reference to something said before. To look at single hits and their ids, use search_memory.
        """
        return ContextResult.of(self._memory.context(query, budget_tokens=budget_tokens, user_id=self._user_of(ctx)))

    def conversation_thread(
        self,
        ctx: Context,
        session_id: SessionId,
        from_index: Annotated[int, Field(ge=0, description="the first turn's index")] = 0,
        limit: Annotated[int, Field(ge=1, le=200, description="most turns")] = 30,
    ) -> ConversationThread:
        """Read one conversation in full and in order, from a turn on.

        Use it after another tool gave a session_id and an index, to see what was said around a hit (start a few turns
        before it) or where a listing was cut.
        """
        turns = self._memory.thread(session_id, user_id=self._user_of(ctx))
        if not turns:
            raise ToolError(_no_session(session_id))
        left = [turn for turn in turns if (turn.index or 0) >= from_index]
        return ConversationThread(
            session_id=session_id,
            turns=[ThreadTurn.of(turn) for turn in left[:limit]],
            total_turns=len(turns),
            next_index=left[limit].index if len(left) > limit else None,
        )

    def themes(
        self,
        ctx: Context,
        since: Since = None,
        until: Until = None,
        limit: Annotated[int, Field(ge=1, le=30, description="most themes")] = 8,
    ) -> ThemesResult:
        """Get what conversations keep returning to: subjects with their size, span, typical turns and statements.

        Use it for patterns over a long time ("what am I mostly working on?", "what have we discussed this year?"). For
        a few days, recent_conversations is exact and better.
        """
        found = self._memory.themes(
            since=self._moment("since", since),
            until=self._moment("until", until),
            limit=limit,
            user_id=self._user_of(ctx),
        )
        return ThemesResult(themes=[ThemeItem.of(theme) for theme in found])

    # Writing.

    def remember(
        self,
        ctx: Context,
        text: Annotated[
            str, Field(min_length=1, description="one statement that is clear on its own, names written out")
        ],
        tags: Annotated[list[GemTag] | None, Field(description="what it is; unset: fact")] = None,
        topics: Annotated[list[str] | None, Field(description="a few words it belongs under")] = None,
        importance: Annotated[float, Field(ge=0, le=1, description="how much it matters later")] = 0.8,
    ) -> Remembered:
        """Keep one statement for all later conversations, at once.

        Use it when the user asks to remember something, or settles something that must not be lost. Conversations are
        captured anyway: do not copy them here. No passwords or keys.
        """
        gem = self._memory.remember(
            text, tags=tags or ("fact",), topics=topics or (), importance=importance, user_id=self._user_of(ctx)
        )
        return Remembered.of(gem)

    def forget(
        self,
        ctx: Context,
        gem_id: Annotated[str | None, Field(min_length=1, description="forget this statement")] = None,
        session_id: Annotated[str | None, Field(min_length=1, description="forget this whole conversation")] = None,
    ) -> ForgottenResult:
        """Remove one statement or one whole conversation for good, and prove that it is gone. It cannot be undone.

        Only when the user asks for it. It takes one id that another tool gave, never a search: find the item first, and
        where more than one could be meant, ask. The turns that a statement was distilled from stay; to remove them too,
        forget their conversation.
        """
        user = self._user_of(ctx)
        if gem_id is not None and session_id is None:
            return self._forget_gem(gem_id, user)
        if session_id is not None and gem_id is None:
            return self._forget_session(session_id, user)
        raise ToolError("give exactly one of gem_id and session_id; search_memory gives both kinds of id")

    # The prompt.

    def summarise_recent_themes(
        self,
        ctx: Context,
        since: Annotated[str, Field(description="how far back: 7d, 2w, or a date such as 2026-05-01")] = "7d",
        limit: Annotated[int, Field(ge=1, le=200, description="most exchanges")] = 50,
    ) -> str:
        """Summarise what was talked about lately, by theme, from the newest exchanges."""
        user = self._user_of(ctx)
        found = recent_exchanges(self._memory, limit, since=self._moment("since", since), until=None, user_id=user)
        if not found:
            return f"Tell the user that memory holds no conversation since {since}. Do not make anything up."
        asked = (
            f"Below are the {len(found)} newest exchanges since {since}, oldest first. Group them into their main "
            "themes, the most present first. For each theme say in one to three sentences what was discussed, decided "
            "or found, what changed, and what is still open, with dates; cite the exchanges you rely on as "
            "[session_id #index]. Use nothing but what stands there."
        )
        return f"{asked}\n\n{fence([_line(exchange) for exchange in reversed(found)])}"

    # Helpers.

    def _search(
        self,
        ctx: Context,
        query: str,
        limit: int,
        since: str | None,
        until: str | None,
        *,
        mode: Mode | None = None,
        session_id: str | None = None,
        tags: Sequence[GemTag] = (),
    ) -> Found:
        hits = self._memory.search(
            query,
            mode=mode,
            k=limit,
            since=self._moment("since", since),
            until=self._moment("until", until),
            session_id=session_id,
            tags=tuple(tags),
            user_id=self._user_of(ctx),
        )
        return Found.of(hits)

    def _forget_gem(self, gem_id: str, user: str | None) -> ForgottenResult:
        try:
            gem = self._memory.gem(gem_id, user_id=user)
        except NotFoundError as error:
            raise ToolError(
                f"there is no one gem {gem_id!r} and nothing was removed; search_memory gives the ids of gems"
            ) from error
        done = self._memory.forget(gem_id=gem.gem_id, user_id=user)
        return _forgotten(done, kind="gem", item_id=gem.gem_id, text=gem.content)

    def _forget_session(self, session_id: str, user: str | None) -> ForgottenResult:
        turns = self._memory.thread(session_id, user_id=user)
        if not turns:
            raise ToolError(f"{_no_session(session_id)}; nothing was removed")
        done = self._memory.forget(session_id=session_id, user_id=user)
        return _forgotten(done, kind="session", item_id=session_id, text=turns[0].transcript)

    def _moment(self, name: str, text: str | None) -> datetime | None:
        """A time as a model writes it.

        Raises:
            ToolError: it is none.
        """
        if text is None or not text.strip():
            return None
        try:
            if age := _AGE.fullmatch(text):
                return self._clock() - timedelta(**{_UNITS[age[2]]: int(age[1])})
            moment = parse_time(text)
        except InputError:
            now = self._clock()
            raise ToolError(
                f"{name}={text!r} is not a time; write an age such as 12h, 7d or 2w, or a date such as {now:%Y-%m-%d} "
                f"or {now:%Y-%m-%dT%H:%MZ} (it is {now:%A %Y-%m-%d %H:%M} UTC now)"
            ) from None
        if name == "until" and _DAY.fullmatch(text):
            return datetime.combine(moment.date(), time.max, UTC)
        return moment


def _forgotten(done: Forgotten, *, kind: Literal["gem", "session"], item_id: str, text: str) -> ForgottenResult:
    return ForgottenResult(
        kind=kind, id=item_id, text=shortened(text, 200), turns=done.turns, gems=done.gems, proved=done.proved
    )


def _no_session(session_id: str) -> str:
    return f"there is no conversation {session_id!r}; recent_conversations and search_memory give a session_id"


def _line(exchange: Exchange) -> str:
    """An exchange as the prompt shows it; what goes over several lines is indented, so that it passes for no other."""
    first = exchange.turns[0]
    said = "\n".join(shortened(text) for text in (f"Q: {exchange.q}", f"A: {exchange.a}"))
    return f"[{first.session_id} #{first.index or 0}] {exchange.ended_at:%a %Y-%m-%d %H:%M}\n" + indent(said, "  ")
