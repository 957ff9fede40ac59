"""A minimal HTTP client: one keep-alive connection, requests as prepared bytes."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any


class Refused(Exception):
    """An unexpected response."""


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time; responses must have a Content-Length."""

    def __init__(self) -> None:
        self._unread = b""
        self._whole = 0  # the length of the answer that is coming in, once its head is there
        self._body_at = 0
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_closed = False

    @classmethod
    async def open(cls, port: int) -> "Connection":
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Status and body of the response."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if not self._whole:
            head, end, _ = self._unread.partition(b"\r\n\r\n")
            if not end:
                return
            self._body_at = len(head) + len(end)
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._whole = self._body_at + int(length)
        if len(self._unread) >= self._whole and self._answer is not None:
            answer, self._answer = self._answer, None
            body = self._unread[self._body_at : self._whole]
            status = int(self._unread[9:12])
            self._unread, self._whole = self._unread[self._whole :], 0
            if not answer.done():
                answer.set_result((status, body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Refused(f"the server closed the connection: {exc}"))

    def close(self) -> None:
        self._transport.close()


def request_of(
    method: str, path: str, *, headers: Mapping[str, str] | None = None, body: Any = None
) -> bytes:
    """The bytes of a request, with or without a JSON body."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{k}: {v}" for k, v in (headers or {}).items()),
    ]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Caller:
    """Sends occasional requests, and reconnects when the server has closed the connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Connection | None = None

    async def ask(self, request: bytes, *, expect: int = 200) -> Any:
        """The JSON of the response; `Refused` for another status than expected."""
        if self._connection is None or self._connection.is_closed:
            self._connection = await Connection.open(self._port)
        status, body = await self._connection.ask(request)
        if status != expect:
            asked = b" ".join(request.split(maxsplit=2)[:2]).decode()
            raise Refused(f"{asked}: {status} {body.decode()}")
        return json.loads(body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
