"""The two cookies of a signed-in browser: one that only we can read, and one that our page can."""

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
    """Keep both for ``seconds``; over HTTPS only if ``secure``, or if the request came that way."""
    secure = secure or request.url.scheme == "https"
    for name, value, path, hidden in (
        (REFRESH, refresh_token, _path_of(request), True),
        (CSRF, csrf_token, "/", False),
    ):
        response.set_cookie(
            name, value, max_age=int(seconds), path=path, secure=secure, httponly=hidden, samesite="strict"
        )


def clear_cookies(response: Response, request: Request) -> None:
    """Have the browser forget both."""
    response.delete_cookie(REFRESH, path=_path_of(request), httponly=True, samesite="strict")
    response.delete_cookie(CSRF, path="/", samesite="strict")


def _path_of(request: Request) -> str:
    # As the browser sees it, where a proxy has put us below a path of its own.
    return request.scope.get("root_path", "") + _PATH
