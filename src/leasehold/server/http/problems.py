"""Problems: the handlers that answer and log errors, and the OpenAPI ``responses`` of routes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from leasehold.documents.http.problems import explain, problem_responses
from leasehold.errors import LeaseholdError
from leasehold.http_problems.fastapi import install

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

_log = logging.getLogger("leasehold.server")

_REFUSALS = frozenset({401, 403, 429})
_ALWAYS = (401, 422, 429, 503)

Responses = dict[int | str, dict[str, Any]]

SIGNED_IN: Responses = problem_responses(*_ALWAYS)
"""Of a route for any signed-in user."""
ALLOWED: Responses = problem_responses(*_ALWAYS, 403, 404)
"""Of a route that needs a role."""
ALLOWED_UNLESS: Responses = problem_responses(*_ALWAYS, 403, 404, 409)
"""Of a route that needs a role and may conflict with the state of the object."""


def install_problems(app: FastAPI) -> None:
    """Answer the errors that routes raise on purpose. The others are answered by `ApiMiddleware`."""
    install(app, explain, LeaseholdError, RequestValidationError, HTTPException, log=_log_problem)


def _log_problem(request: Request, error: Exception, status: int) -> None:
    if status in _REFUSALS:
        _log.info("refused with %d: %s %s", status, request.method, request.url.path)
    elif status >= 500:
        _log.warning("%s %s: %s", request.method, request.url.path, error, exc_info=error.__cause__)
