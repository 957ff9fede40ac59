"""The blocking client's subscriber: a thread that receives the client's notifications."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from leasehold.core.background import BackgroundLoop
from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.ports import Concurrency
    from leasehold.valkey.transport.blocking_connection import BlockingConnection

# The thread ends as soon as its socket does; this is for a machine that is very busy.
_STOP_TIMEOUT = 2.0


class BlockingSubscriber:
    """Subscribes on a connection of its own, and on a new one whenever that breaks.

    What is published in between is lost: ``on_gap`` is called as soon as the next subscription is in force. If the server
    refuses, the thread ends, unless there is ``on_refused``.
    """

    def __init__(
        self,
        connect: Callable[[], BlockingConnection],
        channel: str,
        handle: Callable[[bytes], None],
        on_gap: Callable[[], None],
        fraction: Callable[[], float],
        concurrency: Concurrency,
        *,
        ping_every: float | None = None,
        on_refused: Callable[[StoreRefused], None] | None = None,
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._handle = handle
        self._on_gap = on_gap
        self._fraction = fraction
        self._ping_every = ping_every
        self._on_refused = on_refused
        self._connection: BlockingConnection | None = None
        self.server: str | None = None
        """The server of the last subscription."""
        self._is_started = False
        self._is_stopped = False
        self._stopped = concurrency.signal()
        self._ended = concurrency.signal()
        self._thread = 0
        self._loop = BackgroundLoop(concurrency, self._run)

    def start(self) -> None:
        """Start the thread, unless it has been started."""
        self._is_started = True
        self._loop.start()

    def request_stop(self) -> None:
        """End the thread soon."""
        self._is_stopped = True
        self._stopped.set()
        self.reconnect()

    def reconnect(self) -> None:
        """Subscribe on a new connection."""
        connection = self._connection
        if connection is not None:
            connection.shut_down()

    async def stop(self) -> None:
        """End the thread. On return the connection is closed."""
        self.request_stop()
        if self._is_started and self._thread != get_ident():
            await self._ended.wait(_STOP_TIMEOUT)

    async def _run(self) -> None:
        self._thread = get_ident()
        try:
            await self._receive()
        finally:
            self._ended.set()

    async def _receive(self) -> None:
        tries = 0
        while not self._is_stopped:
            try:
                self._connection = connection = self._connect()
                self.server = connection.name
                tries = 0
                if not self._is_stopped:
                    connection.receive(self._channel, self._handle, self._on_gap, self._ping_every)
                connection.close()
            except StoreRefused as refusal:
                if self._on_refused is None:
                    handshake.warn_no_notifications(self.server or "the store", refusal)
                    return
                self._on_refused(refusal)
            except StoreUnavailable:
                pass
            if not self._is_stopped:
                tries += 1
                await self._stopped.wait(RECONNECT_BACKOFF.pause(tries, self._fraction()))
