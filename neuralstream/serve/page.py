"""The page at `/` that shows a memory: files of this package, nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import FileResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

__all__ = ["add_page"]

_FOLDER = Path(__file__).parent / "page"

_HEADERS = {
    # A memory holds whatever was said to an agent, so nothing of it may ever run: scripts come from this service alone,
    # and no text can become markup (trusted types).
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # After an upgrade the page asks whether its files changed.
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Serve the page at `/` and its files under `/page/`."""
    app.router.routes.append(Route("/", _index, include_in_schema=False))
    app.router.routes.append(Mount("/page", _Files(directory=_FOLDER), name="page"))


async def _index(_: Request) -> Response:
    return FileResponse(_FOLDER / "index.html", headers=_HEADERS)


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
