"""What each request is counted as, and for whom: the dependencies that spend from a `Limiter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request  # noqa: TC002 - FastAPI reads it

from leasehold.documents.ports import Principal  # noqa: TC001 - FastAPI reads it
from leasehold.server.auth.dependencies import Bearer, current_user
from leasehold.server.http.rate_limiter import address_of
from leasehold.server.services import UsesServices, services_of

if TYPE_CHECKING:
    from leasehold.server.http.rate_limiter import Budget

_SIGN_IN = frozenset({"/api/auth/login", "/api/auth/register"})


async def limited_user(request: Request, authorization: Bearer) -> Principal:
    """Who is asking, counted; `RateLimited` if that was too often."""
    # Called, not depended on: FastAPI takes longer to find each of them than all of this takes.
    services = await services_of(request)
    user = await current_user(services, authorization)
    services.limiter.spend(budget_of(request.method, request.scope["path"]), user.user_id)
    return user


async def limited_address(request: Request, services: UsesServices) -> None:
    """For routes that anybody may ask: counted by where the request comes from."""
    budget = "sign_in" if request.scope["path"] in _SIGN_IN else "other"
    services.limiter.spend(budget, address_of(request))


def budget_of(method: str, path: str) -> Budget:
    """Which budget a request of a signed-in user is counted in."""
    if path.startswith("/api/documents/"):
        if method == "POST" and path.endswith(("/lock", "/lock/force-take")):
            return "acquire"
        if path.endswith(("/lock/heartbeat", "/content")) or (method == "DELETE" and path.endswith("/lock")):
            return "keep"
    return "other"
