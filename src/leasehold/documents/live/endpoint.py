"""The socket endpoint: checks the handshake and serves the socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.documents import audit
from leasehold.documents.http.client_address import address_group
from leasehold.documents.live.handlers import MessageHandlers
from leasehold.documents.live.messages import CloseCode
from leasehold.documents.live.origins import is_allowed
from leasehold.documents.live.socket import Socket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.documents.live.authentication import SocketAuthenticator
    from leasehold.documents.live.hub import Hub
    from leasehold.documents.live.socket import Receive, Send


class SocketEndpoint:
    """Plain ASGI: every socket would keep each layer in between in memory."""

    def __init__(
        self, hub: Hub, *, authenticator: SocketAuthenticator, allowed_origins: Sequence[str]
    ) -> None:
        self._hub = hub
        self._authenticator = authenticator
        self._allowed_origins = tuple(allowed_origins)
        self._handlers = MessageHandlers(hub)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        await receive()  # websocket.connect
        if not self._is_allowed(scope):
            audit.note("socket_refused", why="origin")
            # Before the handshake is complete, this answers 403.
            await send({"type": "websocket.close", "code": int(CloseCode.ORIGIN_REFUSED)})
        elif not self._hub.presence.has_place_for(address := _address_of(scope)):
            await _refuse_temporarily(scope, send)
        else:
            await self._serve(scope, receive, send, address)

    async def _serve(self, scope: dict[str, Any], receive: Receive, send: Send, address: str) -> None:
        self._hub.start()
        await send({"type": "websocket.accept"})
        cut = _extensions(scope).get("leasehold", {}).get("cut")
        socket = Socket(self._hub, receive=receive, send=send, cut=cut, address=address)
        await socket.run(self._authenticator.verify, self._handlers.answer)

    def _is_allowed(self, scope: dict[str, Any]) -> bool:
        headers = {
            name: [value.decode("latin-1") for key, value in scope["headers"] if key == name]
            for name in (b"origin", b"host")
        }
        origins, hosts = headers[b"origin"], headers[b"host"]
        return len(origins) <= 1 and is_allowed(
            origins[0] if origins else None, hosts[0] if hosts else None, self._allowed_origins
        )


def _address_of(scope: dict[str, Any]) -> str:
    """The client's address, as it is counted."""
    client = scope.get("client")
    return address_group(client[0]) if client else "unknown"


def _extensions(scope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return scope.get("extensions") or {}


async def _refuse_temporarily(scope: dict[str, Any], send: Send) -> None:
    if "websocket.http.response" not in _extensions(scope):
        await send({"type": "websocket.close", "code": int(CloseCode.TOO_MANY_SOCKETS)})
        return
    headers = [(b"retry-after", b"1"), (b"content-length", b"0")]
    await send({"type": "websocket.http.response.start", "status": 503, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": b""})
