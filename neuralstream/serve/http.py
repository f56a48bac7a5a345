"""The HTTP service: the core's calls as JSON, guarded, counted, and every error as JSON."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from neuralstream import errors

try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from prometheus_client import CONTENT_TYPE_LATEST
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse
except ImportError as missing:
    raise errors.MissingPartError(
        f"the HTTP service needs {missing.name}: pip install 'neuralstream[serve]'"
    ) from missing

from neuralstream.serve import gem_routes, page_routes, routes
from neuralstream.serve.asked import Service
from neuralstream.serve.auth import Guard, Refusal, Tokens, error_body
from neuralstream.serve.mcp import add_mcp
from neuralstream.serve.metrics import Metrics
from neuralstream.serve.models import ErrorOut
from neuralstream.serve.page import add_page
from neuralstream.serve.pool import TooSlow

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from neuralstream.stream import NeuralStream

__all__ = ["create_app"]

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.NotFoundError, 404),
    (errors.InputError, 422),
    (errors.MissingPartError, 503),
    (errors.StoreLockedError, 503),
    (errors.StoreError, 507),
    (errors.EmbeddingError, 502),
    (errors.ExtractionError, 502),
    (errors.NeuralStreamError, 500),
)
"""Status of each error; the first that fits. The store refuses what it has no room for."""

_DOCUMENTED = {401: "no known token", 403: "another user's token", 422: "a value cannot be used", 503: "a part is down"}

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Counted by their name."""


def create_app(memory: NeuralStream, *, metrics: Metrics | None = None) -> FastAPI:
    """The service as an ASGI application. `app.state.service` holds the memory.

    Args:
        memory: opened and closed by the caller; `serve` of its settings is obeyed.
        metrics: those that `open_memory` counts distilling with; None counts all else.

    Raises:
        SettingsError: the tokens cannot be read.
    """
    settings = memory.settings.serve
    metrics = metrics or Metrics()
    metrics.watch(memory)
    app = FastAPI(
        title="NeuralStream",
        summary="Memory for language-model agents",
        version=_version(),
        lifespan=_lifespan,
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": ErrorOut, "description": why} for status, why in _DOCUMENTED.items()},
    )
    tokens = Tokens.read(settings)
    app.state.service = Service(memory, metrics, tokens)
    app.state.running = []
    for group in (routes, gem_routes, page_routes):
        app.include_router(group.router)
    add_page(app)
    add_mcp(app, app.state.service)
    _add_health(app)
    _add_errors(app)
    # The last one added is the outermost.
    app.add_middleware(
        Guard,
        tokens=tokens,
        hosts=settings.allowed_hosts,
        most_bytes=int(settings.max_request_mb * 2**20),
    )
    app.add_middleware(_Counted, metrics=metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run what was mounted (`app.state.running`, functions that make context managers), then let calls end."""
    mounted: list[Callable[[], AbstractAsyncContextManager[object]]] = app.state.running
    try:
        async with AsyncExitStack() as running:
            for enter in mounted:
                await running.enter_async_context(enter())
            yield
    finally:
        await asyncio.to_thread(app.state.service.close)


class _Counted:
    """Counts answers by route and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            # The template, not the path, and no made-up method: a series for each would never end.
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()


def _add_health(app: FastAPI) -> None:
    service: Service = app.state.service

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", include_in_schema=False)
    async def readyz(response: Response) -> dict[str, bool]:
        """Buffer and store answer."""
        parts = service.memory.parts
        ready = {
            "buffer": await _answers(service, parts.buffer.version),
            "store": await _answers(service, service.memory.status),
        }
        if not all(ready.values()):
            response.status_code = 503
        return ready

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        """Counters, for Prometheus."""
        return Response(await service.asking.run(service.metrics.render), media_type=CONTENT_TYPE_LATEST)


async def _answers(service: Service, ask: Callable[[], object]) -> bool:
    try:
        await service.asking.run(ask)
    except (errors.NeuralStreamError, TooSlow) as error:
        _log.warning("not ready: %s", error)
        return False
    return True


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(errors.NeuralStreamError)
    async def ours(_: Request, error: errors.NeuralStreamError) -> JSONResponse:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        return JSONResponse(error_body(type(error).__name__, str(error)), status)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(error_body("InputError", "\n".join(map(_told, error.errors()))), 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        kind = error.kind if isinstance(error, Refusal) else "HTTPError"
        told = error.detail
        if kind == "HTTPError" and error.status_code in {404, 405}:
            told = f"{told}: {request.method} {request.url.path[:200]}; /openapi.json and docs/http.md list the routes"
        return JSONResponse(error_body(kind, told), error.status_code, error.headers)

    @app.exception_handler(TooSlow)
    async def too_slow(_: Request, error: TooSlow) -> JSONResponse:
        return JSONResponse(error_body("Timeout", str(error)), 504)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(error_body("InternalError", f"{type(error).__name__}; the service's log says more"), 500)


def _told(wrong: dict[str, Any]) -> str:
    """What is wrong with a request, where, and what to do."""
    if wrong["type"] == "json_invalid":
        return f"the body is no JSON: {wrong['ctx']['error']} at character {wrong['loc'][-1]}"
    if wrong["loc"] == ("body",) and wrong["type"].endswith("_attributes_type"):
        return "the body is no JSON object: send one, with the header Content-Type: application/json"
    return f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg'].removeprefix('Value error, ')}"


def _version() -> str:
    from neuralstream import __version__

    return __version__
