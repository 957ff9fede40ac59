"""The listening socket that all workers share."""

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
    """Listen on the configured address; `InvalidRequest` if that fails.

    From now on connections wait for a worker instead of being refused, even while there is none.
    """
    listener = bind(settings.host, settings.port)
    if settings.demo and not is_loopback(listener.getsockname()[0]):
        listener.close()
        raise InvalidRequest(f"the demo listens on loopback only, and {settings.host!r} is not loopback")
    return listener


def bind(host: str, port: int, *, flag: str = "--port") -> socket.socket:
    """A listening socket; `InvalidRequest` names the ``flag`` that selects another port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequest(f"cannot resolve the address {host!r} to listen on: {error}") from error
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
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - shown as loopback
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def _explain(error: OSError, address: str, flag: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use by another program: stop that, or choose another {flag} (0 for any free one)"
    if error.errno == errno.EACCES:
        return f"this user may not listen on {address}: choose a {flag} above 1023"
    return f"cannot listen on {address}: {error.strerror}"
