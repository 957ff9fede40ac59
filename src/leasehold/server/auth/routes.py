"""Routes for getting a login: registration, login, refresh and logout.

The access token goes to the page, which keeps it in memory. The refresh token goes into a cookie that no page can
read, so its requests must prove with a header that our own page made them (see `csrf`).

Registration reveals that an address has an account already. Hiding that would need mail.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Cookie, Depends, Header, Request, Response

from leasehold.documents.http.problems import problem_responses
from leasehold.errors import NotAllowed, NotSignedIn
from leasehold.server.auth.cookies import CSRF, DEVICE, REFRESH, clear_cookies, set_cookies, set_device
from leasehold.server.auth.dependencies import ANY_USER, PUBLIC, Bearer, CurrentUser
from leasehold.server.auth.schemas import Credentials, Registration, SignedInUser, User
from leasehold.server.http.rate_limiter import host_of
from leasehold.server.services import UsesServices  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from leasehold.server.auth.logins import ActiveLogin
    from leasehold.server.db.models import UserRow

_MAX_LENGTH = 256


async def _refresh_token(
    services: UsesServices,
    token: Annotated[str | None, Cookie(alias=REFRESH, max_length=_MAX_LENGTH)] = None,
    cookie: Annotated[str | None, Cookie(alias=CSRF, max_length=_MAX_LENGTH)] = None,
    header: Annotated[str | None, Header(alias="X-CSRF-Token", max_length=_MAX_LENGTH)] = None,
) -> str | None:
    """The refresh token of the cookie, after the check that our own page made the request."""
    if token is not None:
        services.auth.csrf.check(refresh_token=token, cookie=cookie, header=header)
    return token


RefreshToken = Annotated[str | None, Depends(_refresh_token)]


@cache
def account_router() -> APIRouter:
    """``/api/auth``."""
    router = APIRouter(prefix="/api/auth", tags=["accounts"])

    @router.post("/register", status_code=201, responses=problem_responses(403, 409), dependencies=[PUBLIC])
    async def register(
        asked: Registration, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """Create an account and log in. 409 if the address is taken, 403 if registration is closed."""
        if not services.settings.registration:
            raise NotAllowed("registration is closed on this server")
        password = asked.password.get_secret_value()
        user = await services.auth.register(
            email=asked.email, password=password, display_name=asked.display_name
        )
        active = await services.auth.logins.start(user)
        remember_device(services, request, response, user)
        return _respond_with_tokens(services, request, response, active)

    @router.post("/login", responses=problem_responses(401), dependencies=[PUBLIC])
    async def login(
        asked: Credentials, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """Log in. 401 for an unknown address and for a wrong password alike. 429 after too many wrong passwords."""
        active = await services.auth.log_in(
            email=asked.email,
            password=asked.password.get_secret_value(),
            device=request.cookies.get(DEVICE),
            address=host_of(request),
        )
        remember_device(services, request, response, active.user)
        return _respond_with_tokens(services, request, response, active)

    @router.post("/refresh", responses=problem_responses(401, 403, 409), dependencies=[PUBLIC])
    async def refresh(
        token: RefreshToken, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """Get a new access token with the cookie. 401 if the login has ended; 409 if another tab was faster: try again."""
        if token is None:
            raise NotSignedIn("there is no refresh token: sign in")
        return _respond_with_tokens(services, request, response, await services.auth.refresh(token))

    @router.post(
        "/logout",
        status_code=204,
        responses=problem_responses(401, 403),
        dependencies=[PUBLIC],
        # The access token is optional: the cookie is enough.
        openapi_extra={"security": [{}]},
    )
    async def logout(
        token: RefreshToken,
        authorization: Bearer,
        services: UsesServices,
        request: Request,
        response: Response,
    ) -> None:
        """Log out: end the logins of the cookie and of the access token. Repeating this is harmless.

        An expired access token is accepted. An invalid one is ignored beside the cookie, and answered with 401 alone.
        """
        access_token = None if authorization is None else authorization.credentials
        await services.auth.log_out_with(refresh_token=token, access_token=access_token)
        clear_cookies(response, request)

    @router.get("/me", responses=problem_responses(401), dependencies=[ANY_USER])
    async def me(user: CurrentUser, services: UsesServices) -> User:
        """Get the signed-in account."""
        return User.of(await services.auth.users.get(user.user_id))

    return router


def remember_device(services: UsesServices, request: Request, response: Response, user: UserRow) -> None:
    """Give the browser a limit of wrong passwords of its own: it has just shown the right one."""
    cookie = services.auth.devices.issue(user, request.cookies.get(DEVICE))
    set_device(response, request, cookie, secure=services.settings.cookies_are_secure)


def _respond_with_tokens(
    services: UsesServices, request: Request, response: Response, active: ActiveLogin
) -> SignedInUser:
    auth, user = services.auth, active.user
    csrf_token = auth.csrf.of(active.refresh_token)
    set_cookies(
        response,
        request,
        refresh_token=active.refresh_token,
        csrf_token=csrf_token,
        seconds=active.expires_at - time.time(),
        secure=services.settings.cookies_are_secure,
    )
    token = auth.tokens.issue(
        user_id=user.id,
        user_name=user.display_name,
        login_id=active.login_id,
        at=active.seen_at,
        until=active.expires_at,
    )
    return SignedInUser(
        **User.of(user).model_dump(),
        access_token=token.text,
        expires_in=token.expires_in,
        csrf_token=csrf_token,
    )
