"""Threads that blocking calls run in, so that the event loop stays free to take the next request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

__all__ = ["Pool", "TooSlow"]

P = ParamSpec("P")
R = TypeVar("R")


class TooSlow(Exception):  # noqa: N818 - it says how a call went
    """A call took longer than a request may."""


class Pool:
    """A fixed number of threads: an overload makes requests wait and time out, and piles up no threads.

    Args:
        name: of the threads.
        threads: calls at the same time.
        seconds: longest wait for one.
    """

    def __init__(self, name: str, threads: int, seconds: float) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"neuralstream-{name}")
        self._seconds = seconds

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the call returns or raises.

        Raises:
            TooSlow: it took too long. One that waited for a thread is never made; one that runs goes on to its end.
        """
        return await self.run_within(self._seconds, call, *args, **kwargs)

    async def run_within(self, seconds: float, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same, with a limit of its own."""
        future = self._executor.submit(call, *args, **kwargs)
        waiting = asyncio.wrap_future(future)
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        if done:
            return waiting.result()
        started = not future.cancel()
        waiting.cancel()
        raise TooSlow(
            f"no answer within {seconds:g} s; "
            + ("it is still being worked on" if started else "too many questions wait, and nothing was done")
        )

    def close(self) -> None:
        """Wait for the calls in hand."""
        self._executor.shutdown()
