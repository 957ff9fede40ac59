"""FastAPI: whatever goes wrong is answered with a problem."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match

from leasehold import errors
from leasehold.documents.http.problems import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_FASTAPIS_OWN = (http_exception_handler, request_validation_exception_handler)


class ProblemRoute(APIRoute):
    """A route that answers with problems, unless the application has answers of its own for such errors."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def handle_or_explain(request: Request) -> Response:
            try:
                return await handle(request)
            except (errors.LeaseholdError, RequestValidationError, HTTPException) as error:
                if _is_answered_by(request.app, error):
                    raise
                return explain(error)

        return handle_or_explain


def install_problems(app: FastAPI) -> None:
    """Have the whole application answer with problems, also to what it does not know and to its own failures."""

    async def tell(request: Request, error: Exception) -> Response:
        answer = explain(error)
        if answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = ", ".join(methods_of(request))
        return answer

    for kind in (errors.LeaseholdError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, tell)


def methods_of(request: Request) -> list[str]:
    """All that can be done with what was asked for. Starlette would name those of one route only."""
    routes = request.app.router.routes

    def is_known(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in routes)

    return [method for method in _METHODS if is_known(method)]


def _is_answered_by(app: Any, error: Exception) -> bool:
    handlers = getattr(app, "exception_handlers", {})
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        if kind in handlers:
            return handlers[kind] not in _FASTAPIS_OWN
    return False
