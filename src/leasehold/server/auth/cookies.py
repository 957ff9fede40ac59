"""The cookies of a browser: the refresh token and the known device, hidden from pages, and the CSRF token, visible to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

REFRESH = "leasehold_refresh"
CSRF = "leasehold_csrf"
DEVICE = "leasehold_device"

_PATH = "/api/auth"
_DEVICE_SECONDS = 400 * 86_400  # as long as browsers keep a cookie


def set_cookies(
    response: Response, request: Request, *, refresh_token: str, csrf_token: str, seconds: float, secure: bool
) -> None:
    """Set the two of a login for ``seconds``; for HTTPS only if ``secure``, or if the request used HTTPS."""
    secure = secure or request.url.scheme == "https"
    for name, value, path, hidden in (
        (REFRESH, refresh_token, _path_of(request), True),
        (CSRF, csrf_token, "/", False),
    ):
        response.set_cookie(
            name, value, max_age=int(seconds), path=path, secure=secure, httponly=hidden, samesite="strict"
        )


def set_device(response: Response, request: Request, value: str, *, secure: bool) -> None:
    """Set the cookie of a browser that has signed in; see `KnownDevices`. A logout leaves it."""
    secure = secure or request.url.scheme == "https"
    response.set_cookie(
        DEVICE,
        value,
        _DEVICE_SECONDS,
        path=_path_of(request),
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def clear_cookies(response: Response, request: Request) -> None:
    """Remove the two of a login."""
    response.delete_cookie(REFRESH, path=_path_of(request), httponly=True, samesite="strict")
    response.delete_cookie(CSRF, path="/", samesite="strict")


def _path_of(request: Request) -> str:
    # As the browser sees it if a proxy serves us below a path of its own.
    return request.scope.get("root_path", "") + _PATH
