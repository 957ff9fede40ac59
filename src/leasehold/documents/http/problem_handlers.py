"""FastAPI: every error is answered with a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from leasehold import errors
from leasehold.documents.http.problems import explain
from leasehold.http_problems.fastapi import install

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_FASTAPIS_OWN = (http_exception_handler, request_validation_exception_handler)


class ProblemRoute(APIRoute):
    """A route that answers errors with problems, unless the application has its own handlers for them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def handle_or_explain(request: Request) -> Response:
            try:
                return await handle(request)
            except (errors.LeaseholdError, RequestValidationError, HTTPException) as error:
                if _has_handler(request.app, error):
                    raise
                return explain(error)

        return handle_or_explain


def install_problems(app: FastAPI) -> None:
    """Answer every error of the application with a problem, also unknown paths and its own failures."""
    install(app, explain, errors.LeaseholdError, RequestValidationError, HTTPException, Exception)


def _has_handler(app: Any, error: Exception) -> bool:
    handlers = getattr(app, "exception_handlers", {})
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        if kind in handlers:
            return handlers[kind] not in _FASTAPIS_OWN
    return False
