"""The one socket on which all workers accept."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest
from leasehold.server.settings import is_loopback

if TYPE_CHECKING:
    from leasehold.server.settings import Settings

_BACKLOG = 2048


def listen(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say; `InvalidRequest` if it cannot be had.

    From here on connections wait for a worker instead of being refused, also while none is there.
    """
    where = f"{settings.host}:{settings.port}"
    host = settings.host.strip("[]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequest(f"there is no address {settings.host!r} to listen on: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(OSError):
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(_BACKLOG)
        if settings.demo and not is_loopback(listener.getsockname()[0]):
            raise InvalidRequest(f"the demo listens on loopback only, which {settings.host!r} is not")
    except OSError as error:
        listener.close()
        raise InvalidRequest(_explain(error, where)) from error
    except BaseException:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket, settings: Settings) -> str:
    """The address to open in a browser."""
    host = settings.host.strip("[]")
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - what to show for it
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def _explain(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program: stop that one, or choose another --port (0 for any free one)"
    if error.errno == errno.EACCES:
        return f"{where} may not be listened on by this user: choose a --port above 1023"
    return f"{where} cannot be listened on: {error.strerror}"
