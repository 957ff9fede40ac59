"""The limit of connections of a blocking client: so many threads have one at a time."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.ports import Signal
    from leasehold.valkey.transport.blocking_connection import BlockingConnection

# A thread begins its exchange microseconds after it got a connection. If it does not, it was most likely interrupted; if
# it was only slow, there is one connection more than allowed until its exchange is over.
_BEGINS_WITHIN = 1.0
_LOOK_AGAIN = 0.1


class _Place:
    __slots__ = ("came", "connection", "got_at")

    def __init__(self, came: Signal) -> None:
        self.came = came
        self.connection: BlockingConnection | None = None
        self.got_at = 0.0


class ConnectionLimit:
    """Lets ``limit`` threads at a time have a connection, first come, first served.

    A signal handler may raise between the moment in which a thread gets its connection and its exchange, or right after
    the exchange, so a place may be left behind. A place is therefore one entry in a dict, under the number of the
    thread: the same thread finds it again, and another thread that waits removes one without an exchange.
    """

    def __init__(
        self, limit: int, *, timeout: float, clock: Callable[[], float], new_signal: Callable[[], Signal]
    ) -> None:
        self._limit = limit
        self._timeout = timeout
        self._clock = clock
        self._new_signal = new_signal
        self._places: dict[int, _Place] = {}

    async def get(self, get_connection: Callable[[], BlockingConnection]) -> BlockingConnection:
        """Wait for a place, and return the connection that this thread uses at once; it calls `leave` after that.

        `StoreUnavailable` after the timeout.
        """
        me, place = get_ident(), _Place(self._new_signal())
        give_up_at = self._clock() + self._timeout
        try:
            self._places[me] = place
            while me not in list(self._places)[: self._limit]:
                left = give_up_at - self._clock()
                if left <= 0:
                    raise StoreUnavailable(f"all {self._limit} connections are busy")
                await place.came.wait(min(left, _LOOK_AGAIN))
                self._remove_left_behind()
            connection = get_connection()
            place.got_at = self._clock()
            place.connection = connection
        except BaseException:
            self._places.pop(
                me, None
            )  # the first call in here, and of C: no signal handler can come before it
            self._let_next_in()
            raise
        return connection

    def leave(self) -> None:
        """End the place of this thread, if it has one, and let the next in."""
        self._places.pop(get_ident(), None)
        self._let_next_in()

    def _let_next_in(self) -> None:
        for place in list(self._places.values())[self._limit - 1 : self._limit]:
            place.came.set()

    def _remove_left_behind(self) -> None:
        now = self._clock()
        for thread, place in list(self._places.items())[: self._limit]:
            connection = place.connection
            if connection and not connection.is_exchanging and now > place.got_at + _BEGINS_WITHIN:
                self._places.pop(thread, None)
