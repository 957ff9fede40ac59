"""A uvicorn protocol that can abort sockets: ``uvicorn.run(app, ws=SocketProtocol, ws_per_message_deflate=False)``.

A socket whose peer does not read cannot be closed normally: the close frame would wait behind the unread data, and
keep its memory. Without this protocol the locks work as well, but such a peer keeps its connection without limit.
A ``ws_max_size`` of some 100 KiB saves the memory that a message takes before it is refused.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

if TYPE_CHECKING:
    import asyncio

    from websockets.http11 import Request

# Unsent bytes above which a socket counts as slow: a few dozen messages.
_HIGH_WATER = 16384
_ABORT_AFTER = 5.0


class SocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's own protocol, with a way for the application to abort a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        # The kernel would buffer megabytes for a peer that does not read, and hide here that it is slow.
        # Data in flight to a peer that does read is not limited by this.
        with suppress(AttributeError, OSError):  # not on every system, and not for every kind of connection
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _HIGH_WATER)

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
        self.loop.call_later(_ABORT_AFTER, self.transport.abort)
