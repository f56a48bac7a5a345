"""The asynchronous twin of `NeuralStream`: the same methods, awaited, each run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from neuralstream.errors import InputError
from neuralstream.stream import NeuralStream

__all__ = ["AsyncNeuralStream"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _awaited(
    method: Callable[Concatenate[NeuralStream, _Arguments], _Result],
) -> Callable[Concatenate[AsyncNeuralStream, _Arguments], Coroutine[Any, Any, _Result]]:
    @wraps(method)
    async def call(self: AsyncNeuralStream, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call


class AsyncNeuralStream:
    """Memory for agents in an event loop; see `NeuralStream` for what each method does.

        async with AsyncNeuralStream(settings) as memory:
            await memory.capture(turn)

    Args:
        arguments: those of `NeuralStream`, which is opened on entering.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._open = lambda: NeuralStream(*args, **kwargs)
        self._memory: NeuralStream | None = None

    @property
    def memory(self) -> NeuralStream:
        """The memory that is awaited.

        Raises:
            InputError: it has not been entered.
        """
        if self._memory is None:
            raise InputError(
                "this memory is not open: use it inside `async with AsyncNeuralStream(settings) as memory`"
            )
        return self._memory

    async def __aenter__(self) -> Self:
        self._memory = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    capture = _awaited(NeuralStream.capture)
    capture_all = _awaited(NeuralStream.capture_all)
    turn_end = _awaited(NeuralStream.turn_end)
    tick = _awaited(NeuralStream.tick)
    end_session = _awaited(NeuralStream.end_session)
    flush = _awaited(NeuralStream.flush)
    search = _awaited(NeuralStream.search)
    recent = _awaited(NeuralStream.recent)
    thread = _awaited(NeuralStream.thread)
    themes = _awaited(NeuralStream.themes)
    summary = _awaited(NeuralStream.summary)
    context = _awaited(NeuralStream.context)
    remember = _awaited(NeuralStream.remember)
    gems = _awaited(NeuralStream.gems)
    gem = _awaited(NeuralStream.gem)
    history = _awaited(NeuralStream.history)
    correct = _awaited(NeuralStream.correct)
    forget = _awaited(NeuralStream.forget)
    export = _awaited(NeuralStream.export)
    restore = _awaited(NeuralStream.restore)
    status = _awaited(NeuralStream.status)
    dead_letters = _awaited(NeuralStream.dead_letters)
    retry_dead_letters = _awaited(NeuralStream.retry_dead_letters)
    close = _awaited(NeuralStream.close)
