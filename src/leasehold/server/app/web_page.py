"""The web page and its files, for paths without a route."""

from __future__ import annotations

import hashlib
import html
import json
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from leasehold.server.app.demo_team import DemoUser
    from leasehold.server.http.static_files import PageFiles

PAGES = frozenset({"", "sign-in", "register", "documents", "editing-now"})
"""First segments of the page's own routes. Each is answered with the page, so that it can be reloaded."""
RESERVED = frozenset({"api", "ws", "healthz", "readyz", "metrics", "docs", "redoc", "openapi.json"})
"""First segments of paths for programs, which get a 404 rather than the page."""

_UNBUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>Leasehold</title></head>
<body><h1>Leasehold is running</h1>
<p>The API answers, but the web page was not built. With Node 20 or newer: <code>make web</code>, and start the
server again. The wheel contains the page.</p></body></html>
"""


class WebPage:
    """For `starlette.routing.Router.default`: the page and its files for GET and HEAD, ``otherwise`` for all else.

    The page answers its own routes, and with the status 404 a browser's request for an unknown page. It contains the
    ``team`` of the demo, if there is one.
    """

    def __init__(self, files: PageFiles, *, team: Sequence[DemoUser], otherwise: ASGIApp) -> None:
        self._files = files
        self._otherwise = otherwise
        self._index = _UNBUILT if files.index is None else _with_team(files.index, team)
        self._etag = f'"{hashlib.sha256(self._index.encode()).hexdigest()[:32]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        found = None
        if scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}:
            found = self._find(scope["path"].removeprefix("/"), Headers(scope=scope))
        await (found or self._otherwise)(scope, receive, send)

    def _find(self, path: str, headers: Headers) -> Response | None:
        first = path.partition("/")[0]
        if first in RESERVED:
            return None
        if first in PAGES:
            return self._show(headers)
        return self._send(path, headers) or self._show_not_found(headers)

    def _show(self, headers: Headers) -> Response:
        # Never cached without revalidation, because it names the files of its build. It is small.
        told = {"Cache-Control": "no-cache", "ETag": self._etag}
        if self._etag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=told)
        return HTMLResponse(self._index, headers=told)

    def _send(self, name: str, headers: Headers) -> Response | None:
        file = self._files.get(name)
        if file is None:
            return None
        kept = "public, max-age=31536000, immutable" if file.is_hashed else "public, max-age=3600"
        told = {"Cache-Control": kept}
        body = file.body
        if file.gzipped is not None:
            told["Vary"] = "Accept-Encoding"
            if "gzip" in headers.get("accept-encoding", ""):
                told["Content-Encoding"] = "gzip"
                body = file.gzipped
        return Response(body, media_type=file.media_type, headers=told)

    def _show_not_found(self, headers: Headers) -> Response | None:
        if self._files.index is None or "text/html" not in headers.get("accept", ""):
            return None
        return HTMLResponse(self._index, status_code=404, headers={"Cache-Control": "no-cache"})


def _with_team(index: str, team: Sequence[DemoUser]) -> str:
    """The page with the demo users in its head, so that it needs no request for them."""
    if not team:
        return index
    people = [
        {"name": each.name, "role": each.role, "email": each.email, "password": each.password}
        for each in team
    ]
    meta = f'<meta name="leasehold-demo" content="{html.escape(json.dumps(people))}" />'
    return index.replace("</head>", f"{meta}</head>", 1)
