"""Who may ask, and whose memory they see. Decided before anything of a request is read."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import tomllib
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from neuralstream.errors import SettingsError
from neuralstream.sections import check_tokens

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from neuralstream.sections import ServeSettings

__all__ = ["Guard", "Refusal", "Tokens", "error_body", "is_this_machine", "refuse_an_open_door", "unauthorized"]

OPEN_PATHS = frozenset({"/", "/favicon.ico", "/healthz", "/openapi.json", "/readyz"})
"""What is answered without a token: nothing of anybody's memory is in it."""

OPEN_FOLDER = "/page/"
"""The page's own files."""


class Refusal(HTTPException):
    """A request that is not answered. `kind` names why, as `error.type` of the answer."""

    def __init__(self, status_code: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status_code, message, headers)
        self.kind = kind


def unauthorized() -> Refusal:
    """A request without a known token."""
    return Refusal(
        401,
        "Unauthorized",
        "send a known token, as the header Authorization: Bearer TOKEN",
        {"WWW-Authenticate": "Bearer"},
    )


def error_body(kind: str, message: str) -> dict[str, dict[str, str]]:
    """The body of every answer that is an error."""
    return {"error": {"type": kind, "message": message}}


class Tokens:
    """Bearer tokens, and the users they stand for; false where there are none.

    Args:
        tokens: users and their tokens.
    """

    def __init__(self, tokens: Iterable[tuple[str, str]] = ()) -> None:
        self._users = [(_hash(token), user) for user, token in tokens]

    @classmethod
    def read(cls, settings: ServeSettings) -> Tokens:
        """Those of the settings and of the file that they name.

        Raises:
            SettingsError: the file cannot be read, or a token cannot be used.
        """
        tokens = [(user, token.get_secret_value()) for user, token in settings.tokens.items()]
        if settings.token_file is not None:
            try:
                listed = tomllib.loads(settings.token_file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise SettingsError(f"serve.token_file {settings.token_file} cannot be read: {error}") from error
            if not all(isinstance(token, str) for token in listed.values()):
                raise SettingsError(f'serve.token_file {settings.token_file}: each line is user = "token"')
            tokens += listed.items()
        try:
            check_tokens(tokens)
        except ValueError as error:
            raise SettingsError(f"serve.tokens: {error}") from None
        return cls(tokens)

    def __bool__(self) -> bool:
        return bool(self._users)

    def user(self, token: str) -> str | None:
        """Whose token it is. Takes as long whichever it is, and however much of one it resembles."""
        given, found = _hash(token), None
        for known, user in self._users:
            if hmac.compare_digest(given, known):
                found = user
        return found


class Guard:
    """Answers what may be answered, as ASGI middleware around everything: routes, MCP and the page.

    With tokens, everything but `OPEN_PATHS` needs one, and `request.state.user` is its user. Without, whoever reaches
    the service is trusted but for web pages: a page of another site is told by its Origin, and one whose name was
    made to point here (DNS rebinding) by its Host.

    Args:
        app: what is guarded.
        tokens: the known ones.
        hosts: names in the Host header that are this machine's, beside its own.
        most_bytes: largest body.
    """

    def __init__(self, app: ASGIApp, *, tokens: Tokens, hosts: Iterable[str], most_bytes: int) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with its user."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            request.state.user = self._user(request)
            self._check_length(request)
        except Refusal as refusal:
            body = error_body(refusal.kind, refusal.detail)
            await JSONResponse(body, refusal.status_code, refusal.headers)(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _user(self, request: Request) -> str | None:
        if not self._tokens:
            self._refuse_other_sites(request)
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        # Not the URL's path: that one is put together with what the Host header says.
        path = request.scope["path"]
        if user is None and path not in OPEN_PATHS and not path.startswith(OPEN_FOLDER):
            raise unauthorized()
        return user

    def _refuse_other_sites(self, request: Request) -> None:
        host = request.headers.get("host", "")
        name = _host_name(host)
        if not is_this_machine(name) and name not in self._hosts:
            raise Refusal(
                421,
                "WrongHost",
                f"the service is not called {name!r}; name it in serve.allowed_hosts, or set serve.tokens",
            )
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise Refusal(403, "Forbidden", f"a page of {origin} may not ask; set serve.tokens to let it")

    def _check_length(self, request: Request) -> None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most_bytes:
            raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        """A body of unknown length, refused once it is too long."""
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most_bytes:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Refusal:
        limit = self._most_bytes / 2**20
        return Refusal(413, "TooLarge", f"a request is at most {limit:g} MB (serve.max_request_mb); send it in parts")


def is_this_machine(host: str) -> bool:
    """Whether a name or address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def refuse_an_open_door(settings: ServeSettings, tokens: Tokens) -> None:
    """Listen beyond this machine only where a token is asked for.

    Raises:
        SettingsError: it is not.
    """
    if not tokens and not is_this_machine(settings.host):
        raise SettingsError(
            f"serve.host = {settings.host!r} can be reached from other machines, and no token is asked for: set "
            'serve.tokens (a line user = "token" under [serve.tokens], or NEURALSTREAM_SERVE__TOKENS__USER=token; '
            "`openssl rand -hex 32` makes one), or keep serve.host = '127.0.0.1'"
        )


def _host_name(host: str) -> str:
    """The Host header without its port, and an IPv6 address without its brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _hash(token: str) -> bytes:
    # Of one length, so that a comparison does not tell how long a token is.
    return hashlib.sha256(token.encode()).digest()
