"""Servers that know the same: asked one after another, until one replies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from leasehold.errors import StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from leasehold.valkey.transport.blocking_connection import BlockingConnection
    from leasehold.valkey.transport.endpoint import Endpoint

T = TypeVar("T")

# A server that does not reply must leave time for the others.
PART_OF_TIMEOUT = 1 / 4


class ServerList:
    """Remembers which server replied last, and begins with that one. Threads may use it at the same time."""

    def __init__(self, servers: Iterable[Endpoint]) -> None:
        self._servers = list(servers)

    @property
    def first(self) -> Endpoint:
        """The server to ask first."""
        return self._servers[0]

    def add(self, *servers: Endpoint) -> None:
        """Ask these too, after those that are known."""
        self._servers = list(dict.fromkeys((*self._servers, *servers)))

    def replace(self, *servers: Endpoint) -> None:
        """Ask these and no others, in this order."""
        self._servers = list(dict.fromkeys(servers))

    def prefer(self, *servers: Endpoint) -> None:
        """Ask these first."""
        self._servers = list(dict.fromkeys((*servers, *self._servers)))

    def ask(self, ask: Callable[[Endpoint], T], *, silence: str) -> T:
        """What ``ask`` returns for the first server with which it does not fail; blocks.

        `StoreRefused` if all refuse, else `StoreUnavailable` with the text ``silence`` and the causes.
        """
        failures: list[StoreError] = []
        for server in tuple(self._servers):
            try:
                return ask(server)
            except StoreError as error:
                failures.append(error)
                # The next search begins with another one. A new list, because threads may search at the same time.
                self._servers = [*(each for each in self._servers if each != server), server]
        if all(isinstance(each, StoreRefused) for each in failures):
            raise error_mapping.copy_of(failures[0])
        causes = "; ".join(dict.fromkeys(str(each) for each in failures))
        raise StoreUnavailable(f"{silence}: {causes}")


def connect(
    server: Endpoint, timeout: float, track: Callable[[socket.socket], None] = lambda _socket: None
) -> BlockingConnection:
    """A connection for a few questions, without a handshake."""
    # Here, because the asyncio client needs it only with several servers.
    from leasehold.valkey.transport.blocking_connection import BlockingConnection  # noqa: PLC0415

    return BlockingConnection(
        server, timeout=timeout, clock=time.monotonic, put_back=lambda _: None, track=track
    )
