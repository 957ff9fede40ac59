"""The blocking transport: a pool with as many connections as threads talk at once."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from leasehold.core.validation import client_closed
from leasehold.errors import StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.blocking_connection import BlockingConnection
from leasehold.valkey.transport.blocking_subscriber import BlockingSubscriber

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.handshake import ServerFacts


class BlockingTransport:
    """Implements `leasehold.valkey.transport.protocols.Transport` for threads.

    A thread that talks has a connection to itself; idle ones wait for the next thread, the last used first.
    """

    connection = None
    """No connection is shared: each exchange takes one from the pool and puts it back."""

    keeps_order = False

    def __init__(
        self, options: Options, *, clock: Callable[[], float], fraction: Callable[[], float]
    ) -> None:
        self.facts: ServerFacts | None = None
        self._options = options
        self._clock = clock
        self._fraction = fraction
        self._handlers: tuple[Callable[[bytes], None], Callable[[], None]] | None = None
        self._reset_state()

    def _reset_state(self) -> None:
        limit = self._options.max_connections
        self._idle: list[BlockingConnection] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._free = None if limit is None else threading.BoundedSemaphore(limit)
        self._is_closed = False
        self._generation = object()
        self.channel = notifications.new_channel()
        self._subscriber: BlockingSubscriber | None = None
        self._subscriber_lock = threading.Lock()

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Call ``handle`` with every notification for us, in a thread of its own, once there is a connection.

        Locks may be granted before the first subscription, so that is a gap too.
        """
        self._handlers = handle, on_gap

    async def get_connection(self) -> BlockingConnection:
        """A connection for one exchange."""
        if self._is_closed:
            raise client_closed()
        if self._free is not None and not self._free.acquire(timeout=self._options.timeout):
            raise StoreUnavailable(f"all {self._options.max_connections} connections are busy")
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            connection = self._connect()
        except BaseException:
            self._release_place()
            raise
        if self._subscriber is None:
            self._start_subscriber()
        return connection

    def put_back(self, connection: BlockingConnection) -> None:
        """Take ``connection`` back after an exchange."""
        if connection.is_broken:
            # The idle ones were made for the same server and have most likely lost it too; a new caller
            # should not have to find that out one by one.
            self._close_idle()
        elif self._is_closed or connection.generation is not self._generation:
            connection.close()
        else:
            self._idle.append(connection)
        self._release_place()

    def reset(self) -> None:
        """Close every idle connection now, and the others after their exchange."""
        self._generation = object()
        self._close_idle()

    async def close(self) -> None:
        """Close every idle connection now, and the others after their exchange."""
        with self._subscriber_lock:
            self._is_closed = True
        if self._subscriber is not None:
            self._subscriber.stop()
        self._close_idle()

    def after_fork(self) -> None:
        """In a child process: close our copies of the parent's sockets without sending anything on them."""
        # Also those in use by threads of the parent: the server must notice when the parent ends.
        for copy in list(self._sockets):
            copy.close()
        self._reset_state()

    def _connect(self) -> BlockingConnection:
        options, generation = self._options, self._generation
        server = options.locate()
        connection = BlockingConnection(
            server,
            timeout=options.timeout,
            clock=self._clock,
            put_back=self.put_back,
            track=self._sockets.add,
        )
        try:
            facts = connection.shake_hands(server, options.client_name, allow_eviction=options.allow_eviction)
        except BaseException:
            connection.close()
            raise
        connection.generation = generation
        if self.facts is None:
            handshake.warn_about(facts, server)
        self.facts = facts
        return connection

    def _start_subscriber(self) -> None:
        """Subscribe. Not before the first connection: that shows that the server runs and accepts us."""
        with self._subscriber_lock:
            if self._subscriber is None and self._handlers is not None and not self._is_closed:
                self._subscriber = BlockingSubscriber(
                    self._connect, self.channel, *self._handlers, self._fraction
                )

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread may have been faster
                return

    def _release_place(self) -> None:
        if self._free is not None:
            self._free.release()
