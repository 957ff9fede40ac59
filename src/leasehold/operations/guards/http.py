"""Fences over HTTP, in the header ``Leasehold-Fence``.

The caller sends the fence of its lease, and gets `StaleFence` if it is refused::

    httpx.put(url, json=..., auth=FenceAuth(lease))

The receiver passes the number to the guard of its own resource::

    app = FastAPI()
    add_fence_problems(app)

    @app.put("/deals/{deal_id}")
    async def change(deal_id: int, fence: ReceivedFence): ...
        await guarded_update(session, Deal, deal_id, fence, values)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from leasehold.core.leases.lease import LeaseState
from leasehold.core.validation import MAX_FENCE
from leasehold.errors import InvalidRequest, StaleFence
from leasehold.extras import requires_extra
from leasehold.http_problems import MEDIA_TYPE, body_of

with requires_extra(__name__, "operations"):
    import httpx
    from fastapi import Depends, FastAPI, Header, HTTPException, Request

    from leasehold.http_problems.fastapi import problem_response

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from fastapi.responses import JSONResponse

HEADER = "Leasehold-Fence"
"""The name of the header; its value is the fence in decimal digits."""

_FENCE = re.compile(r"0|[1-9][0-9]{0,15}")


class FenceAuth(httpx.Auth):
    """For ``auth=`` of httpx: sends the lease's fence with each request.

    With a lease that has ended, no request is sent and `LeaseLost` is raised. A response with ``stale_fence`` (see
    `stale_fence_problem`) raises `StaleFence`. Other credentials go into headers. Shared leases are refused: the
    receiver could not know that their fences must not be registered.
    """

    def __init__(self, lease: LeaseState) -> None:
        if not isinstance(lease, LeaseState):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(f"FenceAuth takes a lease, not {type(lease).__name__}")
        if lease.mode != "exclusive":
            raise InvalidRequest(
                "FenceAuth takes an exclusive lease; the fence of a shared one must not be registered"
            )
        self._lease = lease

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See httpx."""
        response = yield self._with_fence(request)
        if _may_be_stale(response):
            response.read()
            _raise_if_stale(response)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """See httpx."""
        response = yield self._with_fence(request)
        if _may_be_stale(response):
            await response.aread()
            _raise_if_stale(response)

    def _with_fence(self, request: httpx.Request) -> httpx.Request:
        self._lease.check()
        request.headers[HEADER] = str(self._lease.fence)
        return request


class FenceHeaderError(HTTPException):
    """A request without a valid ``Leasehold-Fence``: 428 if it is missing, 400 if it is malformed."""

    def __init__(self, status_code: int, message: str) -> None:
        # A problem document even in an application that has not called `add_fence_problems`.
        super().__init__(status_code, message, headers={"content-type": MEDIA_TYPE})


def received_fence(
    request: Request,
    leasehold_fence: Annotated[
        str | None, Header(alias=HEADER, description="The fence of the caller's lease.")
    ] = None,
) -> int:
    """A FastAPI dependency: the fence of the request. A request without one is refused with 428 or 400."""
    given = request.headers.getlist(HEADER)
    if leasehold_fence is None or not given:
        raise FenceHeaderError(428, f"this request needs the header {HEADER}, with the fence of your lease")
    if len(given) > 1:
        raise FenceHeaderError(400, f"{HEADER} was given {len(given)} times")
    if not _FENCE.fullmatch(given[0]) or int(given[0]) > MAX_FENCE:
        raise FenceHeaderError(400, f"{HEADER} is a whole number from 0 to 2**52 in decimal digits")
    return int(given[0])


ReceivedFence = Annotated[int, Depends(received_fence)]
"""The type of a parameter that receives the fence of the request."""


def stale_fence_problem(request: Request, error: Exception) -> JSONResponse:
    """The answer to a request whose fence is stale: 409, ``stale_fence``, with what was seen and given."""
    del request
    assert isinstance(error, StaleFence)
    return problem_response(body_of(error))


def add_fence_problems(app: FastAPI) -> None:
    """Have ``app`` answer stale, missing and malformed fences with problem documents."""
    app.add_exception_handler(StaleFence, stale_fence_problem)
    app.add_exception_handler(FenceHeaderError, _header_problem)


def _header_problem(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, FenceHeaderError)
    code, status, message = InvalidRequest.code, error.status_code, error.detail
    body = {"type": code, "code": code, "title": "A fence is needed", "status": status, "message": message}
    return problem_response(body)


def _may_be_stale(response: httpx.Response) -> bool:
    return response.status_code == 409 and response.headers.get("content-type", "").startswith(MEDIA_TYPE)


def _raise_if_stale(response: httpx.Response) -> None:
    try:
        problem = response.json()
        is_stale = problem["code"] == StaleFence.code
        seen, given = (int(problem["seen"]), int(problem["given"])) if is_stale else (0, 0)
    except (ValueError, KeyError, TypeError):
        return  # some other problem: the caller has the response
    if is_stale:
        raise StaleFence(seen=seen, given=given)
