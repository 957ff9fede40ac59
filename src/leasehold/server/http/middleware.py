"""Around every request: its id, the browser's headers, a limit to its size, and an answer whatever happens inside.

One layer of plain ASGI, because every layer is paid for by every request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from leasehold.documents.http.problems import MEDIA_TYPE, explain
from leasehold.server.headers import OURS, headers_for
from leasehold.server.request_ids import HEADER, RequestIds

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

_PROBLEM = MEDIA_TYPE.encode()
# JSON may write a character of content as six, and not every client sends UTF-8 as it is.
_ESCAPED = 4


class Envelope:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, *, max_body: int, max_content: int) -> None:
        self._app = app
        self._ids = RequestIds()
        self._max_body = max_body
        self._max_content_body = max_body + _ESCAPED * max_content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, in any case."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        headers: dict[bytes, bytes] = dict(scope["headers"])
        name = self._ids.begin(headers.get(HEADER))
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        path: str = scope["path"]
        reply = _Reply(send, name, path)
        limit = self._max_content_body if path.endswith("/content") else self._max_body
        length = headers.get(b"content-length")
        if length is not None and not (length.isdigit() and int(length) <= limit):
            return await explain(HTTPException(413))(scope, receive, reply.send)
        if length is None and b"transfer-encoding" in headers:
            receive = _counted(receive, limit)
        try:
            await self._app(scope, receive, reply.send)
        except Exception as error:
            _log.exception("%s %s failed", scope["method"], path)
            if reply.has_begun:
                raise  # half an answer is on its way: the connection is closed instead
            await explain(error)(scope, receive, reply.send)


class _Reply:
    """An answer on its way out: with our headers, and if it is a problem with the request's id in it."""

    __slots__ = ("_name", "_path", "_send", "_start", "has_begun")

    def __init__(self, send: Send, name: bytes, path: str) -> None:
        self._send = send
        self._name = name
        self._path = path
        self._start: Message | None = None
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self._add_headers(message):
                self._start = message  # with the request's id it will be longer
                return
        elif self._start is not None:
            start, self._start = self._start, None
            message["body"] = message["body"].removesuffix(b"}") + b',"request_id":"%b"}' % self._name
            length = str(len(message["body"])).encode()
            start["headers"] = [
                (key, length if key == b"content-length" else value) for key, value in start["headers"]
            ]
            await self._send(start)
        await self._send(message)

    def _add_headers(self, message: Message) -> bool:
        """Whether it is a problem."""
        is_problem, added = False, headers_for(self._path)
        for key, value in message["headers"]:
            if key == b"content-type":
                is_problem = value == _PROBLEM
            elif key in OURS:
                added = [header for header in added if header[0] != key]
        message["headers"] = [*message["headers"], *added, (HEADER, self._name)]
        return is_problem


def _counted(receive: Receive, limit: int) -> Receive:
    """For bodies that do not say how long they are."""
    left = limit

    async def receive_counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise HTTPException(413)
        return message

    return receive_counted
