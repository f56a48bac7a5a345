"""A running HTTP service in the process, for tests of what talks to one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuralstream.serve.metrics import Metrics
    from neuralstream.stream import NeuralStream

__all__ = ["serving"]

_STOP_SECONDS = 30.0


@contextmanager
def serving(memory: NeuralStream, *, metrics: Metrics | None = None) -> Iterator[str]:
    """Serve a memory on a free port of this machine, in a thread; its address.

        with serving(memory) as url, NeuralStreamClient(url) as client: ...

    Args:
        memory: opened and closed by the caller, after the service has ended.
        metrics: those that the memory's distilling is counted with, where it is.
    """
    import socket

    import uvicorn

    from neuralstream.serve.http import create_app

    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            create_app(memory, metrics=metrics), lifespan="on", ws="none", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_STOP_SECONDS)
