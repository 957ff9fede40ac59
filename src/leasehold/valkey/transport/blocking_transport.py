"""The blocking wire: as many sockets as threads talk at once."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.blocking_connection import BlockingLink
from leasehold.valkey.transport.blocking_subscriber import Ear

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.handshake import ServerFacts


class Pool:
    """Implements `leasehold.valkey.transport.protocols.Wire` for threads.

    A thread that talks has a socket to itself; idle sockets wait for the next one, the last used first.
    """

    session = None
    """There is no session at hand: each conversation takes a socket and puts it back."""

    keeps_order = False

    def __init__(
        self, options: Options, *, clock: Callable[[], float], fraction: Callable[[], float]
    ) -> None:
        self.facts: ServerFacts | None = None
        self._options = options
        self._clock = clock
        self._fraction = fraction
        self._hear: Callable[[bytes], None] | None = None
        self._start_afresh()

    def _start_afresh(self) -> None:
        limit = self._options.max_connections
        self._idle: list[BlockingLink] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._places = None if limit is None else threading.BoundedSemaphore(limit)
        self._is_closed = False
        self._current = object()
        self.channel = notifications.new_channel()
        self._ear: Ear | None = None
        self._ear_making = threading.Lock()

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Call ``hear`` with whatever is published for us, from a thread of its own, once there is a connection."""
        self._hear = hear

    async def open_session(self) -> BlockingLink:
        """A socket for one conversation."""
        if self._is_closed:
            raise StoreRefused("this client is closed")
        if self._places is not None and not self._places.acquire(timeout=self._options.timeout):
            raise StoreUnavailable(f"all {self._options.max_connections} connections are busy")
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            link = self._connect()
        except BaseException:
            self._free_place()
            raise
        if self._ear is None:
            self._open_ear()
        return link

    def put_back(self, link: BlockingLink) -> None:
        """Take ``link`` back after a conversation."""
        if link.is_broken:
            # Its siblings were made for the same server and have most likely lost it too; a new caller
            # should not have to find that out one by one.
            self._drop_idle()
        elif self._is_closed or link.batch is not self._current:
            link.close()
        else:
            self._idle.append(link)
        self._free_place()

    def start_over(self) -> None:
        """Close every idle socket now, and the others when their conversation is over."""
        self._current = object()
        self._drop_idle()

    async def close(self) -> None:
        """Close every idle socket now, and the others when their conversation is over."""
        with self._ear_making:
            self._is_closed = True
        if self._ear is not None:
            self._ear.stop()
        self._drop_idle()

    def after_fork(self) -> None:
        """In a child process: close our copies of the parent's sockets, without a word on them."""
        # Also those on which others were talking: the server must notice when the parent has gone.
        for copy in list(self._sockets):
            copy.close()
        self._start_afresh()

    def _connect(self) -> BlockingLink:
        options, batch = self._options, self._current
        server = options.locate()
        link = BlockingLink(
            server,
            timeout=options.timeout,
            clock=self._clock,
            put_back=self.put_back,
            track=self._sockets.add,
        )
        try:
            facts = link.greet(server, options.client_name, allow_eviction=options.allow_eviction)
        except BaseException:
            link.close()
            raise
        link.batch = batch
        if self.facts is None:
            handshake.warn_about(facts, server)
        self.facts = facts
        return link

    def _open_ear(self) -> None:
        """Begin to listen. Not before the first connection: then the server is there, and lets us in."""
        with self._ear_making:
            if self._ear is None and self._hear is not None and not self._is_closed:
                self._ear = Ear(self._connect, self.channel, self._hear, self._fraction)

    def _drop_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread may have been faster
                return

    def _free_place(self) -> None:
        if self._places is not None:
            self._places.release()
