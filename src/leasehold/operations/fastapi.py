"""FastAPI: holds a lock while a request is processed, and responds with a problem if it cannot."""

from __future__ import annotations

import inspect
import logging
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin
from uuid import UUID

from leasehold.errors import (
    InProgress,
    InvalidRequest,
    LeaseholdError,
    LeaseLost,
    LockBusy,
    RateLimited,
    StaleFence,
    StoreError,
)
from leasehold.extras import requires_extra
from leasehold.http_problems import body_of, headers_of

with requires_extra(__name__, "operations"):
    from fastapi import Depends, HTTPException, params

    from leasehold.http_problems.fastapi import install, problem_response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import FastAPI
    from fastapi.responses import JSONResponse

    from leasehold.client import Lease
    from leasehold.operations.operations import Operations

_log = logging.getLogger("leasehold.operations")


class ProblemError(HTTPException):
    """An error of Leasehold as an HTTP error: 409 with ``Retry-After`` for `LockBusy`, 503 for `StoreUnavailable`.

    With `install_problems` it is ``application/problem+json``; without, FastAPI's own ``{"detail": {...}}``.
    """

    def __init__(self, error: LeaseholdError) -> None:
        body = body_of(error)
        super().__init__(body["status"], detail=body, headers=headers_of(error))


def install_problems(app: FastAPI) -> None:
    """Answer with ``application/problem+json`` wherever a request fails because of a lock.

    Also when the endpoint itself raises `LockBusy`, `LeaseLost`, `InProgress`, `StaleFence`, `StoreError` or
    `RateLimited`. An `InvalidRequest` of the endpoint's own is a mistake in the program and stays a 500.
    """
    kinds = (ProblemError, LockBusy, LeaseLost, InProgress, StaleFence, StoreError, RateLimited)
    install(app, _explain, *kinds)


def _explain(error: Exception) -> JSONResponse:
    problem = error if isinstance(error, ProblemError) else ProblemError(_checked(error))
    body: Any = problem.detail
    return problem_response(body, problem.headers)


def held(ops: Operations, purpose: str, /, **parameters: Any) -> Callable[..., AsyncIterator[Lease]]:
    """A dependency that holds the lock of ``purpose`` while a request is processed, and returns its `Lease`.

    ``Annotated[Lease, Depends(held(ops, "payout", deal_id=int))]``: each parameter of the purpose is declared
    here as FastAPI expects it in the endpoint: by its type (from the path, or else the query), as
    ``Annotated[int, Path(alias="id")]``, or by a function or ``Depends(...)`` that returns it. Use the same type as
    the endpoint: "042" and "42" are different texts, but the same number. A declaration that does not fit raises
    `InvalidRequest` here.

    A busy lock gives 409, an unreachable store 503; the endpoint is not run. The lock is released when the response
    has been sent, also after errors; with ``Depends(..., scope="function")`` before it is sent. If the lease is
    lost, an ``async`` endpoint is cancelled and the response is 503 ``lease_lost``; a response that is being sent is
    cut off. A plain ``def`` endpoint cannot be stopped and should call ``lease.check()`` before it does anything
    irreversible; otherwise its result is dropped and the response is 503 as well.
    """
    kind = ops.purposes.find(purpose)
    kind.check_parameters(parameters)

    async def hold(**values: object) -> AsyncIterator[Lease]:
        try:
            context = ops.purpose(purpose, **values)
            lease = await context.__aenter__()
        except LeaseholdError as error:
            raise ProblemError(error) from error
        try:
            yield lease
        except BaseException:
            try:
                await context.__aexit__(*sys.exc_info())
            except LeaseLost as lost:
                raise ProblemError(lost) from lost
            raise
        try:
            await context.__aexit__(None, None, None)
        except LeaseLost as lost:
            raise ProblemError(lost) from lost
        except StoreError as failure:
            # The work was done under the lock; a failed release does not concern the caller.
            _log.warning("%r could not be released and ends with its ttl: %s", lease, failure)

    declared = [_as_parameter(kind.name, name, how) for name, how in parameters.items()]
    hold.__signature__ = inspect.Signature(declared)  # pyright: ignore[reportFunctionMemberAccess] - read by FastAPI
    return hold


def _as_parameter(purpose: str, name: str, how: Any) -> inspect.Parameter:
    """The parameter of the dependency that FastAPI sees."""
    annotation, default = how, inspect.Parameter.empty
    if isinstance(how, params.Depends):
        annotation, default = Any, how
    elif inspect.isroutine(how):
        annotation, default = Any, Depends(how)
    elif isinstance(how, type) or get_origin(how) is not None:
        kind = get_args(how)[0] if get_origin(how) is Annotated else how
        if isinstance(kind, type) and not _is_allowed_type(kind):
            raise InvalidRequest(
                f"purpose {purpose!r}: {name} must be text, a whole number, a UUID or a date, not {kind.__name__}"
            )
    else:
        raise InvalidRequest(
            f"purpose {purpose!r}: {name} must be a type, Annotated[...], Depends(...) or a function, not {how!r}"
        )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _is_allowed_type(kind: type) -> bool:
    return issubclass(kind, str | int | UUID | date) and not issubclass(kind, bool | datetime)


def _checked(error: Exception) -> LeaseholdError:
    assert isinstance(error, LeaseholdError)
    return error
