"""Reports a fail-over as soon as sentinels do: a primary that is cut off does not report it itself."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from leasehold.core.sync_runner import run_sync
from leasehold.errors import StoreError, StoreRefused
from leasehold.valkey.transport import error_mapping, handshake
from leasehold.valkey.transport.blocking_connection import BlockingConnection
from leasehold.valkey.transport.blocking_subscriber import BlockingSubscriber
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF
from leasehold.valkey.transport.sentinel import SWITCH_CHANNEL, switched_to

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.core.ports import Concurrency
    from leasehold.valkey.transport.async_connection import AsyncConnection
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply, Word
    from leasehold.valkey.transport.sentinel import Located, PrimaryFinder

    OnPush = Callable[[Reply], None]
    OnLost = Callable[[AsyncConnection], None]

# A sentinel that is silent for so long, and then does not reply, is replaced by another one.
_PING_EVERY = 5.0


class SentinelWatch:
    """Calls ``on_primary`` with the primary's address, at the start and whenever sentinels report another one.

    For asyncio. Subscribes at one sentinel, and at another one when that is lost.
    """

    def __init__(
        self,
        finder: PrimaryFinder,
        connect: Callable[[Endpoint, float, OnPush, OnLost], Awaitable[AsyncConnection]],
        on_primary: Callable[[str], None],
        fraction: Callable[[], float],
    ) -> None:
        self._finder = finder
        self._connect = connect
        self._on_primary = on_primary
        self._fraction = fraction
        self._tries = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._watch()
            except StoreRefused as refusal:
                handshake.warn_no_switches(self._finder.group, refusal)
            except (OSError, StoreError):
                pass  # on to the next sentinel
            self._tries += 1
            await asyncio.sleep(RECONNECT_BACKOFF.pause(self._tries, self._fraction()))

    async def _watch(self) -> None:
        lost = asyncio.Event()

        def on_push(push: Reply) -> None:
            match push:
                case [b"message", _, payload]:
                    _report(switched_to(self._finder.service, payload), self._on_primary)
                case _:
                    pass  # the confirmation of the subscription

        async def subscriber(sentinel: Endpoint, timeout: float) -> AsyncConnection:
            return await self._connect(sentinel, timeout, on_push, lambda _connection: lost.set())

        async def asker(sentinel: Endpoint, timeout: float) -> AsyncConnection:
            return await self._connect(sentinel, timeout, lambda _push: None, lambda _connection: None)

        sentinel = (await self._finder.locate(asker)).sentinel
        connection = cast("AsyncConnection", await self._finder.connect(sentinel, subscriber))
        try:
            (hello,) = await connection.call_many([("HELLO", 3)])
            refusal = hello if isinstance(hello, Exception) else await connection.subscribe(SWITCH_CHANNEL)
            if refusal is not None:
                raise error_mapping.from_reply(str(refusal), refusal)
            self._tries = 0
            # For what was published before the subscription.
            _report(_if_current(self._finder, await self._finder.ask(sentinel, asker)), self._on_primary)
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PING_EVERY):
                        await lost.wait()
                await connection.call("PING")
        finally:
            connection.close("the watch has ended")
            self._finder.ask_last(sentinel)


class BlockingSentinelWatch:
    """The same for threads, in a thread of its own. Also asks the sentinels for the other threads."""

    def __init__(
        self,
        finder: PrimaryFinder,
        track: Callable[[socket.socket], None],
        on_primary: Callable[[str], None],
        fraction: Callable[[], float],
        concurrency: Concurrency,
    ) -> None:
        self.finder = finder
        self._track = track
        self._on_primary = on_primary
        self._sentinel: Endpoint | None = None
        self.subscriber = BlockingSubscriber(
            self._subscribe,
            SWITCH_CHANNEL,
            lambda payload: _report(switched_to(finder.service, payload), on_primary),
            self._on_subscribed,
            fraction,
            concurrency,
            ping_every=_PING_EVERY,
            on_refused=lambda refusal: handshake.warn_no_switches(finder.group, refusal),
        )

    def locate(self) -> Located:
        """The primary."""
        return run_sync(self.finder.locate(self._open))

    async def _open(self, sentinel: Endpoint, timeout: float) -> _BlockingSentinel:
        return _BlockingSentinel(
            BlockingConnection(
                sentinel,
                timeout=timeout,
                clock=time.monotonic,
                put_back=lambda _connection: None,
                track=self._track,
            )
        )

    def _subscribe(self) -> BlockingConnection:
        if self._sentinel is not None:
            self.finder.ask_last(self._sentinel)
        self._sentinel = sentinel = self.locate().sentinel
        return cast("_BlockingSentinel", run_sync(self.finder.connect(sentinel, self._open))).connection

    def _on_subscribed(self) -> None:
        if self._sentinel is not None:
            # For what was published before the subscription.
            located = run_sync(self.finder.ask(self._sentinel, self._open))
            _report(_if_current(self.finder, located), self._on_primary)


class _BlockingSentinel:
    """Implements `leasehold.valkey.transport.sentinel.SentinelConnection` for threads."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection

    async def call_many(self, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        return self.connection.call_many(commands)

    def close(self, reason: str) -> None:  # noqa: ARG002 - as the protocol has it
        self.connection.close()


def _if_current(finder: PrimaryFinder, located: Located) -> str | None:
    """The primary's address, unless another sentinel knows of a later fail-over."""
    return str(located.primary) if located.epoch >= finder.epoch else None


def _report(address: str | None, on_primary: Callable[[str], None]) -> None:
    if address is not None:
        on_primary(address)
