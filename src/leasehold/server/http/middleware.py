"""ASGI middleware around every request: request id, host, security headers, body limits, and a response in any case."""

from __future__ import annotations

import logging
import secrets
from itertools import count
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from leasehold.documents.http.problems import explain
from leasehold.errors import RateLimited
from leasehold.http_problems import MEDIA_TYPE
from leasehold.observe.request_id import REQUEST_ID_HEADER, is_safe, request_id

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from leasehold.server.http.allowed_hosts import AllowedHosts
    from leasehold.server.http.request_bodies import RequestBodies

_log = logging.getLogger("leasehold.server")

_ID_HEADER = REQUEST_ID_HEADER.encode()
_PROBLEM = MEDIA_TYPE.encode()
# Asked by programs that may know the server by any name. The responses are the same for everyone.
_HEALTH_PATHS = frozenset({"/healthz", "/readyz"})

_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# FastAPI's page for the OpenAPI document has an inline script, and Swagger UI from its usual place.
_DOCS_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src https://fastapi.tiangolo.com data:; frame-ancestors 'none'; "
    "script-src 'unsafe-inline' https://cdn.jsdelivr.net; style-src 'unsafe-inline' https://cdn.jsdelivr.net"
)
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"

Headers = list[tuple[bytes, bytes]]


def _with_policy(policy: str, *more: tuple[bytes, bytes]) -> Headers:
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
        *more,
    ]


# Data is never rendered as a page, and never cached by a proxy.
_DATA_HEADERS = _with_policy(_DATA_POLICY, (b"cache-control", b"no-store"))
_PAGE_HEADERS = _with_policy(_PAGE_POLICY)
_DOCS_HEADERS = _with_policy(_DOCS_POLICY)
# A route may set these itself.
_DEFAULTS = frozenset(key for key, _ in _DATA_HEADERS)

_UNKNOWN_HOST = "this server does not have this name: set LEASEHOLD_ALLOWED_HOSTS to the names that it has"
_DATA_PATHS = ("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json")


class ApiMiddleware:
    """Request id, host, security headers, body limits, and a problem for every unexpected error.

    One layer of plain ASGI, because every request pays for every layer.
    """

    def __init__(self, app: ASGIApp, *, bodies: RequestBodies, hosts: AllowedHosts) -> None:
        self._app = app
        self._bodies = bodies
        self._hosts = hosts
        # Request ids have one random prefix and a counter: they must be unique, but need not be secret.
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; answer what it fails to answer."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        id_of_request = self._start_request_id(headers.get(_ID_HEADER))
        path: str = scope["path"]
        is_known = self._hosts.allows(headers.get(b"host")) or path in _HEALTH_PATHS
        if scope["type"] != "http":
            if not is_known:
                return await send({"type": "websocket.close"})  # before the handshake is complete: 403
            return await self._app(scope, receive, send)

        response = _Response(send, id_of_request, path)
        try:
            if not is_known:
                raise HTTPException(421, _UNKNOWN_HOST)
            body = self._bodies.check(path, headers)
        except (HTTPException, RateLimited) as error:
            refusal = explain(error)
            _log.info("refused with %d: %s %s", refusal.status_code, scope["method"], path)
            return await refusal(scope, receive, response.send)
        try:
            if body is None:
                await self._app(scope, receive, response.send)
            else:
                with self._bodies.reading(body, receive) as receive_limited:
                    await self._app(scope, receive_limited, response.send)
        except ClientDisconnect:
            # Anyone could fill the log with tracebacks.
            _log.info("the client has gone: %s %s", scope["method"], path)
        except Exception as error:
            _log.exception("%s %s failed", scope["method"], path)
            if response.has_begun:
                raise  # part of the response is sent already: the server closes the connection
            await explain(error)(scope, receive, response.send)

    def _start_request_id(self, given: bytes | None) -> bytes:
        """Set the request id of this context, and return it: the caller's own if it is well-formed, else a new one."""
        if given is None or not is_safe(name := given.decode("latin-1")):
            name = f"{self._prefix}-{next(self._numbers)}"
        request_id.set(name)
        return name.encode()


class _Response:
    """Adds our headers to a response, and the request id to the body of a problem."""

    __slots__ = ("_path", "_request_id", "_send", "_start", "has_begun")

    def __init__(self, send: Send, request_id: bytes, path: str) -> None:
        self._send = send
        self._request_id = request_id
        self._path = path
        self._start: Message | None = None
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self._add_headers(message):
                self._start = message  # sent with the body, which the request id makes longer
                return
        elif self._start is not None:
            start, self._start = self._start, None
            message["body"] = message["body"].removesuffix(b"}") + b',"request_id":"%b"}' % self._request_id
            length = str(len(message["body"])).encode()
            start["headers"] = [
                (key, length if key == b"content-length" else value) for key, value in start["headers"]
            ]
            await self._send(start)
        await self._send(message)

    def _add_headers(self, message: Message) -> bool:
        """Add the headers; True if the response is a problem."""
        is_problem, added = False, _headers_for(self._path)
        for key, value in message["headers"]:
            if key == b"content-type":
                is_problem = value == _PROBLEM
            elif key in _DEFAULTS:
                added = [header for header in added if header[0] != key]
        message["headers"] = [*message["headers"], *added, (_ID_HEADER, self._request_id)]
        return is_problem


def _headers_for(path: str) -> Headers:
    if path.startswith(_DATA_PATHS):
        return _DATA_HEADERS
    return _DOCS_HEADERS if path == "/docs" else _PAGE_HEADERS
