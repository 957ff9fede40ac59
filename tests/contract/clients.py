"""Every kind of client behind one interface, so that one suite can test them all.

A `Locks` has the verbs of a client as coroutines. Over a blocking client each verb runs in a thread; the
test need not know which kind it has.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
from tests.support.eventually import LIMIT, eventually_async
from tests.support.servers import SERVERS, Server

import leasehold
from leasehold.core.replies import NotAfter, TooLate
from leasehold.core.sync_runner import run_sync
from leasehold.runtime import clock
from leasehold.valkey.notifications import channel_name
from leasehold.valkey.transport.redis_py import AsyncRedisPyTransport, BlockingRedisPyTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from tests.support.clusters import Cluster
    from tests.support.sentinels import Monitored

    from leasehold.core.replies import LockInfo

SIDES = (
    "async",
    "blocking",
    "async-redis",
    "async-redis-decoded",
    "blocking-redis",
    "blocking-redis-decoded",
)
"""Our own connections, and redis-py clients with `decode_responses` off and on."""

DECODED = tuple(side for side in SIDES if side.endswith("-decoded"))
"""The sides that differ from another one only in the decoding of replies."""


TOPOLOGIES = ("sentinel", "cluster")
"""Stores of more than one server, of Valkey 9. They take the place of a flavour."""

ALL_TOPOLOGIES = (*TOPOLOGIES, "cluster_redis62")
"""Those of a run with `--full`."""

OURS = ("async", "blocking")
"""The sides that know topologies."""


def sides_of(flavour: str) -> tuple[str, ...]:
    """The sides that can use servers of this flavour, or a topology."""
    return OURS if flavour in ALL_TOPOLOGIES else SIDES


def stores(topologies: Iterable[str]) -> tuple[str, ...]:
    """The flavours of servers, and these topologies."""
    return (*SERVERS, *topologies)


def combinations(topologies: Iterable[str], *, decoded: bool) -> list[tuple[str, str]]:
    """Stores and sides for one behaviour; without the decoded sides, if it decodes no new kind of reply."""
    return [
        (store, side)
        for store in stores(topologies)
        for side in sides_of(store)
        if decoded or side not in DECODED
    ]


class Held:
    """A lease whose verbs are coroutines; everything else is the lease's own."""

    def __init__(self, locks: Locks, lease: Any) -> None:
        self._locks = locks
        self.lease = lease

    async def renew(self, ttl: float | None = None) -> None:
        await self._locks.do(self.lease.renew, ttl)

    async def release(self) -> None:
        await self._locks.do(self.lease.release)

    async def lost(self, timeout: float | None = None) -> str | None:
        return await self._locks.do(self.lease.lost, timeout)

    def __getattr__(self, name: str) -> Any:
        if name in {"lease", "_locks"}:  # not set yet: reading it here would recurse
            raise AttributeError(name)
        return getattr(self.lease, name)

    def __repr__(self) -> str:
        return repr(self.lease)


class HeldTogether(Held):
    """Several leases; each item is the client's own lease."""

    def __getitem__(self, name: str) -> Any:
        return self.lease[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.lease)

    def __len__(self) -> int:
        return len(self.lease)


class Scope:
    """`async with locks.lock(...)`, for a context of either kind."""

    def __init__(self, locks: Locks, context: Any, shown_as: type[Held] = Held) -> None:
        self._locks = locks
        self._context = context
        self._shown_as = shown_as

    async def __aenter__(self) -> Any:
        enter = self._context.__enter__ if self._locks.is_blocking else self._context.__aenter__
        return self._shown_as(self._locks, await self._locks.do(enter))

    async def __aexit__(self, *error: object) -> bool | None:
        leave = self._context.__exit__ if self._locks.is_blocking else self._context.__aexit__
        return await self._locks.do(leave, *error)


class Locks:
    """A client of either kind."""

    def __init__(self, client: leasehold.Client | leasehold.blocking.Client) -> None:
        self.client = client
        self.is_blocking = isinstance(client, leasehold.blocking.Client)

    async def do(self, verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a verb, in a thread if the client is blocking."""
        if self.is_blocking:
            return await asyncio.to_thread(verb, *args, **options)
        return await verb(*args, **options)

    async def acquire(self, name: str, **options: Any) -> Held:
        return Held(self, await self.do(self.client.acquire, name, **options))

    async def try_acquire(self, name: str, **options: Any) -> Held | None:
        lease = await self.do(self.client.try_acquire, name, **options)
        return None if lease is None else Held(self, lease)

    async def take(self, name: str, **options: Any) -> Held:
        return Held(self, await self.do(self.client.take, name, **options))

    async def inspect(self, name: str) -> LockInfo:
        return await self.do(self.client.inspect, name)

    def lock(self, name: str, **options: Any) -> Scope:
        return Scope(self, self.client.lock(name, **options))

    def lock_all(self, names: Iterable[str], **options: Any) -> Scope:
        return Scope(self, self.client.lock_all(names, **options), HeldTogether)

    async def list(self, pattern: str = "*") -> list[LockInfo]:
        """All that the listing yields, as a list."""
        if isinstance(self.client, leasehold.Client):
            return [info async for info in self.client.list(pattern)]
        return await asyncio.to_thread(lambda: list(self.client.list(pattern)))

    @property
    def receives_notifications(self) -> bool:
        """Whether this side gets notifications; over a redis-py client there are none."""
        return not isinstance(
            self.client.store_access.transport, AsyncRedisPyTransport | BlockingRedisPyTransport
        )

    async def subscribed(self, admin: redis.Redis) -> None:
        """Waits until this side is subscribed: a blocking client subscribes after its first command."""
        channel = channel_name(self.client.store_access.transport.channel)
        if self.receives_notifications:
            await eventually_async(lambda: [count for _, count in admin.pubsub_numsub(channel)] == [1])

    async def ask(
        self,
        name: str,
        token: str,
        *,
        ttl: float = 30,
        floor: int = 0,
        holder: str = '"me"',
        mode: str = "exclusive",
        wait: float | None = 0,
    ) -> Any:
        """Requests a lock from the store itself. The client neither polls for such a waiter nor renews its lease."""
        return await self.ask_store("acquire", name, token, 0, ttl, floor, holder, mode, wait)

    async def ask_store(self, verb: str, *args: Any) -> Any:
        """Calls the store behind the client, for results that the public verbs do not show."""
        call = getattr(self.client._engine.store, verb)
        if self.is_blocking:
            return await asyncio.to_thread(lambda: run_sync(call(*args)))
        return await call(*args)

    async def ask_store_in_time(self, verb: str, *args: Any) -> Any:
        """Calls the store for a request with a not-after, which is far away."""
        not_after = NotAfter(clock.now() + LIMIT)
        try:
            return await self.ask_store(verb, *args, not_after)
        except TooLate:  # over redis-py the store's clock is known only from this reply
            return await self.ask_store(verb, *args, not_after)


@asynccontextmanager
async def open_side(side: str, server: Server | Monitored | Cluster, **options: Any) -> AsyncIterator[Locks]:
    """Opens a client of the kind that `side` names, and closes it with everything that it opened."""
    decoded = side.endswith("-decoded")
    options = {"timeout": LIMIT} | options  # no test here is about a silent store
    if side == "async":
        async with leasehold.connect(server.url, **options) as client:
            yield Locks(client)
    elif side == "blocking":
        blocking = leasehold.blocking.connect(server.url, **options)
        await asyncio.to_thread(blocking.__enter__)
        try:
            yield Locks(blocking)
        finally:
            await asyncio.to_thread(blocking.close)
    elif side.startswith("async-redis"):
        assert isinstance(server, Server)
        existing = redis.asyncio.Redis(port=server.port, decode_responses=decoded)
        async with existing, leasehold.from_client(existing, **options) as client:
            yield Locks(client)
    elif side.startswith("blocking-redis"):
        assert isinstance(server, Server)
        with redis.Redis(port=server.port, decode_responses=decoded) as borrowed:
            blocking = leasehold.from_client(borrowed, **options)
            try:
                yield Locks(blocking)
            finally:
                await asyncio.to_thread(blocking.close)
    else:
        raise ValueError(side)


def keys_that_stay(admin: redis.Redis) -> dict[bytes, int]:
    """Every key without an expiry, or with one beyond all promises, and its PTTL (S13)."""
    two_days_ms = 172_800_000
    found = {}
    for key in admin.scan_iter(count=1_000):
        left_ms = admin.pttl(key)
        if left_ms == -1 or left_ms > two_days_ms:  # -2: deleted since the scan
            found[key] = left_ms
    return found
