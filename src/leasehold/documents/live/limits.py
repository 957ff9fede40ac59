"""The limits of a worker's sockets, per socket and per user."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.core.validation import check_duration
from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

_DURATIONS = ("authenticate_within", "drain_within")


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """Counted by each worker for itself. Times in seconds.

    A socket must authenticate within ``authenticate_within``; ``unauthenticated`` sockets may exist at once, and
    ``unauthenticated_per_address`` of one IPv4 address or /64 network. It may send ``messages_per_second``, and
    ``burst`` at once after a pause. Unread replies are kept up to ``unread_replies`` messages and ``unread_bytes``,
    and for ``drain_within``.
    """

    unauthenticated: int = 200
    authenticate_within: float = 5
    sockets_per_user: int = 50
    rooms_per_socket: int = 100
    messages_per_second: float = 20
    burst: int = 200
    message_bytes: int = 65536
    mistakes: int = 5
    unread_replies: int = 256
    unread_bytes: int = 262144
    drain_within: float = 10
    unauthenticated_per_address: int = 50

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name in _DURATIONS:
                check_duration(getattr(self, name), name)
            elif not getattr(self, name) > 0:
                raise InvalidRequest(f"{name} must be above 0, not {getattr(self, name)!r}")


class MessageRateLimiter:
    """A token bucket for one socket's messages: a rate, and a burst after a pause."""

    __slots__ = ("_burst", "_clock", "_left", "_rate", "_seen_at")

    def __init__(self, limits: SocketLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = limits.messages_per_second
        self._burst = float(limits.burst)
        self._clock = clock
        self._left = self._burst
        self._seen_at = clock()

    def spend(self) -> bool:
        """Take one token; False if none is left."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._seen_at) * self._rate)
        self._seen_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
