"""The cookies of a signed-in browser: the refresh token, hidden from pages, and the CSRF token, visible to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

REFRESH = "leasehold_refresh"
CSRF = "leasehold_csrf"

_PATH = "/api/auth"


def set_cookies(
    response: Response, request: Request, *, refresh_token: str, csrf_token: str, seconds: float, secure: bool
) -> None:
    """Set both for ``seconds``; for HTTPS only if ``secure``, or if the request used HTTPS."""
    secure = secure or request.url.scheme == "https"
    for name, value, path, hidden in (
        (REFRESH, refresh_token, _path_of(request), True),
        (CSRF, csrf_token, "/", False),
    ):
        response.set_cookie(
            name, value, max_age=int(seconds), path=path, secure=secure, httponly=hidden, samesite="strict"
        )


def clear_cookies(response: Response, request: Request) -> None:
    """Remove both."""
    response.delete_cookie(REFRESH, path=_path_of(request), httponly=True, samesite="strict")
    response.delete_cookie(CSRF, path="/", samesite="strict")


def _path_of(request: Request) -> str:
    # As the browser sees it if a proxy serves us below a path of its own.
    return request.scope.get("root_path", "") + _PATH
