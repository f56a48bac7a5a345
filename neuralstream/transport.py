"""What every client of an HTTP server needs: addresses without passwords, patience with brief faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TOO_LONG", "Address", "retried"]

TOO_LONG = re.compile(
    r"exceeds? the (available )?context|context_length_exceeded|maximum context length|exceed_context_size"
    r"|exceed context window|too large to process",
    re.IGNORECASE,
)
"""What model servers say, with status 400 or 500, when an input is longer than the context."""

_BRIEFLY_UNABLE = frozenset({429, 502, 503, 504})

_FIRST_PAUSE = 0.5
"""Seconds before the second try; it doubles with each."""

_T = TypeVar("_T")


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        url: without credentials, to open and to show.
        auth: user and password, where the address had them; clients drop them from a URL, or show them.
    """

    url: str
    auth: tuple[str, str] | None

    @classmethod
    def parse(cls, url: str) -> Address:
        """Take an address apart."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        return cls(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}", auth)


def retried(call: Callable[[], _T], *, tries: int, sleep: Callable[[float], None]) -> _T:
    """Call; again, after a pause that doubles, where the connection failed or the server was briefly unable.

    What the server refuses for good, and an answer that took too long, is raised at once: it would be no different.
    """
    import httpx
    from ollama import ResponseError

    pause = _FIRST_PAUSE
    for _ in range(tries - 1):
        try:
            return call()
        except httpx.ReadTimeout:
            raise
        except (ConnectionError, httpx.TransportError):
            pass
        except ResponseError as error:
            if error.status_code not in _BRIEFLY_UNABLE:
                raise
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in _BRIEFLY_UNABLE:
                raise
        sleep(pause)
        pause *= 2
    return call()
