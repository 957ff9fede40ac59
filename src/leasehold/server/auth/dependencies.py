"""Who is asking: the dependency of every route that needs to know."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from leasehold.documents.ports import Principal
from leasehold.errors import NotSignedIn
from leasehold.server.services import UsesServices  # noqa: TC001 - FastAPI reads it

bearer = HTTPBearer(scheme_name="access token", description="from `/api/auth/login`", auto_error=False)
"""Reads the header; without one it is None, so that it is we who answer."""

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


async def current_user(services: UsesServices, authorization: Bearer) -> Principal:
    """Who the access token of the request speaks for; `NotSignedIn` without a good one."""
    if authorization is None:
        raise NotSignedIn("this needs an access token: Authorization: Bearer …")
    return services.identity.principal_of(authorization.credentials)


CurrentUser = Annotated[Principal, Depends(current_user)]
"""``async def endpoint(user: CurrentUser)``."""
