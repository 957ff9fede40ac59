"""Stores behind one interface: the model in virtual time, and the real one, asynchronous and blocking, in real time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.simulation.model import ModelClientStore, ModelStore
from tests.support.eventually import eventually_async
from tests.support.servers import SERVERS

import leasehold
from leasehold.core.replies import LockWaiters, NotAfter, Renewal, Request
from leasehold.core.sync_runner import run_sync
from leasehold.runtime import clock
from leasehold.valkey.notifications import channel_name
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.conftest import Servers
    from tests.support.servers import Server

    from leasehold.core.replies import Mode, Notification, RenewReply

STORES = [
    "model",
    *(f"{flavour}-async" for flavour in SERVERS),
    # Requests and notifications of a thread do not depend on the server.
    f"{SERVERS[0]}-blocking",
]


class StoreClient:
    """One client of a store: its verbs as coroutines, with defaults for the terms, and its notifications.

    A token is named by one letter; its ticket is the letter's code.
    """

    def __init__(
        self, store: Any, *, now: Callable[[], float] = clock.now, is_blocking: bool = False
    ) -> None:
        self.store = store
        self.now = now
        self.notifications: list[Notification] = []
        self._is_blocking = is_blocking

    async def do(self, verb: str, *args: Any) -> Any:
        call = getattr(self.store, verb)
        if self._is_blocking:
            return await asyncio.to_thread(lambda: run_sync(call(*args)))
        return await call(*args)

    async def ask(
        self,
        letter: str,
        name: str = "lock",
        *,
        ttl: float = 30.0,
        mode: Mode = "exclusive",
        wait: float | None = None,
    ) -> Any:
        return await self.do("acquire", name, letter * 32, ord(letter), ttl, 0, f'"{letter}"', mode, wait)

    async def take(
        self,
        letter: str,
        *,
        ttl: float = 30.0,
        mode: Mode = "exclusive",
        expect_fence: int | None = None,
        late_by: float = 0.0,
    ) -> Any:
        return await self.do(
            *("take", "lock", letter * 32, ord(letter), ttl, 0, f'"{letter}"', mode, expect_fence),
            self.in_time(late_by),
        )

    async def shorten(
        self, letter: str, name: str = "lock", *, fence: int, ttl: float, late_by: float = 0.0
    ) -> Any:
        return await self.do("shorten", Renewal(name, letter * 32, fence, ttl), self.in_time(late_by))

    async def ask_for_all(self, letter: str, *names: str, ttl: float = 30.0, late_by: float = 0.0) -> Any:
        asks = [Request(name, letter * 32, ord(letter), ttl, 0, f'"{letter}"') for name in names]
        return await self.do("acquire_all", asks, self.in_time(late_by))

    def in_time(self, late_by: float = 0.0) -> NotAfter:
        """A not-after in a minute, or one that was so long ago."""
        return NotAfter(self.now() - late_by if late_by else self.now() + 60.0)

    async def server_clock(self) -> Any:
        """The clock by which the next request is sent."""
        if isinstance(self.store, ModelClientStore):
            return self.store.server_clock
        transport = self.store._transport
        get = transport.get_connection
        connection = await (get() if not self._is_blocking else asyncio.to_thread(lambda: run_sync(get())))
        if self._is_blocking:
            transport.put_back(connection)
        return connection.server_clock

    async def look(self, *letters: str, name: str = "lock") -> Any:
        (look,) = await self.do("look", [LockWaiters(name, [letter * 32 for letter in letters])])
        return look

    async def renew(self, letter: str, name: str = "lock", *, fence: int, ttl: float = 30.0) -> RenewReply:
        (answer,) = await self.do("renew", [Renewal(name, letter * 32, fence, ttl)])
        return answer

    async def release(
        self, letter: str, name: str = "lock", *, fence: int = 0, receipt: str | None = None
    ) -> Any:
        return await self.do("release", name, letter * 32, fence, receipt)

    async def inspect(self, name: str = "lock") -> Any:
        return await self.do("inspect", name)


class ModelWorld:
    """The model, in virtual time."""

    def __init__(self) -> None:
        self._now = 1_700_000_000.0
        self._model = ModelStore(lambda: self._now)

    async def connect(self, *, live: float = 60.0) -> StoreClient:
        client = StoreClient(self._model.connect(live=live), now=lambda: self._now)
        client.store.listen(client.notifications.append, list)
        return client

    async def sleep(self, seconds: float) -> None:
        self._now += seconds

    async def receives(self, client: StoreClient, *expected: Callable[[Notification], bool]) -> None:
        assert _matches(client, expected)


class ServerWorld:
    """A real server, in real time."""

    def __init__(self, server: Server, side: str, stack: AsyncExitStack) -> None:
        self._server = server
        self._side = side
        self._stack = stack

    async def connect(self, *, live: float = 60.0) -> StoreClient:
        if self._side == "async":
            client: Any = leasehold.connect(self._server.url)
            self._stack.push_async_callback(client.close)
        else:
            client = leasehold.blocking.connect(self._server.url)
            self._stack.push_async_callback(asyncio.to_thread, client.close)
        # A separate store on the client's transport: the tests are about the store, and when it counts a client as alive.
        store = ValkeyStore(client.store_access.transport, namespace="lock", live=live)
        store_client = StoreClient(store, is_blocking=self._side == "blocking")
        store.listen(store_client.notifications.append, list)
        await store_client.do("open")
        channel = channel_name(client.store_access.transport.channel)
        with self._server.admin() as admin:
            await eventually_async(lambda: dict(admin.pubsub_numsub(channel))[channel.encode()] == 1)
        return store_client

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def receives(self, client: StoreClient, *expected: Callable[[Notification], bool]) -> None:
        """Waits until the client has received exactly these notifications."""
        await eventually_async(lambda: _matches(client, expected), message=f"received {client.notifications}")


def _matches(client: StoreClient, expected: tuple[Callable[[Notification], bool], ...]) -> bool:
    return len(client.notifications) == len(expected) and all(
        is_it(one) for is_it, one in zip(expected, client.notifications, strict=True)
    )


@asynccontextmanager
async def open_world(store: str, servers: Servers) -> AsyncIterator[ModelWorld | ServerWorld]:
    """The world of one of `STORES`."""
    if store == "model":
        yield ModelWorld()
        return
    flavour, _, side = store.partition("-")
    async with AsyncExitStack() as stack:
        yield ServerWorld(servers.empty(flavour), side, stack)
