"""FastAPI: exceptions answered with problems."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Match

from leasehold.http_problems import MEDIA_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def problem_response(body: dict[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The problem as a response."""
    return JSONResponse(body, body["status"], headers, MEDIA_TYPE)


def install(
    app: FastAPI,
    explain: Callable[[Exception], Response],
    *kinds: type[Exception],
    log: Callable[[Request, Exception, int], None] | None = None,
) -> None:
    """Answer exceptions of these ``kinds`` with ``explain``; ``log`` is called with the status of each response."""

    async def handle(request: Request, error: Exception) -> Response:
        response = explain(error)
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(_allowed_methods(request))
        if log is not None:
            log(request, error, response.status_code)
        return response

    for kind in kinds:
        app.add_exception_handler(kind, handle)


def _allowed_methods(request: Request) -> list[str]:
    """The methods of all routes of the path. Starlette would name those of one route only."""
    routes = request.app.router.routes

    def is_allowed(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in routes)

    return [method for method in _METHODS if is_allowed(method)]
