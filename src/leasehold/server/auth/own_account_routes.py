"""Routes for one's own account: password, logins, and deletion."""

from functools import cache

from fastapi import APIRouter, Request, Response

from leasehold.documents.http.problems import problem_responses
from leasehold.errors import NotFound
from leasehold.server.auth.cookies import clear_cookies
from leasehold.server.auth.dependencies import ANY_USER, CurrentUser
from leasehold.server.auth.routes import remember_device
from leasehold.server.auth.schemas import AccountDeletion, Login, PasswordChange
from leasehold.server.db.models import LoginRow
from leasehold.server.http.fields import PathId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import SIGNED_IN
from leasehold.server.http.rate_limiter import address_of, host_of
from leasehold.server.services import UsesServices


@cache
def own_account_router() -> APIRouter:
    """``/api/auth/password``, ``…/logins`` and ``…/me``."""
    router = APIRouter(prefix="/api/auth", tags=["accounts"])

    @router.post(
        "/password",
        status_code=204,
        responses=SIGNED_IN | problem_responses(403, 409),
        dependencies=[ANY_USER],
    )
    async def change_password(
        asked: PasswordChange, user: CurrentUser, services: UsesServices, request: Request, response: Response
    ) -> None:
        """Change the password. Ends all other logins. 403 if the current password is wrong."""
        services.rate_limiter.spend("sign_in", address_of(request))
        changed = await services.auth.change_password(
            user,
            current=asked.current_password.get_secret_value(),
            new=asked.new_password.get_secret_value(),
            address=host_of(request),
        )
        remember_device(services, request, response, changed)

    @router.get("/logins", responses=SIGNED_IN, dependencies=[ANY_USER])
    async def list_logins(page: AskedPage, user: CurrentUser, services: UsesServices) -> Page[Login]:
        """List the account's logins, newest first."""
        found = await services.auth.logins.of(user.user_id, page=page)

        def show(login: LoginRow, last_used_at: float) -> Login:
            return Login(
                id=login.id,
                created_at=login.created_at,
                last_used_at=last_used_at,
                expires_at=login.expires_at,
                is_current=login.id == user.session_id,
            )

        return page.build(found, lambda row: show(*row))

    @router.delete("/logins", status_code=204, responses=SIGNED_IN, dependencies=[ANY_USER])
    async def end_other_logins(user: CurrentUser, services: UsesServices) -> None:
        """End all logins of the account but the caller's."""
        await services.auth.end_logins(user.user_id, but=user.session_id)

    @router.delete(
        "/logins/{login_id}",
        status_code=204,
        responses=SIGNED_IN | problem_responses(404),
        dependencies=[ANY_USER],
    )
    async def end_login(login_id: PathId, user: CurrentUser, services: UsesServices) -> None:
        """End a login of the account. 404 if it has none with this id, or it has ended."""
        if not await services.auth.end_logins(user.user_id, only=login_id):
            raise NotFound("login not found")

    @router.post(
        "/me/delete",
        status_code=204,
        responses=SIGNED_IN | problem_responses(403, 409),
        dependencies=[ANY_USER],
    )
    async def delete_account(
        asked: AccountDeletion,
        user: CurrentUser,
        services: UsesServices,
        request: Request,
        response: Response,
    ) -> None:
        """Delete the account with its personal documents. 409 while it is the only owner of a team. 403 for a wrong password.

        What it wrote in applications stays there without its name, except in applications without another member.
        """
        services.rate_limiter.spend("sign_in", address_of(request))
        await services.auth.delete_account(
            user, password=asked.password.get_secret_value(), address=host_of(request)
        )
        clear_cookies(response, request)

    return router
