"""What happens while a client's connection is being replaced is found out after it, not at the next renewal."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.files.both_sides import SIDES, file_locks
from tests.support.eventually import eventually_async

import leasehold
from leasehold import blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

# A renewal, or a look of a waiter, comes later than any test waits.
LONG = 3_000


@asynccontextmanager
async def client_on(side: str, url: str) -> AsyncIterator[Any]:
    """A client, whose verbs are coroutines on both sides."""
    if side == "async":
        async with leasehold.connect(url, retry_interval=60) as locks:
            yield locks
        return
    client = await asyncio.to_thread(blocking.connect(url, retry_interval=60).__enter__)
    try:
        yield client
    finally:
        await asyncio.to_thread(client.close)


async def do(side: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return (
        await call(*args, **options) if side == "async" else await asyncio.to_thread(call, *args, **options)
    )


async def is_subscribed(server: Server, locks: Any) -> None:
    channel = f"leasehold:{locks.store_access.transport.channel}"
    await eventually_async(lambda: server.call("PUBSUB", "NUMSUB", channel)[1] == 1)


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "not renewed"])
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
@pytest.mark.parametrize("side", SIDES)
async def test_a_take_during_a_reconnect_is_noticed_after_it(
    any_server: Server, proxy: Callable[[Server], FaultProxy], side: str, mode: str, renew: bool
) -> None:
    way = proxy(any_server)
    async with client_on(side, way.url) as locks, leasehold.connect(any_server.url) as rival:
        kept = await do(side, locks.acquire, "kept", ttl=LONG, mode=mode, renew=renew)
        lease = await do(side, locks.acquire, "deal", ttl=LONG, mode=mode, renew=renew)
        await is_subscribed(any_server, locks)
        way.refuse()
        way.cut()
        await rival.take("deal", ttl=LONG)
        assert not lease.is_lost  # it cannot know
        way.refuse(on=False)
        await eventually_async(lambda: lease.is_lost)
        assert lease.loss() == "taken"
        assert not kept.is_lost


@pytest.mark.parametrize("side", SIDES)
async def test_a_hand_over_during_a_reconnect_is_noticed_after_it(
    valkey: Server, proxy: Callable[[Server], FaultProxy], side: str
) -> None:
    way = proxy(valkey)
    async with client_on(side, way.url) as locks, leasehold.connect(valkey.url) as rival:
        held = await rival.acquire("deal", ttl=LONG)
        waiting = asyncio.ensure_future(do(side, locks.acquire, "deal", ttl=LONG, wait=LONG))
        await eventually_async(lambda: valkey.call("ZCARD", "lock:{deal}:queue") == 1)
        await is_subscribed(valkey, locks)
        way.refuse()
        way.cut()
        await held.release()
        way.refuse(on=False)
        # Before it would look by itself, after 48 s at the earliest.
        await eventually_async(waiting.done, within=40)
        assert waiting.result().fence > held.fence


@pytest.mark.parametrize("side", SIDES)
async def test_a_take_of_a_file_during_a_reconnect_is_noticed_after_it(
    valkey: Server, proxy: Callable[[Server], FaultProxy], tmp_path: Path, side: str
) -> None:
    way = proxy(valkey)
    async with client_on(side, way.url) as locks:
        session = await file_locks(locks, tmp_path).session("one")
        hold = await session.acquire_write("a.txt", ttl=LONG)
        await is_subscribed(valkey, locks)
        way.refuse()
        way.cut()
        # What `files unlock --force` of another process leaves behind.
        for key in valkey.call("KEYS", "file:*"):
            valkey.call("DEL", key)
        way.refuse(on=False)
        await eventually_async(lambda: hold.is_lost)
