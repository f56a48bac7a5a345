"""A request's caller, and the service that answers: what every route is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from neuralstream.errors import InputError
from neuralstream.serve.auth import Refusal, Tokens, unauthorized
from neuralstream.serve.pool import Pool

if TYPE_CHECKING:
    from neuralstream.serve.metrics import Metrics
    from neuralstream.stream import NeuralStream

__all__ = ["Asked", "Service"]

_CAPTURING = 4
"""Threads that only capture, so that no capture waits behind a search: one waits for Redis, for less than 1 ms."""


class Service:
    """A memory, the threads that ask it, and what is counted.

    Args:
        memory: opened and closed by the caller.
        metrics: what is counted.
        tokens: those that are asked for.
    """

    def __init__(self, memory: NeuralStream, metrics: Metrics, tokens: Tokens) -> None:
        serve = memory.settings.serve
        self.timeout = seconds = serve.timeout.total_seconds()
        """Seconds that a call may take."""
        self.memory = memory
        self.metrics = metrics
        self.tokens = tokens
        self.capturing = Pool("capture", _CAPTURING, seconds)
        self.asking = Pool("ask", serve.threads, seconds)
        self.patience = max(seconds, memory.settings.llm.timeout.total_seconds())
        """Seconds that what asks a language model, or rewrites files, may take."""

    def close(self) -> None:
        """Wait for the calls in hand."""
        self.capturing.close()
        self.asking.close()


@dataclass(frozen=True)
class _Asked:
    """Who asks, and who answers.

    Attributes:
        service: it.
        user: the token's; None where no token is asked for.
    """

    service: Service
    user: str | None

    @property
    def memory(self) -> NeuralStream:
        """What is asked."""
        return self.service.memory

    def owner(self, named: str | None) -> str:
        """Whose memory a request means.

        Raises:
            Refusal: the token is another user's.
        """
        if self.user is None:
            return named or self.memory.settings.user_id
        if named is not None and named != self.user:
            raise Refusal(403, "Forbidden", f"this token is not {named!r}'s; leave user_id out, or send their token")
        return self.user


def _asked(request: Request) -> _Asked:
    """Who asks.

    Raises:
        InputError: the query has a name that the route does not know, which would go unnoticed.
        Refusal: no token.
    """
    service: Service = request.app.state.service
    user: str | None = request.state.user
    if service.tokens and user is None:
        # The guard let nobody through without one; whoever opens a path there does not open memory.
        raise unauthorized()
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    if unknown := request.query_params.keys() - set(known):
        raise InputError(
            f"{request.scope['route'].path} has no {', '.join(sorted(unknown))[:200]} in its query; "
            + (f"it takes {', '.join(known)}" if known else "what it takes goes into the body")
        )
    return _Asked(service, user)


Asked = Annotated[_Asked, Depends(_asked)]
