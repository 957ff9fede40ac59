"""Subscriptions on the one connection: served while it is in full use, and after every reconnect."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.eventually import eventually_async as until

import leasehold


async def test_a_subscription_in_full_use_shifts_no_reply(any_server):
    received = []
    async with leasehold.connect(any_server.url) as locks:
        connection = await locks.store_access.transport.get_connection()
        before = [asyncio.ensure_future(connection.call("ECHO", f"before {n}")) for n in range(500)]
        subscribing = asyncio.ensure_future(
            locks.store_access.transport.subscribe("others", received.append, lambda: None)
        )
        await asyncio.sleep(0)
        after = [asyncio.ensure_future(connection.call("ECHO", f"after {n}")) for n in range(500)]
        assert await subscribing
        assert [reply.decode() for reply in await asyncio.gather(*before)] == [
            f"before {n}" for n in range(500)
        ]
        assert [reply.decode() for reply in await asyncio.gather(*after)] == [
            f"after {n}" for n in range(500)
        ]
        any_server.call("PUBLISH", "others", "word")
        await until(lambda: received == [b"word"])


async def test_a_subscription_given_up_half_way_shifts_no_reply(any_server):
    async with leasehold.connect(any_server.url) as locks:
        connection = await locks.store_access.transport.get_connection()
        subscribing = asyncio.ensure_future(
            locks.store_access.transport.subscribe("others", print, lambda: None)
        )
        await asyncio.sleep(0)
        subscribing.cancel()
        replies = [await connection.call("ECHO", f"{n}") for n in range(20)]
        assert replies == [b"%d" % n for n in range(20)]


async def test_a_refused_subscription_is_said_and_shifts_no_reply(own_server):
    server = own_server("valkey9", user=["unsubscribed on >pw ~* resetchannels +@all"])
    async with leasehold.connect(f"redis://unsubscribed:pw@127.0.0.1:{server.port}") as locks:
        assert not await locks.store_access.transport.subscribe("others", print, lambda: None)
        connection = await locks.store_access.transport.get_connection()
        assert [await connection.call("ECHO", f"{n}") for n in range(20)] == [b"%d" % n for n in range(20)]


async def test_a_subscription_that_is_cut_leaves_no_unretrieved_exception(valkey):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    async with leasehold.connect(valkey.url) as locks:
        transport = locks.store_access.transport
        connection = await transport.get_connection()
        subscribing = asyncio.create_task(connection.subscribe("news"))
        await asyncio.sleep(0)  # it is sent
        connection.close("a cut")
        with pytest.raises(leasehold.StoreUnavailable):
            await subscribing
    assert reported == []


async def test_after_a_cut_the_subscription_resumes_and_the_gap_is_reported(valkey, proxy):
    way, received, gaps = proxy(valkey), [], []
    async with leasehold.connect(f"redis://127.0.0.1:{way.port}") as locks:
        assert await locks.store_access.transport.subscribe(
            "others", received.append, lambda: gaps.append(True)
        )
        assert not gaps
        way.cut()
        await until(lambda: gaps)
        valkey.call("PUBLISH", "others", "after the gap")
        await until(lambda: received == [b"after the gap"])


async def test_what_is_not_for_others_still_reaches_the_waiters(valkey):
    """Hand-over is notified on the client's own channel, beside any other."""
    async with leasehold.connect(valkey.url, retry_interval=60) as locks:
        assert await locks.store_access.transport.subscribe("others", print, lambda: None)
        first = await locks.acquire("a", ttl=90)
        second = asyncio.ensure_future(locks.acquire("a", ttl=90, wait=80))
        await until(lambda: valkey.call("ZCARD", "lock:{a}:queue") == 1)
        await first.release()
        # Before it would look by itself, after 48 s at the earliest.
        assert (await asyncio.wait_for(second, 40)).fence > first.fence
