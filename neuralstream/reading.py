"""What an agent asks of memory: search, recent, thread, themes, context, and gems. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from neuralstream.capture.records import SessionKey
from neuralstream.clock import Clock, parse_time
from neuralstream.errors import InputError
from neuralstream.types import ContextBlock, Gem, GemTag, Hit, Lane, Mode, Theme, Turn, checked_tags

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.history import Version
    from neuralstream.parts import Parts
    from neuralstream.types import Summary

__all__ = ["ReadableMemory"]


class ReadableMemory:
    """The half of `NeuralStream` that reads.

    Attributes:
        settings: what was opened.
        parts: the rooms it is made of.
    """

    settings: Settings
    parts: Parts
    _clock: Clock

    def search(
        self,
        query: str,
        *,
        mode: Mode | None = None,
        k: int | None = None,
        lane: Lane | None = None,
        user_id: str | None = None,
        as_of: datetime | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
        tags: Sequence[GemTag] = (),
        exclude_turns: Sequence[str] = (),
        explain: bool = False,
    ) -> list[Hit]:
        """The `k` most relevant turns and gems, best first; those not indexed or distilled yet included.

        Args:
            query: what is looked for.
            mode, k, lane: None is the settings'.
            user_id: whose memory; None is the settings' user.
            as_of: nothing created later is found; None is now.
            since, until: only what was created within this closed range.
            session_id: only this session.
            tags: only gems with any of these tags.
            exclude_turns: turn ids that are not returned.
            explain: compute every signal, those with weight 0 too.

        Raises:
            InputError: mode, lane, k or a tag is unknown.
        """
        from neuralstream.retrieve import Query

        user, chosen = self._user(user_id), self.settings.retrieval
        pending = self.parts.buffer.pending(user)
        return self.parts.retriever.search(
            Query(
                text=query,
                user_id=user,
                as_of=self._moment(as_of, user, pending),
                mode=mode or chosen.mode,
                k=chosen.k if k is None else k,
                lane=lane or chosen.lane,
                since=_utc(since),
                until=_utc(until),
                session_id=session_id,
                tags=checked_tags(tags),
                exclude_turns=tuple(exclude_turns),
                pending=pending,
                explain=explain,
            )
        )

    def recent(
        self,
        limit: int = 20,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
        kind: Literal["turn", "gem"] = "turn",
        user_id: str | None = None,
        as_of: datetime | None = None,
    ) -> list[Hit]:
        """The newest turns, or gems that hold, newest first; a hit's score is its time in seconds since 1970.

        Args:
            limit: most hits.
            since, until: only what was created within this closed range.
            session_id: only this session.
            kind: turns or gems.
            user_id: whose memory; None is the settings' user.
            as_of: nothing created later, and the gems that held then; None is now.

        Raises InputError where the kind is unknown or the limit below 1.
        """
        from neuralstream.retrieve.recency import newest

        if kind not in {"turn", "gem"}:
            raise InputError(f"kind {kind!r} is unknown; use turn or gem")
        if limit < 1:
            raise InputError(f"limit is the number of hits and at least 1, got {limit}")
        user = self._user(user_id)
        pending = self.parts.buffer.pending(user)
        return newest(
            self.parts.store,
            user,
            limit,
            kind=kind,
            since=_utc(since),
            until=_utc(until),
            as_of=self._moment(as_of, user, pending),
            session_id=session_id,
            pending=pending,
        )

    def thread(self, session_id: str, *, user_id: str | None = None) -> list[Turn]:
        """A whole session, oldest turn first; empty where it is unknown."""
        from neuralstream.retrieve.recency import session_turns

        user = self._user(user_id)
        return session_turns(self.parts.store, user, session_id, pending=self.parts.buffer.pending(user))

    def themes(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> list[Theme]:
        """What the conversations keep returning to: turns and their gems, largest theme first, with exemplars.

        Of gems those that hold today, also where `until` lies in the past.
        """
        from neuralstream.retrieve.themes import find_themes

        if self.settings.worker == "inline":
            self.parts.worker.index_all()
        return find_themes(self.parts.store, self._user(user_id), since=_utc(since), until=_utc(until), limit=limit)

    def summary(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> Summary:
        """Themes told by the language model: a line for each, and a few sentences for all; one call each and one more.

        Where the model fails, the log says why and the themes come back with the lines there are; where none is
        configured, MissingPartError is raised.
        """
        from neuralstream.llm import make_language_model
        from neuralstream.retrieve.summary import summarise

        with make_language_model(self.settings) as model:
            return summarise(self.themes(since=since, until=until, limit=limit, user_id=user_id), model)

    def context(
        self,
        query: str,
        *,
        session_id: str | None = None,
        window: Sequence[str] | None = None,
        budget_tokens: int | None = None,
        max_gems: int | None = None,
        user_id: str | None = None,
        as_of: datetime | None = None,
    ) -> ContextBlock:
        """What to put back before the next prompt: gems and uncovered turns, by score, fenced as untrusted history.

        Args:
            query: the last message of the user.
            session_id: the active session, where there is one.
            window: ids of the turns that the context still holds; nothing is repeated from them. None takes the turns
                of the active session that no trigger has taken yet.
            budget_tokens: most tokens of the block; None is `context_budget`.
            max_gems: most gems; None is `max_gems_injected`.
            user_id: whose memory; None is the settings' user.
            as_of: None is the clock's time.
        """
        from neuralstream.inject import CANDIDATES, render_context

        if window is None:
            unplanned = self.parts.buffer.unplanned(self._session(session_id, user_id)) if session_id else ()
            window = [turn.turn_id for turn in unplanned]
        hits = self.search(query, k=CANDIDATES, lane="all", user_id=user_id, as_of=as_of, exclude_turns=window)
        return render_context(
            hits,
            query=query,
            window=window,
            budget_tokens=self.settings.context_budget if budget_tokens is None else budget_tokens,
            max_gems=self.settings.max_gems_injected if max_gems is None else max_gems,
        )

    def gems(
        self,
        *,
        session_id: str | None = None,
        tags: Sequence[GemTag] = (),
        status: Literal["active", "superseded"] | None = "active",
        limit: int | None = None,
        user_id: str | None = None,
    ) -> list[Gem]:
        """Gems, newest first."""
        from neuralstream.retrieve.recency import list_gems

        user = self._user(user_id)
        return list_gems(
            self.parts.store, user, session_id=session_id, tags=checked_tags(tags), status=status, limit=limit
        )

    def gem(self, gem_id: str, *, user_id: str | None = None) -> Gem:
        """One gem, by its id or by the eight or more first digits of it that a context block shows.

        Raises:
            NotFoundError: the user has no gem of this id, or several begin with it.
        """
        from neuralstream.retrieve.recency import find_gem

        return find_gem(self.parts.store, self._user(user_id), gem_id)

    def history(self, gem_id: str, *, user_id: str | None = None) -> list[Version]:
        """Every version of a gem, oldest first, each with the turns that say it; raises what `gem` does."""
        from neuralstream.history import history

        return history(self.parts.store, self._user(user_id), gem_id)

    def _session(self, session_id: str, user_id: str | None) -> SessionKey:
        return SessionKey(self._user(user_id), session_id)

    def _moment(self, as_of: datetime | None, user: str, pending: Sequence[Turn]) -> datetime:
        from neuralstream.retrieve.recency import present

        return parse_time(as_of) if as_of else present(self.parts.store, user, self._clock(), pending=pending)

    def _user(self, user_id: str | None) -> str:
        return user_id or self.settings.user_id


def _utc(moment: datetime | None) -> datetime | None:
    """Aware UTC; a naive time is taken as UTC."""
    return None if moment is None else parse_time(moment)
