"""Registering, signing in and out.

The access token goes to the page, which keeps it in memory. The refresh token goes into a cookie that no page can
read, so whoever uses it must show with a header that the request was made by our own page (see `csrf`).

That somebody has an account with an address can be found out by registering with it. To hide it, mail would have to
be sent.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Cookie, Depends, Header, Request, Response

from leasehold.documents.http.problems import problem_responses
from leasehold.errors import NotSignedIn
from leasehold.server.auth.cookies import CSRF, REFRESH, clear_cookies, set_cookies
from leasehold.server.auth.dependencies import Bearer, CurrentUser  # noqa: TC001 - FastAPI reads them
from leasehold.server.auth.schemas import Credentials, Registration, SignedInUser, User
from leasehold.server.services import UsesServices  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from leasehold.server.auth.logins import SignedIn

_LONGEST = 256


async def _refresh_token(
    services: UsesServices,
    token: Annotated[str | None, Cookie(alias=REFRESH, max_length=_LONGEST)] = None,
    cookie: Annotated[str | None, Cookie(alias=CSRF, max_length=_LONGEST)] = None,
    header: Annotated[str | None, Header(alias="X-CSRF-Token", max_length=_LONGEST)] = None,
) -> str | None:
    """The refresh token of a request that our own page has made."""
    if token is not None:
        services.identity.csrf.check(refresh_token=token, cookie=cookie, header=header)
    return token


RefreshToken = Annotated[str | None, Depends(_refresh_token)]


@cache
def accounts_router() -> APIRouter:
    """``/api/auth``."""
    router = APIRouter(prefix="/api/auth", tags=["accounts"])

    @router.post("/register", status_code=201, responses=problem_responses(409))
    async def register(
        asked: Registration, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """Make an account, and sign in. 409 if somebody has the address already."""
        password = asked.password.get_secret_value()
        user = await services.identity.register(
            email=asked.email, password=password, display_name=asked.display_name
        )
        return _signed_in(services, request, response, await services.identity.sessions.start(user))

    @router.post("/login", responses=problem_responses(401))
    async def login(
        asked: Credentials, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """Sign in. 401 whether there is no such account or the password is wrong."""
        password = asked.password.get_secret_value()
        session = await services.identity.sign_in(email=asked.email, password=password)
        return _signed_in(services, request, response, session)

    @router.post("/refresh", responses=problem_responses(401, 403, 409))
    async def refresh(
        token: RefreshToken, services: UsesServices, request: Request, response: Response
    ) -> SignedInUser:
        """A new access token, by the cookie. 401 if the session is over; 409 if another tab was faster: ask again."""
        if token is None:
            raise NotSignedIn("there is no session: sign in")
        return _signed_in(services, request, response, await services.identity.refresh(token))

    @router.post(
        "/logout",
        status_code=204,
        responses=problem_responses(401, 403),
        # Without an access token, too: the cookie is enough.
        openapi_extra={"security": [{}]},
    )
    async def logout(
        token: RefreshToken,
        authorization: Bearer,
        services: UsesServices,
        request: Request,
        response: Response,
    ) -> None:
        """End the session of the cookie, and that of the access token. Doing it twice is harmless.

        An access token that has expired will do. One that is not ours says nothing beside the cookie, and 401 alone.
        """
        access_token = None if authorization is None else authorization.credentials
        await services.identity.sign_out_with(refresh_token=token, access_token=access_token)
        clear_cookies(response, request)

    @router.get("/me", responses=problem_responses(401))
    async def me(user: CurrentUser, services: UsesServices) -> User:
        """Who is signed in."""
        found = await services.identity.users.with_id(user.user_id)
        if found is None:
            raise NotSignedIn("the account does not exist any more")
        return User.of(found)

    return router


def _signed_in(
    services: UsesServices, request: Request, response: Response, session: SignedIn
) -> SignedInUser:
    identity, user = services.identity, session.user
    csrf_token = identity.csrf.of(session.refresh_token)
    set_cookies(
        response,
        request,
        refresh_token=session.refresh_token,
        csrf_token=csrf_token,
        seconds=session.expires_at - time.time(),
        secure=services.settings.cookies_are_secure,
    )
    token = identity.tokens.issue(
        user_id=user.id, user_name=user.display_name, session_id=session.session_id, at=session.seen_at
    )
    return SignedInUser(
        **User.of(user).model_dump(),
        access_token=token.text,
        expires_in=token.expires_in,
        csrf_token=csrf_token,
    )
