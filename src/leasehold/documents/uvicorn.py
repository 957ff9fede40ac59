"""A uvicorn protocol for sockets: ``uvicorn.run(app, ws=SocketProtocol, ws_per_message_deflate=False)``.

It limits what uvicorn does not. Frames are counted, because an empty one is no message, but takes as long to parse as a
small one. And a connection can be aborted: that of a peer that does not read cannot be closed normally, because the
close frame would wait behind the unread data, and keep its memory.

Without this protocol the locks work as well, but any peer can occupy the worker. A ``ws_max_size`` of some 100 KiB saves
the memory that a message takes before it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from leasehold.documents.http.client_address import plain_address
from leasehold.documents.live.messages import CloseCode
from leasehold.runtime.read_fairness import LARGE_READ, limit_unsent, pause_reading

if TYPE_CHECKING:
    import asyncio

    from websockets.http11 import Request

# Unsent bytes above which a socket counts as slow: a few dozen messages.
_HIGH_WATER = 16384
# At most this much is parsed before the frames are counted: some 300 of the smallest, in about 1 ms.
_SLICE = 2048
_ABORT_AFTER = 5.0


class SocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's own protocol, with a limit on frames, and a way for the application to abort a connection.

    A peer that sends more frames than ``frames_per_second``, after ``frame_burst`` at once, is closed with 4429; one
    that has not completed the handshake is aborted. Frames of every kind count: messages, fragments, pings and pongs.
    """

    frames_per_second: ClassVar[float] = 50
    frame_burst: ClassVar[int] = 400

    _frames_left: float | None = None
    _counted_at = 0.0
    _aborting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        if self.client is not None:
            self.client = (plain_address(self.client[0]), self.client[1])
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        limit_unsent(self.transport, _HIGH_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if self._aborting is not None:
            self._aborting.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if len(data) <= _SLICE:
            super().data_received(data)
            return
        if len(data) >= LARGE_READ:
            pause_reading(self.loop, self.transport, lambda: not self.read_paused)
        for start in range(0, len(data), _SLICE):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _SLICE])

    def handle_events(self) -> None:
        """See uvicorn. Counts the frames first."""
        if self._spend(len(self.conn.events)):
            super().handle_events()
        else:
            self.conn.events_received()
            self.conn.data_to_send()  # the pongs
            if self.handshake_complete:
                self.cut(CloseCode.TOO_MANY_MESSAGES)
            else:
                self.transport.abort()

    def handle_ping(self) -> None:
        """See uvicorn. A peer that does not read gets no pongs, because they would be kept for it."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_connect(self, event: Request) -> None:
        """See uvicorn. The application starts in the next turn of the loop, so it sees the extension."""
        super().handle_connect(event)
        scope: dict[str, Any] | None = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"]["leasehold"] = {"cut": self.cut}

    def cut(self, code: int) -> None:
        """Send the close code, and end the connection whether that is read or not."""
        if not self.close_sent and not self.disconnected:
            self.stop_keepalive()
            try:
                self.conn.send_close(code)
                self.transport.write(b"".join(self.conn.data_to_send()))
            except InvalidState:
                pass  # the peer closed it first
            self.close_sent = True
        self.transport.close()
        self._abort_after(_ABORT_AFTER)

    def keepalive_timeout(self) -> None:
        """See uvicorn."""
        super().keepalive_timeout()
        self._abort_after(_ABORT_AFTER)

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """See uvicorn. Closing waits for the peer to read, without limit."""
        super().on_task_complete(task)
        self._abort_after(_ABORT_AFTER if self.close_timer is None else self.close_timeout + _ABORT_AFTER)

    def _spend(self, frames: int) -> bool:
        """Count frames; False above the limit."""
        now = self.loop.time()
        left = self.frame_burst if self._frames_left is None else self._frames_left
        left = min(self.frame_burst, left + (now - self._counted_at) * self.frames_per_second) - frames
        self._frames_left, self._counted_at = left, now
        return left >= 0

    def _abort_after(self, seconds: float) -> None:
        if not self.disconnected:
            if self._aborting is not None:
                self._aborting.cancel()
            self._aborting = self.loop.call_later(seconds, self.transport.abort)
