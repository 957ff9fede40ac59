"""Reports a fail-over as soon as sentinels do: a primary that is cut off does not report it itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import StoreError
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF
from leasehold.valkey.transport.sentinel import SWITCH_CHANNEL, check_login, login, switched_to

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.valkey.transport.async_connection import AsyncConnection
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply
    from leasehold.valkey.transport.sentinel import PrimaryFinder

    OnPush = Callable[[Reply], None]
    OnLost = Callable[[AsyncConnection], None]

# A sentinel that is silent for so long is replaced by another one.
_PING_EVERY = 5.0


class SentinelWatch:
    """Calls ``on_primary`` with the primary's address, at the start and whenever sentinels report another one.

    For asyncio. Subscribes at one sentinel, and at another one when that is lost.
    """

    def __init__(
        self,
        finder: PrimaryFinder,
        connect: Callable[[Endpoint, OnPush, OnLost], Awaitable[AsyncConnection]],
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
            with suppress(OSError, StoreError):
                await self._watch()
            self._tries += 1
            await asyncio.sleep(RECONNECT_BACKOFF.pause(self._tries, self._fraction()))

    async def _watch(self) -> None:
        lost = asyncio.Event()
        # Also finds out which sentinel replies.
        await asyncio.to_thread(self._finder.locate)
        sentinel = self._finder.first
        connection = await self._connect(sentinel, self._on_push, lambda _connection: lost.set())
        try:
            logged_in, hello = await connection.call_many([*login(sentinel), ("HELLO", 3)])
            check_login(sentinel, logged_in)
            refusal = hello if isinstance(hello, Exception) else await connection.subscribe(SWITCH_CHANNEL)
            if refusal is not None:
                raise error_mapping.from_reply(str(refusal), refusal)
            self._tries = 0
            # What was published before the subscription.
            self._on_primary(str(await asyncio.to_thread(self._finder.locate)))
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PING_EVERY):
                        await lost.wait()
                await connection.call("PING")
        finally:
            connection.close("the watch has ended")

    def _on_push(self, push: Reply) -> None:
        match push:
            case [b"message", _, payload]:
                address = switched_to(self._finder.service, payload)
                if address is not None:
                    self._on_primary(address)
            case _:
                pass  # the confirmation of the subscription
