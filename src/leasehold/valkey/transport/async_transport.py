"""The asyncio transport: one connection at a time, and a new one when it breaks."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from leasehold.core.validation import client_closed
from leasehold.errors import StoreError, StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import codec, error_mapping, handshake
from leasehold.valkey.transport.async_connection import AsyncConnection
from leasehold.valkey.transport.endpoint import Endpoint
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Reply, Word
    from leasehold.valkey.transport.replicated_connection import ReplicatedConnection

    _Opened = AsyncConnection | ReplicatedConnection


class AsyncTransport:
    """Implements `leasehold.valkey.transport.protocols.PubSubTransport` with one multiplexed connection.

    It is opened at the first call, and opened again, after pauses that grow, whenever it breaks. Callers
    wait for it as long as for a reply and no longer.
    """

    def __init__(
        self,
        options: Options,
        *,
        clock: Callable[[], float],
        fraction: Callable[[], float],
        check_loop: Callable[[], None],
    ) -> None:
        self.connection: _Opened | None = None
        self.min_replicas = options.min_replicas
        self.facts: ServerFacts | None = None
        self._options = options
        self._clock = clock
        self._fraction = fraction
        self._check_loop = check_loop
        self._handle_notification: Callable[[bytes], None] | None = None
        self._on_gap: Callable[[], None] = lambda: None
        self._subscribers: dict[bytes, dict[Callable[[bytes], None], Callable[[], None]]] = {}
        self.channel = notifications.new_channel()
        self._connecting: asyncio.Task[_Opened] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._to_others: set[AsyncConnection] = set()
        self._last_failure: BaseException | None = None
        # Where the current attempt to connect goes, and its end, so that the sentinels' word can end it early.
        self._target = options.where
        self._attempt: asyncio.Timeout | None = None
        self._announced: str | None = None
        self._is_closed = False

    async def get_connection(self, name: str | None = None) -> _Opened:  # noqa: ARG002 - one server keeps all
        """The open connection, or a new one."""
        if self.connection is not None:
            return self.connection
        if self._is_closed:
            raise client_closed()
        self._check_loop()
        # Not cancelled with the caller: the other callers that wait need it too.
        done, _ = await asyncio.wait({self._start_connecting()}, timeout=self._options.connect_timeout)
        if not done:
            why = self._last_failure or TimeoutError(f"no answer from {self._target}")
            within = f"no connection within {self._options.connect_timeout:g} s"
            raise error_mapping.no_reply(f"{within}: {why}", why)
        (task,) = done
        if task.cancelled():
            raise client_closed()
        if error := task.exception():
            raise error_mapping.copy_of(error) if isinstance(error, StoreError) else error
        return task.result()

    keeps_order = True
    redirect = None

    def part_of(self, name: str) -> object:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return None

    def is_one_step(self, names: Sequence[str]) -> bool:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return True

    @property
    def finds_primary(self) -> bool:
        """With sentinels."""
        return self._options.finder is not None

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
        connection = await self._open_other(server, self._options.timeout)
        try:
            return await connection.call_many(commands)
        finally:
            connection.close("the server was asked")

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Call ``handle`` with every notification for us; it comes over the same connection as the replies.

        Nothing is sent before the subscription, so only a reconnect is a gap.
        """
        self._handle_notification = handle
        self._on_gap = on_gap

    async def subscribe(
        self, channel: str, handle: Callable[[bytes], None], on_resumed: Callable[[], None]
    ) -> bool:
        """Call ``handle`` with what is published on ``channel``, and ``on_resumed`` after every gap."""
        connection = await self.get_connection()
        name = channel.encode()
        if name in self._subscribers:
            self._subscribers[name][handle] = on_resumed
            return True
        self._subscribers[name] = {handle: on_resumed}
        is_subscribed = await self._subscribe_on(connection, channel)
        if not is_subscribed:
            del self._subscribers[name]
        return is_subscribed

    def reset(self) -> None:
        """Close the connection; a new one is made at once."""
        if self.connection is not None:
            self.connection.close("the server is no longer the primary")

    async def close(self) -> None:
        """Close the connection for good."""
        self._is_closed = True
        tasks = {task for task in (self._connecting, self._watching) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self.connection is not None:
            self.connection.close("this client is closed")

    def after_fork(self) -> None:
        """In a child process: drop the parent's connection without sending anything on it."""
        if self.connection is not None:
            self.connection.detach()
        for connection in self._to_others:
            connection.detach()
        self._to_others = set()
        self.connection = None
        self._connecting = None
        self._watching = None
        self.channel = notifications.new_channel()

    def _start_connecting(self) -> asyncio.Task[_Opened]:
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(
                self._connect(), name="leasehold-connect"
            )
            self._connecting.add_done_callback(self._on_connecting_ended)
        return self._connecting

    def _on_connecting_ended(self, task: asyncio.Task[_Opened]) -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it: the waiting callers raise it

    async def _connect(self) -> _Opened:
        """Try until it works, or until the server refuses us."""
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(self._options.connect_timeout):
                    is_first = self.facts is None
                    self.connection = await self._open_primary()
                    self._last_failure = None
                    self._watch_sentinels()
                    if not is_first:
                        self._on_gap()
                    for subscribers in self._subscribers.values():
                        for on_resumed in subscribers.values():
                            on_resumed()
                    return self.connection
            except (OSError, StoreUnavailable) as error:  # a TimeoutError is an OSError
                self._last_failure = error if str(error) else TimeoutError(f"no answer from {self._target}")
            await asyncio.sleep(RECONNECT_BACKOFF.pause(tries, self._fraction()))

    async def _open_primary(self) -> _Opened:
        if isinstance(self._options.server, Endpoint):
            return await self._open(self._options.server)
        finder = self._options.finder
        if finder is None:
            return await self._open(await asyncio.to_thread(self._options.locate))
        self._announced = None
        located = await finder.locate(self._open_other)
        self._target = str(located.primary)
        if self._announced not in (None, self._target):
            raise StoreUnavailable(f"{self._announced} has just become the primary")
        try:
            async with asyncio.timeout(None) as self._attempt:
                return await self._open(located.primary)
        except BaseException:
            finder.doubt(located)
            raise
        finally:
            self._attempt = None

    def _watch_sentinels(self) -> None:
        if self._options.finder is not None and self._watching is None:
            # Here, because few clients use sentinels.
            from leasehold.valkey.transport.sentinel_watch import SentinelWatch  # noqa: PLC0415

            watch = SentinelWatch(self._options.finder, self._open_other, self._on_primary, self._fraction)
            self._watching = asyncio.create_task(watch.run(), name="leasehold-sentinels")

    def _on_primary(self, address: str) -> None:
        self._announced = address
        if self.connection is not None:
            if self.connection.name != address:
                self.reset()
        elif self._target != address and self._attempt is not None and not self._attempt.expired():
            self._attempt.reschedule(asyncio.get_running_loop().time())

    async def _open_other(
        self,
        server: Endpoint,
        timeout: float,
        on_push: Callable[[Reply], None] = lambda _push: None,
        on_lost: Callable[[AsyncConnection], None] = lambda _connection: None,
    ) -> AsyncConnection:
        def forget(connection: AsyncConnection) -> None:
            self._to_others.discard(connection)
            on_lost(connection)

        connection = await self._open_socket(server, on_push, forget, timeout)
        self._to_others.add(connection)
        return connection

    async def _open_socket(
        self,
        endpoint: Endpoint,
        on_push: Callable[[Reply], None],
        on_lost: Callable[[AsyncConnection], None],
        timeout: float,
    ) -> AsyncConnection:
        loop = asyncio.get_running_loop()

        def make() -> AsyncConnection:
            return AsyncConnection(
                str(endpoint),
                timeout=timeout,
                clock=self._clock,
                on_push=on_push,
                on_lost=on_lost,
            )

        if endpoint.path:
            made = loop.create_unix_connection(make, endpoint.path)
        else:
            made = loop.create_connection(make, endpoint.host, endpoint.port, ssl=endpoint.tls)
        try:
            async with asyncio.timeout(timeout):
                transport, connection = await made
        except (OSError, UnicodeError) as error:  # a host name that cannot be encoded
            raise error_mapping.no_connection(endpoint, error) from error
        if not endpoint.path:
            # A peer that vanished silently is noticed even while no reply is awaited.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    async def _open(self, endpoint: Endpoint) -> _Opened:
        connection, facts = await self._open_one(endpoint, self._on_push)
        opened: _Opened = connection
        try:
            if self._handle_notification is not None:
                await self._subscribe_on(connection, notifications.channel_name(self.channel))
            for channel in tuple(self._subscribers):
                await self._subscribe_on(connection, channel.decode())
            if self.min_replicas:
                opened = await self._add_granting(connection, facts, endpoint)
        except BaseException:
            connection.close("the client did not finish connecting")
            raise
        if opened.is_lost:
            opened.close("the client did not finish connecting")
            raise StoreUnavailable(f"{endpoint} closed the connection right after the handshake")
        if self.facts is None:
            handshake.warn_about(facts, endpoint)
        self.facts = facts
        return opened

    async def _add_granting(
        self, plain: AsyncConnection, facts: ServerFacts, endpoint: Endpoint
    ) -> ReplicatedConnection:
        # Here, because few clients need them.
        from leasehold.valkey.transport.acknowledgement import Acknowledgement  # noqa: PLC0415
        from leasehold.valkey.transport.replicated_connection import ReplicatedConnection  # noqa: PLC0415

        granting, also = await self._open_one(endpoint, lambda _push: None)
        if also.replication_id != facts.replication_id:
            granting.close("the client did not finish connecting")
            raise StoreUnavailable(f"two servers reply at {endpoint}, so it is being failed over")
        acknowledgement = Acknowledgement(endpoint.min_replicas, self._options.timeout)
        return ReplicatedConnection(plain, granting, acknowledgement, self._on_connection_lost)

    async def _open_one(
        self, endpoint: Endpoint, on_push: Callable[[Reply], None]
    ) -> tuple[AsyncConnection, ServerFacts]:
        connection = await self._open_socket(
            endpoint, on_push, self._on_connection_lost, self._options.timeout
        )
        try:
            replies = await connection.call_many(handshake.commands(endpoint, self._options.client_name))
            facts = handshake.read_replies(replies, endpoint, allow_eviction=self._options.allow_eviction)
        except BaseException as error:
            connection.close("the handshake failed")
            if isinstance(error.__cause__, codec.ProtocolError):
                raise error_mapping.not_redis(str(endpoint), error.__cause__) from error.__cause__
            raise
        connection.set_server_facts(facts)
        return connection, facts

    async def _subscribe_on(self, connection: _Opened, channel: str) -> bool:
        refusal = await connection.subscribe(channel)
        if refusal is not None:
            handshake.warn_no_notifications(connection.name, refusal)
        return refusal is None

    def _on_push(self, push: Reply) -> None:
        match push:
            case [b"message", channel, payload]:
                for handle in self._subscribers.get(channel) or (self._handle_notification,):
                    if handle is not None:
                        handle(payload)
            case _:
                pass  # the confirmation of a subscription

    def _on_connection_lost(self, connection: _Opened) -> None:
        if self.connection is connection:
            self.connection = None
            if not self._is_closed:
                self._start_connecting()
