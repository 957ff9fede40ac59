"""Requests that were lost with their connection and reach the server after all, later than what followed them.

A proxy cuts the connection at the request and keeps it; the test delivers it when it is too late.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.test_ambiguity import FENCE, KINDS, LOCK, OWN, PATIENT, client
from tests.support.eventually import LIMIT, eventually
from tests.support.threads import InThread

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    Proxy = Callable[[Server | int], FaultProxy]


def wait_until_late(server: Server, through: FaultProxy) -> None:
    """Wait until the server's clock has passed the last argument of the request: redis-py repeats it at once."""
    not_after_ms = int(through.dropped[-1].split(b"\r\n")[-2])

    def has_passed() -> bool:
        seconds, micros = server.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 > not_after_ms

    eventually(has_passed)


def left_ms(server: Server) -> int:
    return int(server.call("PTTL", LOCK))


async def lose(through: FaultProxy, request: Any) -> None:
    """Have the next request about the lock lost, so that it is repeated, and then done."""
    happened = through.cut_before_request(LOCK.encode())
    await request
    assert happened.wait(LIMIT)


async def take_and_release(locks: Any) -> None:
    await (await locks.take("deal", ttl=20)).release()


async def hold_all(locks: Any) -> None:
    names = ["deal", "another"]
    if isinstance(locks, InThread):
        blocking_locks = locks._thing

        def hold() -> None:
            with blocking_locks.lock_all(names, ttl=20):
                pass

        await asyncio.to_thread(hold)
    else:
        async with locks.lock_all(names, ttl=20):
            pass


@pytest.mark.parametrize("kind", KINDS)
async def test_a_renewal_delivered_late_does_not_shorten_a_lease_that_was_renewed_for_longer(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=5)
        await lose(through, lease.renew())
        await lease.renew(ttl=60)
        assert through.deliver_dropped().startswith(b":1")
        assert left_ms(valkey) > 30_000
        await lease.release()


@pytest.mark.parametrize("kind", OWN)
async def test_a_renewal_to_a_shorter_ttl_delivered_late_does_not_end_a_longer_one(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=60)
        await lose(through, lease.renew(ttl=10))
        assert left_ms(valkey) <= 10_000
        await lease.renew(ttl=60)
        reply = through.deliver_dropped()
        assert left_ms(valkey) > 30_000
        assert reply.startswith(b"-TOOLATE ")
        await lease.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_take_delivered_late_takes_nothing_from_the_next_holder(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks, leasehold.connect(valkey.url) as others:
        await lose(through, take_and_release(locks))
        if kind not in OWN:
            wait_until_late(valkey, through)
        theirs = await others.acquire("deal", ttl=60)
        through.deliver_dropped()
        assert int(valkey.call("GET", FENCE)) == theirs.fence
        await theirs.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_several_locks_delivered_late_are_not_granted(valkey: Server, proxy: Proxy, kind: str) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        await lose(through, hold_all(locks))
        if kind not in OWN:
            wait_until_late(valkey, through)
        reply = through.deliver_dropped()
        assert not valkey.call("EXISTS", LOCK)
        assert reply.startswith(b"-TOOLATE ")
