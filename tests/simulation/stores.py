"""Stores behind one face: the model in virtual time, and the real one, asynchronous and blocking, in real time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.simulation.model import ModelStore
from tests.support.servers import SERVERS
from tests.support.waiting import eventually_async

import leasehold
from leasehold.core.replies import LockWaiters, Renewal
from leasehold.core.sync_runner import run_sync
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
    # How a thread asks and hears does not depend on the server.
    f"{SERVERS[0]}-blocking",
]


class Teller:
    """One client of a store: its verbs as coroutines, with terms that a test need not care about, and its news.

    A token is told by one letter; its ticket is the letter's number.
    """

    def __init__(self, store: Any, *, is_blocking: bool = False) -> None:
        self.store = store
        self.news: list[Notification] = []
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
        self, letter: str, *, ttl: float = 30.0, mode: Mode = "exclusive", expect_fence: int | None = None
    ) -> Any:
        return await self.do(
            "take", "lock", letter * 32, ord(letter), ttl, 0, f'"{letter}"', mode, expect_fence
        )

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

    async def connect(self, *, live: float = 60.0) -> Teller:
        teller = Teller(self._model.connect(live=live))
        teller.store.listen(teller.news.append, list)
        return teller

    async def sleep(self, seconds: float) -> None:
        self._now += seconds

    async def hears(self, teller: Teller, *news: Callable[[Notification], bool]) -> None:
        assert _matches(teller, news)


class ServerWorld:
    """A real server, in real time."""

    def __init__(self, server: Server, side: str, stack: AsyncExitStack) -> None:
        self._server = server
        self._side = side
        self._stack = stack

    async def connect(self, *, live: float = 60.0) -> Teller:
        if self._side == "async":
            client: Any = leasehold.connect(self._server.url)
            self._stack.push_async_callback(client.close)
        else:
            client = leasehold.blocking.connect(self._server.url)
            self._stack.push_async_callback(asyncio.to_thread, client.close)
        # A store of our own on the client's wire: this is about the store, and its own idea of being alive.
        store = ValkeyStore(client.store_access.transport, namespace="lock", live=live)
        teller = Teller(store, is_blocking=self._side == "blocking")
        store.listen(teller.news.append, list)
        await teller.do("open")
        channel = channel_name(client.store_access.transport.channel)
        with self._server.admin() as admin:
            await eventually_async(lambda: dict(admin.pubsub_numsub(channel))[channel.encode()] == 1)
        return teller

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def hears(self, teller: Teller, *news: Callable[[Notification], bool]) -> None:
        """Wait until the teller has heard exactly these news."""
        await eventually_async(lambda: _matches(teller, news), message=f"heard {teller.news}")


def _matches(teller: Teller, news: tuple[Callable[[Notification], bool], ...]) -> bool:
    return len(teller.news) == len(news) and all(
        is_it(one) for is_it, one in zip(news, teller.news, strict=True)
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
