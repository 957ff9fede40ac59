"""Requests that end in doubt: a lost reply, a lost request, silence, a cancelled call (traps 1, 2, 3, 7; S7).

The counter of fences is the witness: it exists once an acquire has taken effect, known or not, and
it counts the grants.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support.eventually import LIMIT, eventually_async
from tests.support.threads import InThread

import leasehold
from leasehold import LeaseLost, LockBusy, StoreUnavailable, blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    Proxy = Callable[[Server | int], FaultProxy]

OWN = ["async", "blocking"]
KINDS = [*OWN, "async redis-py", "blocking redis-py"]
ASYNC = ["async", "async redis-py"]
LOCK, FENCE = "lock:{deal}", "lock:{deal}:fence"
PATIENT = 20.0
"""The timeout of a client whose server always answers, or is cut off from it."""
SILENCE = 2.5
"""The timeout of a client that is met by silence. A busy machine answers in less."""
BEFORE_ITS_TTL = 40.0
"""A limit that only a hang exceeds; less than the ttl of 60 s, after which the lock would be free anyway."""

_numbers = itertools.count()


@asynccontextmanager
async def client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    """A client of the kind, opened, all its scripts known to the server."""
    async with bare_client(kind, url, **options) as locks:
        warm = f"warm {next(_numbers)}"
        lease = await locks.acquire(warm, ttl=20)
        await lease.renew()
        await lease.release()
        await (await locks.take(warm, ttl=20)).release()
        await locks.inspect(warm)
        yield locks


@asynccontextmanager
async def bare_client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    """A client of the kind, opened. redis-py retries by itself, which is its default."""
    timeout = options.get("timeout", 2)
    again = {"retry": Retry(NoBackoff(), 1), "socket_timeout": timeout}
    again_async = {"retry": AsyncRetry(NoBackoff(), 1), "socket_timeout": timeout}
    if kind == "async":
        async with leasehold.connect(url, **options) as locks:
            yield locks
    elif kind == "blocking":
        with blocking.connect(url, **options) as locks:
            yield InThread(locks)
    elif kind == "async redis-py":
        async with (
            redis.asyncio.Redis.from_url(url, **again_async) as existing,
            leasehold.from_client(existing, **options) as locks,
        ):
            yield locks
    else:
        with (
            redis.Redis.from_url(url, **again) as existing,
            leasehold.from_client(existing, **options) as locks,
        ):
            yield InThread(locks)


def is_held(server: Server) -> bool:
    return bool(server.call("EXISTS", LOCK))


def has_been_granted(server: Server) -> bool:
    return bool(server.call("EXISTS", FENCE))


async def granted_and_cleaned_up(server: Server) -> None:
    """The acquire took effect, sooner or later, and yet the lock is free, long before its ttl is over."""
    await eventually_async(
        lambda: has_been_granted(server) and not is_held(server),
        BEFORE_ITS_TTL,
        message="granted and cleaned up",
    )


# Trap 1: a lost reply or request


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_acquire_that_lost_its_reply_or_request_gets_the_lock_once(
    valkey: Server, proxy: Proxy, kind: str, lost: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        happened = arm(LOCK.encode())
        lease = await locks.acquire("deal", ttl=20, wait=0)
        assert happened.wait(LIMIT)
        assert int(valkey.call("GET", FENCE)) == lease.fence, "it was granted more than once"
        assert (await locks.inspect("deal")).fence == lease.fence
        assert 0 < lease.remaining() <= 20
        await lease.release()
        assert not is_held(valkey)


@pytest.mark.parametrize("kind", OWN)
async def test_a_try_that_lost_its_reply_is_not_busy(valkey: Server, proxy: Proxy, kind: str) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        happened = through.cut_after_request(LOCK.encode())
        assert await locks.try_acquire("deal", ttl=20) is not None
        assert happened.wait(LIMIT)


@pytest.mark.parametrize("kind", OWN)
async def test_a_lost_reply_never_grants_the_lock_of_another_holder(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks, client("async", valkey.url) as others:
        theirs = await others.acquire("deal", ttl=20, holder="them")
        happened = through.cut_after_request(LOCK.encode())
        with pytest.raises(LockBusy) as busy:
            await locks.acquire("deal", wait=0)
        assert happened.wait(LIMIT)
        assert busy.value.holder == "them"
        await theirs.release()


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", OWN)
async def test_a_take_that_lost_its_reply_or_request_takes_once(
    valkey: Server, proxy: Proxy, kind: str, lost: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks, client("async", valkey.url) as others:
        theirs = await others.acquire("deal", ttl=20)
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        happened = arm(LOCK.encode())
        ours = await locks.take("deal", ttl=20, expect_fence=theirs.fence)
        assert happened.wait(LIMIT)
        assert ours.fence == int(valkey.call("GET", FENCE)) > theirs.fence
        with pytest.raises(LeaseLost, match="taken"):
            await theirs.release()
        await ours.release()


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_renewal_that_lost_its_reply_or_request_is_repeated(
    valkey: Server, proxy: Proxy, kind: str, lost: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=5)
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        happened = arm(LOCK.encode())
        await lease.renew(ttl=20)
        assert happened.wait(LIMIT)
        assert lease.remaining() > 15
        assert valkey.call("PTTL", LOCK) > 15_000
        await lease.release()


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_that_lost_its_reply_or_request_is_a_release(
    valkey: Server, proxy: Proxy, kind: str, lost: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=20)
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        happened = arm(LOCK.encode())
        await lease.release()
        assert happened.wait(LIMIT)
        assert lease.is_lost
        assert not is_held(valkey)


async def test_the_end_of_a_block_survives_a_lost_reply(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=PATIENT) as locks:
        async with locks.lock("deal", ttl=20):
            happened = through.cut_after_request(LOCK.encode())
        assert happened.wait(LIMIT)
        assert not is_held(valkey)
    with blocking.connect(through.url, timeout=PATIENT) as locks:
        with locks.lock("deal", ttl=20):
            happened = through.cut_after_request(LOCK.encode())
        assert happened.wait(LIMIT)
        assert not is_held(valkey)


# Trap 2: a timed-out acquire may land later


async def test_a_timed_out_acquire_on_a_connection_that_answers_is_abandoned_in_place_and_cleaned_up(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=SILENCE) as locks:
        through.delay(SILENCE / 2, "replies")
        valkey.call("CONFIG", "RESETSTAT")
        before = asyncio.create_task(locks.inspect("before"))
        await eventually_async(lambda: "cmdstat_evalsha" in valkey.info("commandstats"))
        valkey.call("CLIENT", "PAUSE", 10_000, "WRITE")
        try:
            # The answer to `before` arrives after the acquire was sent: the connection is not silent.
            with pytest.raises(StoreUnavailable):
                await locks.acquire("deal", ttl=60, wait=0)
            assert (await before).name == "before"
            assert not has_been_granted(valkey)
        finally:
            valkey.call("CLIENT", "UNPAUSE")
        await granted_and_cleaned_up(valkey)
        assert through.connections == 1
        names = [f"name {n}" for n in range(20)]
        assert [info.name for info in await asyncio.gather(*map(locks.inspect, names))] == names


@pytest.mark.parametrize("kind", KINDS)
async def test_a_silent_connection_is_dropped_in_time_and_nothing_is_left_over(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    async def play(direction: Any) -> None:
        name, through = f"deal {direction}", proxy(valkey)
        lock, fence = f"lock:{{{name}}}", f"lock:{{{name}}}:fence"
        async with client(kind, through.url, timeout=SILENCE) as locks:
            through.stall(direction)
            with pytest.raises(StoreUnavailable) as unknown:
                await locks.acquire(name, ttl=60, wait=0)
            if kind in OWN:
                assert isinstance(unknown.value.__cause__, OSError)  # a TimeoutError is one
            through.flow()
            await eventually_async(
                lambda: valkey.call("EXISTS", fence) and not valkey.call("EXISTS", lock), BEFORE_ITS_TTL
            )
            lease = await locks.acquire(name, ttl=20, wait=0)
            await lease.release()

    await asyncio.gather(*[play(direction) for direction in ("requests", "replies", "both")])


@pytest.mark.parametrize("kind", OWN)
async def test_a_paused_server_that_wakes_up_holds_nothing_for_callers_that_gave_up(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server()
    async with client(kind, server.url, timeout=SILENCE) as locks:
        await locks.inspect("deal")
        server.pause()
        with pytest.raises(StoreUnavailable):
            await locks.acquire("deal", ttl=60, wait=60)
        server.resume()
        await granted_and_cleaned_up(server)


class Detour:
    """The way to a server through a bypass: what was sent before `shortcut` can still be held up there."""

    def __init__(self, proxy: Proxy, server: Server) -> None:
        self.far = proxy(server)
        self.near = proxy(self.far.port)
        self._server = server

    def shortcut(self) -> None:
        self.near.target_port = self._server.port


@pytest.mark.parametrize("kind", OWN)
async def test_an_acquire_that_lands_after_the_clean_up_is_caught_by_the_second_look(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    way = Detour(proxy, valkey)
    async with client(kind, way.near.url, timeout=SILENCE) as locks:
        way.far.stall("requests")
        way.shortcut()
        valkey.call("CONFIG", "RESETSTAT")
        with pytest.raises(StoreUnavailable):
            await locks.acquire("deal", ttl=60, wait=0)
        await eventually_async(lambda: "cmdstat_evalsha" in valkey.info("commandstats"))
        assert not has_been_granted(valkey)  # so that was the clean-up, too early
        way.far.flow()
        await granted_and_cleaned_up(valkey)


async def test_a_cancelled_acquire_that_was_also_lost_is_looked_at_twice(
    valkey: Server, proxy: Proxy
) -> None:
    """Its first request is held up on a connection that another call's timeout has dropped."""
    way = Detour(proxy, valkey)
    async with leasehold.connect(way.near.url, timeout=SILENCE) as locks:
        way.far.stall("requests")
        way.shortcut()
        way.near.refuse()
        early = asyncio.create_task(locks.inspect("early"))
        await asyncio.sleep(SILENCE / 2)
        late = asyncio.create_task(locks.acquire("deal", ttl=60, wait=0))
        with pytest.raises(StoreUnavailable):
            await early  # and with it the connection was dropped
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        valkey.call("CONFIG", "RESETSTAT")
        way.near.refuse(False)
        await eventually_async(lambda: "cmdstat_evalsha" in valkey.info("commandstats"))
        assert not has_been_granted(valkey)
        way.far.flow()
        await granted_and_cleaned_up(valkey)


# Trap 3: cancelled in the middle


@pytest.mark.parametrize("direction", ["requests", "replies"])
@pytest.mark.parametrize("kind", ASYNC)
async def test_a_cancelled_acquire_leaves_nothing_behind(
    valkey: Server, proxy: Proxy, kind: str, direction: Any
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        through.stall(direction)
        acquiring = asyncio.create_task(locks.acquire("deal", ttl=60, wait=5))
        if direction == "replies":
            await eventually_async(lambda: is_held(valkey))
        else:
            await asyncio.sleep(0.05)
        acquiring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        through.flow()
        await granted_and_cleaned_up(valkey)


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_cancelled_acquire_that_is_slow_on_its_way_leaves_nothing_behind(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=5) as locks:
        await locks.inspect("deal")
        through.delay(2, "requests")
        acquiring = asyncio.create_task(locks.acquire("deal", ttl=60, wait=5))
        await asyncio.sleep(0.1)
        acquiring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        through.delay(0)  # what comes now is faster than what is under way, if on another connection
        await granted_and_cleaned_up(valkey)


async def test_a_client_that_closes_has_cleaned_up_after_its_cancelled_calls(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    through.delay(0.02)
    for moment in range(12):
        async with leasehold.connect(through.url) as locks:
            acquiring = asyncio.create_task(locks.acquire("deal", ttl=60, wait=0))
            await asyncio.sleep(moment * 0.005)
            acquiring.cancel()
            try:
                lease = await acquiring
            except asyncio.CancelledError:
                pass
            else:
                await lease.release()
        assert not is_held(valkey)
    assert has_been_granted(valkey)


@pytest.mark.parametrize("direction", ["requests", "replies"])
@pytest.mark.parametrize("kind", ASYNC)
async def test_a_cancelled_release_still_releases(
    valkey: Server, proxy: Proxy, kind: str, direction: Any
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=60)
        through.stall(direction)
        releasing = asyncio.create_task(lease.release())
        if direction == "replies":
            await eventually_async(lambda: not is_held(valkey))
        else:
            await asyncio.sleep(0.05)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        through.flow()
        await eventually_async(lambda: not is_held(valkey), BEFORE_ITS_TTL)


async def test_a_block_cancelled_while_it_gives_back_leaves_nothing_behind(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    at_its_end = asyncio.Event()
    async with leasehold.connect(through.url, timeout=PATIENT) as locks:

        async def work() -> None:
            async with locks.lock("deal", ttl=60):
                through.stall("requests")
                at_its_end.set()

        working = asyncio.create_task(work())
        await at_its_end.wait()
        await asyncio.sleep(0.05)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        through.flow()
        await eventually_async(lambda: not is_held(valkey), BEFORE_ITS_TTL)


async def test_a_cancelled_release_can_be_repeated_and_is_then_a_release(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=PATIENT) as locks:
        lease = await locks.acquire("deal", ttl=60)
        through.stall("replies")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await lease.release()
        through.flow()
        await lease.release()  # the lock never had another holder: there is no loss to report
        assert not is_held(valkey)


@pytest.mark.parametrize("kind", OWN)
async def test_a_release_without_a_reply_can_be_repeated_and_is_then_a_release(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=SILENCE) as locks:
        lease = await locks.acquire("deal", ttl=60)
        through.stall("replies")
        with pytest.raises(StoreUnavailable):
            await lease.release()
        through.flow()
        await lease.release()
        assert not is_held(valkey)


@pytest.mark.parametrize("kind", OWN)
async def test_a_lease_whose_release_got_no_answer_is_not_held_when_another_holder_has_the_lock(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with client(kind, through.url, timeout=SILENCE) as locks, client("async", valkey.url) as others:
        lease = await locks.acquire("deal", ttl=60)
        through.stall("replies")
        with pytest.raises(StoreUnavailable):
            await lease.release()
        through.flow()
        theirs = await others.acquire("deal", ttl=60, wait=BEFORE_ITS_TTL)
        assert lease.is_lost
        with pytest.raises(LeaseLost):
            lease.check()
        await theirs.release()


async def test_a_lease_whose_release_was_cancelled_is_not_held_when_another_holder_has_the_lock(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    async with (
        leasehold.connect(through.url, timeout=PATIENT) as locks,
        client("async", valkey.url) as others,
    ):
        lease = await locks.acquire("deal", ttl=60)
        through.stall("replies")
        releasing = asyncio.create_task(lease.release())
        await eventually_async(lambda: not is_held(valkey))
        theirs = await others.acquire("deal", ttl=60, wait=0)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        assert lease.is_lost
        through.flow()
        await theirs.release()


async def test_two_releases_at_once_are_as_harmless_as_one_after_the_other(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        lease = await locks.acquire("deal", ttl=60)
        await asyncio.gather(lease.release(), lease.release())
        await lease.release()
        assert not is_held(valkey)
    with blocking.connect(valkey.url) as locks:
        lease = locks.acquire("deal", ttl=60)
        await asyncio.gather(asyncio.to_thread(lease.release), asyncio.to_thread(lease.release))
        assert not is_held(valkey)


async def test_a_blocking_acquire_that_is_interrupted_leaves_nothing_behind(
    valkey: Server, proxy: Proxy, spawn: Callable[..., Child]
) -> None:
    def work(parent: Any, url: str) -> None:
        from leasehold import blocking

        with blocking.connect(url, timeout=5) as locks:
            parent.send(ready=True)
            parent.receive()
            try:
                locks.acquire("deal", ttl=60, wait=0)
            except KeyboardInterrupt:
                parent.send(interrupted=True)
            parent.receive()

    through = proxy(valkey)
    child = spawn(work, through.url)
    assert await child.aread() == {"ready": True}
    through.stall("replies")
    child.send()
    await eventually_async(lambda: is_held(valkey) or None)
    os.kill(child.pid, signal.SIGINT)
    assert await child.aread() == {"interrupted": True}
    through.flow()
    await granted_and_cleaned_up(valkey)
    child.send()
    assert await asyncio.to_thread(child.wait) == 0
