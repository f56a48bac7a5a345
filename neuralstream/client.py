"""A client of `neuralstream serve` with the methods of `NeuralStream`, so that either can be used for the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from urllib.parse import quote

from neuralstream import errors
from neuralstream.capture.records import DeadLetter, SessionKey
from neuralstream.clock import iso_time, parse_time
from neuralstream.errors import InputError, MissingPartError, NeuralStreamError, SettingsError
from neuralstream.types import (
    DEFAULT_USER,
    ContextBlock,
    EndReason,
    Gem,
    GemTag,
    Hit,
    Lane,
    Mode,
    Summary,
    Theme,
    Turn,
    Usage,
    checked_turn,
    checked_usage,
)

if TYPE_CHECKING:
    from neuralstream.forgetting import Forgotten
    from neuralstream.history import Version

__all__ = ["NeuralStreamClient", "UserStatus"]

_AT_ONCE = 500
"""Turns in one request."""

_REFUSED = (401, 403, 421)
"""Answers to who asks, not to what is asked."""

_LONG_SECONDS = 300.0
"""Longest wait for what rewrites files or asks a language model."""


class UserStatus(NamedTuple):
    """How much of one user is where; `Status` counts everybody's. `undistilled` and `unindexed` are turns that wait."""

    turns: int
    gems: int
    sessions: int
    undistilled: int
    unindexed: int
    dead_letters: int


class NeuralStreamClient:
    """Memory in another process, over HTTP. Safe to share between threads.

        with NeuralStreamClient("http://127.0.0.1:7711") as memory:
            memory.capture(Turn.exchange("Move redis to 6381", "Done.", session_id="s1", turn_id="t1"))
            print(memory.context("which port does redis use?", session_id="s1").text)

    Every method does what the one of the same name of `NeuralStream` does, and raises the same errors; MissingPartError
    also where the service does not answer in time, and SettingsError where it refuses the token. A capture that failed
    may be sent again: it is kept once.

    Args:
        url: where the service listens.
        token: a user's bearer token, where the service asks for one.
        user_id: whose memory where a call names nobody; None leaves it to the token, or to the service's settings.
        timeout: longest wait for an answer, seconds.

    Raises:
        InputError: `url` is no http address.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:7711",
        *,
        token: str | None = None,
        user_id: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        import httpx

        if not url.startswith(("http://", "https://")):
            raise InputError(f"the service's address {url!r} begins with neither http:// nor https://")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)
        self._url = url
        self._user_id = user_id
        self._timeout = timeout

    # What a host reports.

    def capture(self, turn: Turn) -> bool:
        """Keep a turn; True where it is new."""
        return self.capture_all([turn]) == 1

    def capture_all(self, turns: Iterable[Turn]) -> int:
        """Keep many turns, in order; returns how many were new. A turn of the default user is this client's."""
        waiting = [_sent(turn, self._user_id) for turn in turns]
        return sum(
            self._ask("POST", "/v1/turns", {"turns": waiting[start : start + _AT_ONCE]})["new"]
            for start in range(0, len(waiting), _AT_ONCE)
        )

    def turn_end(
        self, session_id: str, usage: Usage | None, *, user_id: str | None = None, turn_id: str | None = None
    ) -> bool:
        """Report how full the context is after a turn; True where `context_threshold` was crossed."""
        known = checked_usage(usage)
        told = None if known is None else {name: getattr(known, name) for name in Usage.__slots__}
        body = {"session_id": session_id, "usage": told, "turn_id": turn_id}
        return bool(self._ask("POST", "/v1/turn_end", body, user_id)["fired"])

    def end_session(
        self,
        session_id: str,
        *,
        reason: EndReason = "end",
        user_id: str | None = None,
    ) -> None:
        """Distil what a session has left."""
        self._ask("POST", f"/v1/sessions/{quote(session_id, safe='')}/end", {"reason": reason}, user_id)

    # What an agent asks.

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
        """The `k` most relevant turns and gems, best first."""
        body = {
            "query": query, "mode": mode, "k": k, "lane": lane, "as_of": as_of, "since": since, "until": until,
            "session_id": session_id, "tags": list(tags), "exclude_turns": list(exclude_turns), "explain": explain,
        }  # fmt: skip
        return _hits(self._ask("POST", "/v1/search", body, user_id))

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
        """The newest turns or gems, newest first."""
        asked = {
            "limit": limit, "since": since, "until": until, "session_id": session_id, "kind": kind, "as_of": as_of
        }  # fmt: skip
        return _hits(self._read("/v1/recent", asked, user_id))

    def thread(self, session_id: str, *, user_id: str | None = None) -> list[Turn]:
        """A whole session, oldest turn first; empty where it is unknown."""
        try:
            found = self._read(f"/v1/sessions/{quote(session_id, safe='')}", {}, user_id)
        except errors.NotFoundError:
            return []
        return [Turn.from_dict(turn) for turn in found["turns"]]

    def themes(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> list[Theme]:
        """What the conversations keep returning to, largest first."""
        found = self._read("/v1/themes", {"since": since, "until": until, "limit": limit}, user_id)
        return [_theme(theme) for theme in found["themes"]]

    def summary(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> Summary:
        """Themes told by the service's language model."""
        asked = {"since": since, "until": until, "limit": limit, "summary": True}
        found = self._read("/v1/themes", asked, user_id, long=True)
        return Summary(found["summary"], tuple(_theme(theme) for theme in found["themes"]))

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
        """What to put back before the next prompt."""
        body = {
            "query": query, "session_id": session_id, "window": None if window is None else list(window),
            "budget_tokens": budget_tokens, "max_gems": max_gems, "as_of": as_of,
        }  # fmt: skip
        block = self._ask("POST", "/v1/context", body, user_id)
        return ContextBlock(block["text"], block["tokens"], tuple(_hits(block)))

    # Gems.

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[GemTag] = ("fact",),
        topics: Sequence[str] = (),
        importance: float = 0.8,
        user_id: str | None = None,
    ) -> Gem:
        """Store a statement as a gem, at once."""
        body = {"text": text, "tags": list(tags), "topics": list(topics), "importance": importance}
        return Gem.from_dict(self._ask("POST", "/v1/remember", body, user_id))

    def gems(
        self,
        *,
        session_id: str | None = None,
        tags: Sequence[GemTag] = (),
        status: Literal["active", "superseded"] | None = "active",
        limit: int = 100,
        user_id: str | None = None,
    ) -> list[Gem]:
        """Gems, newest first; at most 1,000."""
        asked = {"session_id": session_id, "tag": list(tags), "status": status or "any", "limit": limit}
        return [Gem.from_dict(gem) for gem in self._read("/v1/gems", asked, user_id)["gems"]]

    def gem(self, gem_id: str, *, user_id: str | None = None) -> Gem:
        """One gem, by its id or the eight or more first digits of it."""
        return Gem.from_dict(self._read(f"/v1/gems/{quote(gem_id, safe='')}", {}, user_id)["gem"])

    def history(self, gem_id: str, *, user_id: str | None = None) -> list[Version]:
        """Every version of a gem, oldest first."""
        from neuralstream.history import Version

        found = self._read(f"/v1/gems/{quote(gem_id, safe='')}", {"history": True}, user_id)
        return [
            Version(
                Gem.from_dict(version["gem"]),
                tuple(version["replaced_by"]),
                tuple(Turn.from_dict(turn) for turn in version["evidence"]),
            )
            for version in found["versions"]
        ]

    def correct(self, gem_id: str, text: str, *, user_id: str | None = None) -> Gem:
        """Replace what a gem says."""
        return Gem.from_dict(self._ask("PATCH", f"/v1/gems/{quote(gem_id, safe='')}", {"content": text}, user_id))

    # Upkeep.

    def forget(
        self,
        *,
        gem_id: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        before: datetime | None = None,
    ) -> Forgotten:
        """Remove a gem, a session, what is older than a date, or (with `user_id` alone) everything of a user."""
        from neuralstream.forgetting import Forgotten

        everything = user_id is not None and gem_id is None and session_id is None and before is None
        body = {"gem_id": gem_id, "session_id": session_id, "before": before, "everything": everything}
        done = dict(self._ask("POST", "/v1/forget", body, user_id, long=True))
        done.pop("proved")
        return Forgotten(**done | {"rewritten": tuple(done["rewritten"])})

    def user_status(self, *, user_id: str | None = None) -> UserStatus:
        """How much of a user is where."""
        found = self._read("/v1/status", {}, user_id)
        return UserStatus(*(found[name] for name in UserStatus._fields))

    def dead_letters(self, *, user_id: str | None = None) -> list[DeadLetter]:
        """Batches that could not be distilled; of one user."""
        return [
            DeadLetter(
                letter["batch_id"],
                SessionKey(letter["user_id"], letter["session_id"]),
                letter["reason"],
                tuple(Turn.from_dict(turn) for turn in letter["turns"]),
                letter["answer"],
            )
            for letter in self._read("/v1/deadletters", {}, user_id)["dead_letters"]
        ]

    def retry_dead_letters(self, *, user_id: str | None = None) -> int:
        """Distil dead letters again; returns how many were queued."""
        user = user_id or self._user_id
        return int(self._ask("POST", "/v1/deadletters/retry", None, params={"user_id": user} if user else {})["queued"])

    def close(self) -> None:
        """Let go of the connections. The service goes on."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Helpers.

    def _read(self, path: str, asked: Mapping[str, Any], user_id: str | None, *, long: bool = False) -> Any:
        named = {name: _plain(value) for name, value in asked.items() if value is not None}
        user = user_id or self._user_id
        return self._ask("GET", path, None, params=named | ({"user_id": user} if user else {}), long=long)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        user_id: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        long: bool = False,
    ) -> Any:
        import httpx

        content = None
        if body is not None:
            content = {name: _plain(value) for name, value in body.items()}
            if "turns" not in content:
                content["user_id"] = user_id or self._user_id
        seconds = max(_LONG_SECONDS, self._timeout) if long else self._timeout
        try:
            answer = self._http.request(method, path, json=content, params=params, timeout=seconds)
        except httpx.TimeoutException as error:
            raise MissingPartError(
                f"the service at {self._url} did not answer within {seconds:g} s: see its log, or raise timeout"
            ) from error
        except httpx.HTTPError as error:
            raise MissingPartError(
                f"the service at {self._url} does not answer ({error}); `neuralstream serve` starts it"
            ) from error
        if answer.is_success:
            return answer.json()
        raise _error(answer.status_code, answer.text, self._url)


def _error(status: int, text: str, url: str) -> NeuralStreamError:
    """The error that the service raised, by its name; another server's answer is a missing part."""
    import json

    try:
        told = json.loads(text)["error"]
        name, message = str(told["type"]), str(told["message"])
    except (ValueError, TypeError, KeyError):
        return MissingPartError(f"{url} answered {status}, and is not a NeuralStream service: {text[:100]!r}")
    if status in _REFUSED:
        return SettingsError(f"the service at {url} refuses: {message}")
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None:
        kind = InputError if status < 500 else MissingPartError if name == "Timeout" else NeuralStreamError
    found: NeuralStreamError = kind(message)
    return found


def _sent(turn: Turn, user_id: str | None) -> dict[str, Any]:
    """A turn as it is sent. The service gives it its index."""
    sent = checked_turn(turn).to_dict()
    del sent["index"]
    if turn.user_id == DEFAULT_USER:
        sent["user_id"] = user_id
    return sent


def _plain(value: Any) -> Any:
    return iso_time(value) if isinstance(value, datetime) else value


def _hits(found: Mapping[str, Any]) -> list[Hit]:
    return [
        Hit(
            Turn.from_dict(hit["turn"]) if hit["kind"] == "turn" else Gem.from_dict(hit["gem"]),
            hit["score"],
            hit["signals"],
        )
        for hit in found["hits"]
    ]


def _theme(data: Mapping[str, Any]) -> Theme:
    return Theme(
        name=data["name"],
        terms=tuple(data["terms"]),
        size=data["size"],
        first_at=parse_time(data["first_at"]),
        last_at=parse_time(data["last_at"]),
        exemplars=tuple(Turn.from_dict(turn) for turn in data["exemplars"]),
        turn_ids=tuple(data["turn_ids"]),
        gems=tuple(Gem.from_dict(gem) for gem in data["gems"]),
        gem_ids=tuple(data["gem_ids"]),
        summary=data["summary"],
    )
