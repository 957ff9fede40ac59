"""Uvicorn's HTTP protocol with the limits that it does not have: on connections, heads, time, and unread responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from leasehold.documents.http.client_address import plain_address
from leasehold.http_problems import MEDIA_TYPE
from leasehold.runtime.read_fairness import LARGE_READ, limit_unsent, pause_reading

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from leasehold.server.process.connection_limits import ConnectionCounter, ConnectionLimits

# At most this much is parsed before the size of the head is checked.
_SLICE = 16_384
# Chunks of a body: above this number they must have so many bytes on average.
_FREE_PIECES = 500
_LEAST_PIECE = 64
# Seconds between two large reads of a connection, for each connection of its address: together they get the time of a few.
_PAUSE = 0.0005
# What is received with a body but is not of it, as the sizes of its chunks, may have an eighth of its bytes.
_BODY_PER_FRAMING = 8
# Of a response, in the kernel.
_UNSENT = 16_384

_REFUSALS = {
    400: ("invalid_request", "this is not a valid HTTP request"),
    408: ("invalid_request", "the request did not arrive in time"),
    429: ("rate_limited", "too many connections; try again soon"),
    431: ("invalid_request", "the head of the request is too large"),
}


class HttpProtocol(HttpToolsProtocol):
    """One connection. It is ``idle`` between requests, then in the ``head`` or in the ``body`` of one.

    There are no timers for a request that arrives in one piece.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        counter: ConnectionCounter,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._counter = counter
        self._group: str | None = None
        self._phase: Literal["idle", "head", "body", "upgraded"] = "idle"
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_pieces = 0
        self._unsent = 0
        self._refusal = 400
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_for = ""
        self._sending: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        # Otherwise the kernel takes megabytes, and more only when it has sent a third of them: that hides how much the client
        # reads.
        limit_unsent(transport, _UNSENT)
        if self.client is not None:
            self.client = (plain_address(self.client[0]), self.client[1])
            self._group = self._counter.group_of(self.client[0])
        has_place = self._group is None or self._counter.enter(self._group)
        if not has_place:
            self._group = None
        if not has_place or len(self.connections) > self._limits.connections:
            self.connections.discard(self)
            self._refuse(429)
        else:
            self._set_deadline("head", self._limits.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._leave()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """See uvicorn. From here on the limits of sockets apply."""
        if self._is_answering() or self.flow.write_paused:
            # Responses would be written into the socket, and nothing would limit how much of them is unread.
            self.transport.abort()
            return
        self._phase = "upgraded"
        self._leave()
        super().handle_websocket_upgrade()

    def _leave(self) -> None:
        self._clear_deadline()
        self._forget_unsent()
        if self._group is not None:
            group, self._group = self._group, None
            self._counter.leave(group)

    # The request

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if len(data) >= LARGE_READ:
            peers = 0 if self._group is None else self._counter.connections_of(self._group)
            pause_reading(
                self.loop, self.transport, lambda: not self.flow.read_paused, seconds=peers * _PAUSE
            )
        for start in range(0, len(data), _SLICE):
            piece = data[start : start + _SLICE] if len(data) > _SLICE else data
            self._head_bytes += len(piece)
            super().data_received(piece)
            if self._phase == "upgraded" or self.transport.is_closing():
                return
            if not self._is_head_small():
                self._refuse(431)
                return
        self._watch_request()

    def on_message_begin(self) -> None:
        """See httptools."""
        if len(self.pipeline) >= self._limits.pipelined:
            # The client does not wait for responses, and each request takes memory.
            self.transport.abort()
            raise _RefusedError
        super().on_message_begin()
        self._phase, self._head_bytes, self._body_bytes, self._body_pieces = "head", 0, 0, 0

    def on_headers_complete(self) -> None:
        """See httptools."""
        if len(self.headers) > self._limits.headers:
            self._refusal = 431
            raise _RefusedError
        self._phase, self._head_bytes = "body", 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._body_bytes += len(body)
        self._body_pieces += 1
        self._head_bytes -= len(body) + len(body) // _BODY_PER_FRAMING
        if self._body_pieces > _FREE_PIECES and self._body_bytes < self._body_pieces * _LEAST_PIECE:
            raise _RefusedError  # parsing them takes far more time than receiving them
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        self._phase, self._head_bytes, self._deadline_for = "idle", 0, ""
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """See uvicorn."""
        del msg
        self._refuse(self._refusal)

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _is_head_small(self) -> bool:
        # In the body, this is about extensions of chunks and about trailers, which are added to the headers.
        return self._head_bytes <= self._limits.head_bytes and (
            self._phase == "idle" or len(self.headers) <= self._limits.headers
        )

    def _watch_request(self) -> None:
        """Set the deadline for the rest of a request that has begun."""
        if self._phase == "idle" and not self._head_bytes:
            self._clear_deadline()
            if not self._is_answering():
                # The request was answered before it was complete, and its rest has ended uvicorn's timer.
                self._set_deadline("head", self._limits.seconds)
        elif self._phase != "body":
            if self._deadline_for != "head":
                self._set_deadline("head", self._limits.seconds)
        elif self._deadline_for not in ("body", "rest"):
            self._await_body()

    def _await_body(self) -> None:
        begun_with = self._body_bytes

        def check() -> None:
            # While reading is paused the application is slow, and not the client.
            if self.flow.read_paused or self._body_bytes - begun_with >= self._limits.least_progress:
                self._await_body()
            else:
                self._refuse(408)

        self._set_deadline("body", self._limits.seconds, check)

    def _set_deadline(self, phase: str, seconds: float, check: Any = None) -> None:
        self._clear_deadline()
        self._deadline_for = phase
        self._deadline = self.loop.call_later(seconds, check or self._on_deadline)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline, self._deadline_for = None, ""

    def _on_deadline(self) -> None:
        if self._phase == "idle" and not self._head_bytes:
            self._close()  # a browser that has connected in advance would take a response for that to its next request
        elif self.flow.read_paused:
            self._set_deadline("head", self._limits.seconds)  # until requests before it are answered
        else:
            self._refuse(408)

    # The response

    def on_response_complete(self) -> None:
        """See uvicorn."""
        if self._phase == "body" and not self.transport.is_closing() and not self.pipeline:
            # Without a limit a client could send the rest of a refused request for ever.
            self._set_deadline("rest", self._limits.linger_seconds, self._close)
        super().on_response_complete()
        self._watch_closing()

    def timeout_keep_alive_handler(self) -> None:
        """See uvicorn."""
        self._close()

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        if self._group is not None and not self._counter.keep_unsent(self._group, self._unsent):
            self._unsent = 0
            self.loop.call_soon(self.transport.abort)  # not within its own call
        else:
            self._watch_reading(self._unsent)

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        self._forget_unsent()
        self._watch_closing()

    def _watch_closing(self) -> None:
        """Closing waits for the client to read what is unsent, without limit."""
        if self.transport.is_closing() and self.parser is not None and self._sending is None:
            self._watch_reading(self.transport.get_write_buffer_size())

    def _watch_reading(self, before: int) -> None:
        def check() -> None:
            left = self.transport.get_write_buffer_size()
            if before - left < self._limits.least_progress:
                self.transport.abort()
            else:
                self._watch_reading(left)

        self._sending = self.loop.call_later(self._limits.seconds, check)

    def _forget_unsent(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        if self._group is not None and self._unsent:
            self._counter.forget_unsent(self._group, self._unsent)
        self._unsent = 0

    # The end

    def _refuse(self, status: int) -> None:
        """Answer with a problem and close. An unfinished response is cut instead."""
        if self.transport.is_closing():
            return
        if self.pipeline or (self._is_answering() and self.cycle.response_started):
            self.transport.abort()
            return
        self._clear_deadline()
        code, message = _REFUSALS[status]
        phrase = STATUS_LINE[status][13:-2].decode()
        problem = {"type": code, "code": code, "title": phrase, "status": status, "message": message}
        body = json.dumps(problem).encode()
        head = [STATUS_LINE[status]]
        head += [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        if status == 429:
            head.append(b"retry-after: 1\r\n")
        head.append(b"content-type: %b\r\ncontent-length: %d\r\n" % (MEDIA_TYPE.encode(), len(body)))
        self.transport.write(b"".join([*head, b"cache-control: no-store\r\nconnection: close\r\n\r\n", body]))
        self._close()

    def _close(self) -> None:
        self.transport.close()
        self._watch_closing()


class _RefusedError(Exception):
    """Stops the parser."""
