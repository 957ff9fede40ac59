"""FastAPI dependencies: the signed-in user, the permission that a route needs, and rate limits."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import Request

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.http.dependencies import declare_permission, editor_dependency
from leasehold.documents.ports import Access, Principal, Role
from leasehold.documents.state import Editor
from leasehold.errors import NotSignedIn
from leasehold.server.http.fields import PathId
from leasehold.server.http.rate_limiter import Budget, address_of
from leasehold.server.services import UsesServices, services_of

_LOGIN_PATHS = frozenset({"/api/auth/login", "/api/auth/register"})

# Without the header it gives None, so that the response is a problem of ours.
_bearer = HTTPBearer(scheme_name="access token", description="from `/api/auth/login`", auto_error=False)
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def current_user(services: UsesServices, authorization: Bearer) -> Principal:
    """The user whom the request's access token was issued to; `NotSignedIn` without a valid token."""
    if authorization is None:
        raise NotSignedIn("an access token is required: Authorization: Bearer …")
    return services.auth.principal_of(authorization.credentials)


CurrentUser = Annotated[Principal, Depends(current_user)]
"""``async def endpoint(user: CurrentUser)``."""
CurrentEditor = Annotated[Editor, Depends(editor_dependency(current_user))]
"""The user and their tab: ``async def endpoint(editor: CurrentEditor)``."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The signed-in user, and the role that the route needs: the query checks it in its own transaction."""

    user_id: str
    needs: Role


def require(role: Role) -> Any:
    """The caller has this role in the path's document. Gives their `Access`."""

    async def check_role(document_id: PathId, user: CurrentUser, services: UsesServices) -> Access:
        return await PermissionCheck(services.access).check(user.user_id, document_id, role)

    return declare_permission(role, check_role)


def _caller_as(role: Role) -> Any:
    async def caller(user: CurrentUser) -> Caller:
        return Caller(user.user_id, role)

    return declare_permission(role, caller)


async def _owner_or_self(user_id: PathId, user: CurrentUser) -> Caller:
    return Caller(user.user_id, "viewer" if user_id == user.user_id else "owner")


async def _any_user(user: CurrentUser, services: UsesServices) -> None:
    # A token is valid for some minutes after its account was deleted in the database. Other routes find no role.
    await services.auth.users.get(user.user_id)


async def _anyone() -> None: ...


PUBLIC = declare_permission("nothing", _anyone)
"""No login is needed."""
ANY_USER = declare_permission("login", _any_user)
"""A login of an account that exists is enough."""

ByViewer = Annotated[Caller, _caller_as("viewer")]
ByEditor = Annotated[Caller, _caller_as("editor")]
ByOwner = Annotated[Caller, _caller_as("owner")]
"""``async def endpoint(by: ByOwner)``: the query that ``by`` is given to raises `NotAllowed` for a lower role."""
ByOwnerOrSelf = Annotated[Caller, declare_permission("owner", _owner_or_self)]
"""The same; a viewer's role is enough for their own membership, the path's ``user_id``."""


async def rate_limited_user(request: Request, authorization: Bearer) -> Principal:
    """The signed-in user, after counting the request; `RateLimited` above their budget."""
    # Called rather than depended on: FastAPI takes longer to resolve each dependency than all of this takes.
    services = await services_of(request)
    user = await current_user(services, authorization)
    services.rate_limiter.spend(budget_of(request.method, request.scope["path"]), user.user_id)
    return user


async def rate_limit_address(request: Request, services: UsesServices) -> None:
    """For routes without a login: counts requests by the address that they come from."""
    budget = "sign_in" if request.scope["path"] in _LOGIN_PATHS else "other"
    services.rate_limiter.spend(budget, address_of(request))


def budget_of(method: str, path: str) -> Budget:
    """The budget that a signed-in user's request counts against."""
    if path.startswith("/api/documents/"):
        if method == "POST" and path.endswith(("/lock", "/lock/force-take")):
            return "acquire"
        if path.endswith(("/lock/heartbeat", "/content")) or (method == "DELETE" and path.endswith("/lock")):
            return "keep"
    return "other"
