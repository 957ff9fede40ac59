"""The limits of a worker's connections, and the connections counted by address."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Self

from leasehold.documents.http.client_address import address_group, plain_address

if TYPE_CHECKING:
    from leasehold.server.settings import Settings

# For the listening socket, the database, the store, files of the page and pipes.
_OTHER_DESCRIPTORS = 128


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Of one worker. Times in seconds, sizes in bytes.

    A head must be complete within ``seconds``. In that time a body that is not complete must progress by ``least_rate``
    bytes a second, and so must the reading of a response. What remains of a request after its response is read for
    ``linger_seconds``.
    """

    connections: int = 4096
    connections_per_address: int = 256
    unsent_bytes_per_address: int = 16_777_216
    seconds: float = 10
    linger_seconds: float = 5
    least_rate: int = 4096
    head_bytes: int = 32_768
    headers: int = 100
    pipelined: int = 16

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The configured limits; fewer connections where the system grants fewer file descriptors."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = settings.max_connections
        if descriptors != resource.RLIM_INFINITY:
            most = max(1, min(most, descriptors - _OTHER_DESCRIPTORS))
        return cls(
            connections=most,
            connections_per_address=settings.max_connections_per_address,
            seconds=settings.request_seconds,
        )

    @property
    def least_progress(self) -> float:
        """Bytes within ``seconds``."""
        return self.least_rate * self.seconds


class ConnectionCounter:
    """Counts connections, and the bytes that their clients have not read, by client address.

    Addresses of ``trusted_proxies`` are not counted: each is the address of many clients.
    """

    def __init__(self, limits: ConnectionLimits, *, trusted_proxies: tuple[str, ...] = ()) -> None:
        self._limits = limits
        self._connections: dict[str, int] = {}
        self._unsent: dict[str, int] = {}
        self._trusts_all = "*" in trusted_proxies
        self._trusted = [ip_network(each) for each in trusted_proxies if _is_network(each)]

    def group_of(self, host: str) -> str | None:
        """The name under which connections from ``host`` are counted; None for a trusted proxy."""
        if self._trusts_all:
            return None
        if self._trusted and _is_network(plain := plain_address(host)):
            address = ip_address(plain)
            if any(address in network for network in self._trusted):
                return None
        return address_group(host)

    def enter(self, group: str) -> bool:
        """Count a connection; False, without counting it, above the limit."""
        count = self._connections.get(group, 0)
        if count >= self._limits.connections_per_address:
            return False
        self._connections[group] = count + 1
        return True

    def connections_of(self, group: str) -> int:
        """The counted connections of an address."""
        return self._connections.get(group, 0)

    def leave(self, group: str) -> None:
        """A counted connection has ended, or has become a socket."""
        _subtract(self._connections, group, 1)

    def keep_unsent(self, group: str, size: int) -> bool:
        """Count bytes that wait for the client to read; False, without counting them, above the limit."""
        total = self._unsent.get(group, 0) + size
        if total > self._limits.unsent_bytes_per_address and total > size:
            return False
        self._unsent[group] = total
        return True

    def forget_unsent(self, group: str, size: int) -> None:
        """The client has read them, or its connection has ended."""
        _subtract(self._unsent, group, size)


def _subtract(counts: dict[str, int], key: str, amount: int) -> None:
    left = counts.get(key, 0) - amount
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True
