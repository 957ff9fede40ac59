"""The blocking transport: a pool with as many connections as threads talk at once."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from leasehold.core.validation import client_closed
from leasehold.valkey import notifications
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.acknowledgement import acknowledgement_for
from leasehold.valkey.transport.blocking_connection import BlockingConnection
from leasehold.valkey.transport.blocking_subscriber import BlockingSubscriber
from leasehold.valkey.transport.connection_limit import ConnectionLimit

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from leasehold.core.ports import Concurrency
    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Reply, Word
    from leasehold.valkey.transport.sentinel_watch import BlockingSentinelWatch

T = TypeVar("T")


class BlockingTransport:
    """Implements `leasehold.valkey.transport.protocols.Transport` for threads.

    A thread that talks has a connection to itself; idle ones wait for the next thread, the last used first. A connection
    that a thread has lost to the exception of a signal handler, between getting it and using it, is in no list, so it
    is closed when the exception is forgotten.
    """

    connection = None
    """No connection is shared: each exchange takes one from the pool and puts it back."""

    keeps_order = False

    _subscriber: BlockingSubscriber | None = None

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float],
        fraction: Callable[[], float],
        concurrency: Concurrency,
    ) -> None:
        self.facts: ServerFacts | None = None
        self.min_replicas = options.min_replicas
        self._options = options
        self._clock = clock
        self._fraction = fraction
        self._concurrency = concurrency
        self._handlers: tuple[Callable[[bytes], None], Callable[[], None]] | None = None
        self._reset_state()

    def _reset_state(self) -> None:
        self._idle: list[BlockingConnection] = []
        # Not a WeakSet: CPython drops an exception that a signal handler raises in the callback of a weak reference.
        self._sockets: list[weakref.ref[socket.socket]] = []
        self._limit: ConnectionLimit | None = None
        if self._options.max_connections is not None:
            self._limit = ConnectionLimit(
                self._options.max_connections,
                timeout=self._options.timeout,
                clock=self._clock,
                new_signal=self._concurrency.signal,
            )
        self._primary: str | None = None
        # For when sentinels report a fail-over: threads wait for replies of the former primary.
        self._to_primary: list[weakref.ref[BlockingConnection]] = []
        self._is_closed = False
        self._generation = object()
        self.channel = notifications.new_channel()
        self.__dict__.pop("_subscriber", None)
        self._watch: BlockingSentinelWatch | None = None
        if self._options.finder is not None:
            # Here, because few clients use sentinels.
            from leasehold.valkey.transport.sentinel_watch import BlockingSentinelWatch  # noqa: PLC0415

            self._watch = BlockingSentinelWatch(
                self._options.finder, self._track, self._on_primary, self._fraction, self._concurrency
            )

    @property
    def finds_primary(self) -> bool:
        """With sentinels."""
        return self._watch is not None

    @property
    def sentinels(self) -> tuple[Endpoint, ...]:
        """See `Transport`."""
        return () if self._options.finder is None else self._options.finder.sentinels

    @property
    def server(self) -> Endpoint | None:
        """See `Transport`."""
        return self._options.login

    async def ask_other(self, server: Endpoint, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """See `Transport`."""
        connection = BlockingConnection(
            server,
            timeout=self._options.timeout,
            clock=self._clock,
            put_back=lambda _connection: None,
            track=self._track,
        )
        try:
            return connection.call_many(commands)
        finally:
            connection.close()

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Call ``handle`` with every notification for us, in a thread of its own, once there is a connection.

        Locks may be granted before the first subscription, so that is a gap too.
        """
        self._handlers = handle, on_gap

    redirect = None

    def part_of(self, name: str) -> object:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return None

    def is_one_step(self, names: Sequence[str]) -> bool:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return True

    async def get_connection(self, name: str | None = None) -> BlockingConnection:  # noqa: ARG002 - one server keeps all
        """A connection for one exchange."""
        if self._is_closed:
            raise client_closed()
        return self._get_one() if self._limit is None else await self._limit.get(self._get_one)

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
        if self._limit is not None:
            self._limit.leave()

    def reset(self) -> None:
        """Close every idle connection now, and the others after their exchange."""
        self._generation = object()
        self._close_idle()
        if self._subscriber is not None:
            self._subscriber.reconnect()

    async def close(self) -> None:
        """Close every idle connection now, and the others after their exchange."""
        self._is_closed = True
        try:
            for subscriber in (self._subscriber, self._watch and self._watch.subscriber):
                if subscriber is not None:
                    await subscriber.stop()
        finally:
            self._close_idle()

    def after_fork(self) -> None:
        """In a child process: close our copies of the parent's sockets without sending anything on them."""
        # Also those in use by threads of the parent: the server must notice when the parent ends.
        for reference in self._sockets:
            copy = reference()
            if copy is not None:
                copy.close()
        self._reset_state()

    def _connect(self) -> BlockingConnection:
        if self._watch is None:
            return self._connect_to(self._options.locate())
        located = self._watch.locate()
        try:
            return self._connect_to(located.primary)
        except BaseException:
            self._watch.finder.doubt(located)
            raise

    def _connect_to(self, server: Endpoint) -> BlockingConnection:
        options, generation = self._options, self._generation
        connection = BlockingConnection(
            server,
            timeout=options.timeout,
            clock=self._clock,
            put_back=self.put_back,
            track=self._track,
            acknowledgement=acknowledgement_for(server, options.timeout),
        )
        connection.generation = generation
        if self._watch is not None:
            _add(self._to_primary, connection)
        try:
            facts = connection.shake_hands(server, options.client_name, allow_eviction=options.allow_eviction)
        except BaseException:
            connection.close()
            raise
        self._primary = connection.name
        if self.facts is None:
            handshake.warn_about(facts, server)
        self.facts = facts
        subscriber = self._subscriber
        if subscriber is not None and subscriber.server not in (None, connection.name):
            subscriber.reconnect()  # it has not noticed yet that another server is the primary
        return connection

    def _track(self, new: socket.socket) -> None:
        _add(self._sockets, new)

    def _start_subscriber(self) -> None:
        """Subscribe. Not before the first connection: that shows that the server runs and accepts us."""
        if self._handlers is not None and not self._is_closed:
            channel = notifications.channel_name(self.channel)
            new = BlockingSubscriber(
                self._connect, channel, *self._handlers, self._fraction, self._concurrency
            )
            # One atomic step: threads may connect at the same time.
            self._start(self.__dict__.setdefault("_subscriber", new))
        if self._watch is not None and not self._is_closed:
            self._start(self._watch.subscriber)

    def _start(self, subscriber: BlockingSubscriber) -> None:
        subscriber.start()  # twice does no harm
        if self._is_closed:  # by another thread, since the check
            subscriber.request_stop()

    def _on_primary(self, address: str) -> None:
        for reference in self._to_primary.copy():
            connection = reference()
            if connection is not None and connection.name != address:
                connection.shut_down()
        if self._primary not in (None, address):
            self.reset()

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread may have been faster
                return

    def _get_one(self) -> BlockingConnection:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        connection = self._connect()
        if self._subscriber is None:
            self._start_subscriber()
        return connection


def _add(references: list[weakref.ref[T]], new: T) -> None:
    """Add a reference to ``new``, and remove those to what is gone."""
    references.append(weakref.ref(new))
    for reference in references.copy():
        if reference() is None:
            with suppress(ValueError):  # another thread was faster
                references.remove(reference)
