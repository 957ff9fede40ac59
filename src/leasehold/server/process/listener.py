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
    listener = bind(settings.host, settings.port)
    if settings.demo and not is_loopback(listener.getsockname()[0]):
        listener.close()
        raise InvalidRequest(f"the demo listens on loopback only, which {settings.host!r} is not")
    return listener


def bind(host: str, port: int, *, flag: str = "--port") -> socket.socket:
    """A socket that listens there; `InvalidRequest` names the ``flag`` by which another port can be chosen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequest(f"there is no address {host!r} to listen on: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(OSError):
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidRequest(_explain(error, f"{host}:{port}", flag)) from error
    except BaseException:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket, settings: Settings) -> str:
    """The address to open in a browser."""
    host = settings.host.strip("[]")
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - what to show for it
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def _explain(error: OSError, where: str, flag: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program: stop that one, or choose another {flag} (0 for any free one)"
    if error.errno == errno.EACCES:
        return f"{where} may not be listened on by this user: choose a {flag} above 1023"
    return f"{where} cannot be listened on: {error.strerror}"
