"""The asyncio wire: one link at a time, and a new one when it breaks."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from leasehold.errors import StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import codec, error_mapping, handshake
from leasehold.valkey.transport.async_connection import Link
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Reply


class Connection:
    """Implements `leasehold.valkey.transport.protocols.Wire` with one multiplexed connection.

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
        self.session: Link | None = None
        self.facts: ServerFacts | None = None
        self._options = options
        self._clock = clock
        self._fraction = fraction
        self._check_loop = check_loop
        self._hear_ourselves: Callable[[bytes], None] = lambda _payload: None
        self._subscribers: dict[bytes, dict[Callable[[bytes], None], Callable[[], None]]] = {}
        self.channel = notifications.new_channel()
        self._connecting: asyncio.Task[Link] | None = None
        self._last_failure: BaseException | None = None
        self._is_closed = False

    async def open_session(self) -> Link:
        """The link, as soon as there is one."""
        if self._is_closed:
            raise StoreRefused("this client is closed")
        self._check_loop()
        if self.session is not None:
            return self.session
        # Not cancelled with the caller: the others who wait need it too.
        done, _ = await asyncio.wait({self._start_connecting()}, timeout=self._options.connect_timeout)
        if not done:
            why = self._last_failure or TimeoutError("no answer")
            within = f"no connection within {self._options.connect_timeout:g} s"
            raise error_mapping.silent(f"{within}: {why}", why)
        (task,) = done
        if task.cancelled():
            raise StoreRefused("this client is closed")
        if error := task.exception():
            raise error_mapping.copy_of(error) if isinstance(error, StoreError) else error
        return task.result()

    keeps_order = True

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Call ``hear`` with whatever is published for us; it comes over the same connection as the replies."""
        self._hear_ourselves = hear

    async def subscribe(
        self, channel: str, hear: Callable[[bytes], None], resumed: Callable[[], None]
    ) -> bool:
        """Call ``hear`` with whatever is published on ``channel``, and ``resumed`` after every gap."""
        session = self.session or await self.open_session()
        name = channel.encode()
        if name in self._subscribers:
            self._subscribers[name][hear] = resumed
            return True
        self._subscribers[name] = {hear: resumed}
        is_heard = await self._join(session, channel)
        if not is_heard:
            del self._subscribers[name]
        return is_heard

    def start_over(self) -> None:
        """End the link; a new one is made at once."""
        if self.session is not None:
            self.session.close("the server is not the primary any more")

    async def close(self) -> None:
        """End the connection."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait({self._connecting})
        if self.session is not None:
            self.session.close("this client is closed")

    def after_fork(self) -> None:
        """In a child process: let go of the parent's connection without a word on it."""
        if self.session is not None:
            self.session.let_go()
        self.session = None
        self._connecting = None
        self.channel = notifications.new_channel()

    def _start_connecting(self) -> asyncio.Task[Link]:
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(
                self._connect(), name="leasehold-connect"
            )
            self._connecting.add_done_callback(self._connecting_ended)
        return self._connecting

    def _connecting_ended(self, task: asyncio.Task[Link]) -> None:
        if self._connecting is task:
            self._connecting = None
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it: whoever waited was told

    async def _connect(self) -> Link:
        """Try until it works, or until the server refuses us."""
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(self._options.connect_timeout):
                    self.session = await self._open(await self._locate())
                    self._last_failure = None
                    for subscribers in self._subscribers.values():
                        for resumed in subscribers.values():
                            resumed()
                    return self.session
            except (OSError, StoreUnavailable) as error:  # a TimeoutError is an OSError
                self._last_failure = error
            await asyncio.sleep(RECONNECT_BACKOFF.pause(tries, self._fraction()))

    async def _locate(self) -> Endpoint:
        if self._options.server is not None:
            return self._options.server
        return await asyncio.to_thread(self._options.locate)  # starts the embedded server if need be

    async def _open(self, endpoint: Endpoint) -> Link:
        loop = asyncio.get_running_loop()

        def make() -> Link:
            return Link(
                str(endpoint),
                timeout=self._options.timeout,
                clock=self._clock,
                on_push=self._on_push,
                on_lost=self._link_lost,
            )

        if endpoint.path:
            made = loop.create_unix_connection(make, endpoint.path)
        else:
            made = loop.create_connection(make, endpoint.host, endpoint.port, ssl=endpoint.tls)
        try:
            transport, link = await made
        except (OSError, UnicodeError) as error:  # a host name that cannot be encoded
            raise error_mapping.no_connection(endpoint, error) from error
        if not endpoint.path:
            # A peer that vanished without a word is noticed even while nothing is asked.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            replies = await link.call_many(handshake.greeting(endpoint, self._options.client_name))
            facts = handshake.read_answers(replies, allow_eviction=self._options.allow_eviction)
        except BaseException as error:
            link.close("the handshake failed")
            if isinstance(error.__cause__, codec.ProtocolError):
                raise error_mapping.not_redis(str(endpoint), error.__cause__) from error.__cause__
            raise
        try:
            await self._join(link, notifications.channel_name(self.channel))
            for channel in tuple(self._subscribers):
                await self._join(link, channel.decode())
        except BaseException:
            link.close("the subscription failed")
            raise
        if link.is_lost:
            raise StoreUnavailable(f"{endpoint} closed the connection right after the handshake")
        link.began(facts)
        if self.facts is None:
            handshake.warn_about(facts, endpoint)
        self.facts = facts
        return link

    async def _join(self, link: Link, channel: str) -> bool:
        refusal = await link.subscribe(channel)
        if refusal is not None:
            handshake.warn_deaf(link.name, refusal)
        return refusal is None

    def _on_push(self, push: Reply) -> None:
        match push:
            case [b"message", channel, payload]:
                for hear in self._subscribers.get(channel) or (self._hear_ourselves,):
                    hear(payload)
            case _:
                pass  # the confirmation of a subscription

    def _link_lost(self, link: Link) -> None:
        if self.session is link:
            self.session = None
            if not self._is_closed:
                self._start_connecting()
