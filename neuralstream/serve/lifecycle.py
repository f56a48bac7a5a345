"""From settings to a service that listens, until a signal ends it."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from neuralstream.errors import MissingPartError, NeuralStreamError
from neuralstream.heap import give_back

if TYPE_CHECKING:
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder
    from neuralstream.extract.base import Extractor

__all__ = ["serve"]

_GIVE_BACK_SECONDS = 15.0

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    settings: Settings,
    *,
    say: Callable[[str], object],
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
) -> None:
    """Answer requests until SIGTERM or SIGINT.

    Then nothing more is accepted, requests in hand are answered, and the memory is closed: what this process captured
    is distilled within `close_timeout`, or stays in the buffer for the next start. A second signal ends the process at
    once, which loses nothing either.

    Args:
        settings: `serve` says where; a `worker` of "inline" is taken as "thread", because a capture does not wait.
        say: told where the service listens, and that it ends.
        embedder, extractor: instead of those the settings name.

    Raises:
        SettingsError: the service could be reached from other machines without a token.
        OSError: the address is taken, or is not this machine's.
    """
    try:
        import uvicorn

        from neuralstream.serve.auth import Tokens, refuse_an_open_door
        from neuralstream.serve.http import create_app
        from neuralstream.serve.metrics import Metrics, open_memory
    except ImportError as error:
        raise MissingPartError(f"the service needs {error.name}: pip install 'neuralstream[serve]'") from error
    refuse_an_open_door(settings.serve, Tokens.read(settings.serve))
    if settings.worker == "inline":
        settings = settings.model_copy(update={"worker": "thread"})
    metrics = Metrics()
    with (
        open_memory(settings, metrics, embedder=embedder, extractor=extractor) as memory,
        _listen(settings) as listening,
    ):
        # The first question would wait for the model to be loaded, which this does: a vector may come from the cache.
        # Where the model cannot be had, a search says why; captures go on.
        with suppress(NeuralStreamError):
            memory.parts.embedder.known_share("warm up")
        app = create_app(memory, metrics=metrics)
        app.state.running.append(_giving_back)
        config = uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=math.ceil(settings.serve.timeout.total_seconds()),
        )
        say(f"listening on {_url(listening)}")
        with _signals_end_only_the_server():
            uvicorn.Server(config).run(sockets=[listening])
        say("closing: distilling what is left")
    say("stopped")


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.serve.host, settings.serve.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def _giving_back() -> AsyncIterator[None]:
    """Give freed memory back every minute: a service runs for months, and its threads would hold on to it."""

    async def give() -> None:
        while True:
            await asyncio.sleep(_GIVE_BACK_SECONDS)
            await asyncio.to_thread(give_back)

    giving = asyncio.create_task(give())
    try:
        yield
    finally:
        giving.cancel()


@contextmanager
def _signals_end_only_the_server() -> Iterator[None]:
    """Uvicorn sends itself the signal once more when it has ended, which would kill us before the memory is closed."""
    for name in _SIGNALS:
        signal.signal(name, lambda *_: None)
    try:
        yield
    finally:
        for name in _SIGNALS:
            signal.signal(name, signal.SIG_DFL)
