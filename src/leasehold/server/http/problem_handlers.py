"""Whatever goes wrong, the answer is a problem with a stable code, and the log knows more."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from leasehold.documents.http.problems import explain
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

_log = logging.getLogger(__name__)

_REFUSALS = frozenset({401, 403, 429})


def install_problems(app: FastAPI) -> None:
    """Answer every error that a route raises on purpose. What it does not, `requests.Envelope` answers."""

    async def tell(request: Request, error: Exception) -> Response:
        answer = explain(error)
        if answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            answer.headers["Allow"] = ", ".join(_methods_of(app, request))
        if answer.status_code in _REFUSALS:
            _log.info("refused with %d: %s %s", answer.status_code, request.method, request.url.path)
        elif answer.status_code >= 500:
            _log.warning("%s %s: %s", request.method, request.url.path, error, exc_info=error.__cause__)
        return answer

    for kind in (LeaseholdError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, tell)


def _methods_of(app: FastAPI, request: Request) -> list[str]:
    """All that can be done with what was asked for: each of our routes knows one method only."""
    routes = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
