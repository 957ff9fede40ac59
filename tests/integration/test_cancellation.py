"""Thousands of calls cancelled at random moments (trap 4): replies still match requests, nothing is left over."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import eventually_async

import leasehold
from leasehold import LeaseLost, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.conftest import Count
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    Proxy = Callable[[Server | int], FaultProxy]

AT_ONCE = 100
KEPT = 40
CANCELLED = object()
UNKNOWN = object()


async def cancel_at_random(call: Coroutine[Any, Any, Any], *, begun: bool) -> Any:
    """What came of the call, if anything did before it was cancelled."""
    task = asyncio.create_task(call)
    if random.random() < 0.7:
        for _ in range(random.randrange(begun, 10)):  # none: before it has begun; more: at every stage of it
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(random.random() * 0.004)
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return CANCELLED
    except StoreUnavailable:
        return UNKNOWN


class Traffic:
    """A mix of all verbs on one client, each call cancelled at a random moment."""

    def __init__(self, locks: leasehold.Client) -> None:
        self.locks = locks
        self.kept: list[leasehold.Lease] = []
        self.outcomes: dict[str, dict[str, int]] = {}
        self._fresh = 0

    async def begin(self) -> None:
        self.kept = list(
            await asyncio.gather(
                *[self.locks.acquire(f"kept {n}", ttl=120, holder=f"holder {n}") for n in range(KEPT)]
            )
        )

    async def run(self, calls: int) -> None:
        verbs = [self.inspect, self.renew, self.acquire_and_release, self.take_and_release]
        for start in range(0, calls, AT_ONCE):
            size = min(AT_ONCE, calls - start)
            await asyncio.gather(*[random.choice(verbs)() for _ in range(size)])

    async def inspect(self) -> None:
        n = random.randrange(KEPT)
        answer = await self._cancel("inspect", self.locks.inspect(f"kept {n}"))
        if isinstance(answer, leasehold.LockInfo):
            assert (answer.holder, answer.fence) == (f"holder {n}", self.kept[n].fence)

    async def renew(self) -> None:
        await self._cancel("renew", self.kept[random.randrange(KEPT)].renew())

    async def acquire_and_release(self) -> None:
        self._fresh += 1
        name = f"fleeting {self._fresh}"
        lease = await self._cancel("acquire", self.locks.acquire(name, ttl=120, wait=0, holder=name))
        await self._release(lease, name)

    async def take_and_release(self) -> None:
        self._fresh += 1
        name = f"fleeting {self._fresh}"
        lease = await self._cancel("take", self.locks.take(name, ttl=120, holder=name))
        await self._release(lease, name)

    async def check(self) -> None:
        """Every reply belongs to its request, and the server has only the locks that are held."""
        found = await asyncio.gather(
            *[self.locks.inspect(f"kept {n}") for n in range(KEPT) for _ in range(5)]
        )
        assert [info.holder for info in found] == [f"holder {n}" for n in range(KEPT) for _ in range(5)]
        assert [info.fence for info in found] == [lease.fence for lease in self.kept for _ in range(5)]

    def calls(self) -> int:
        return sum(sum(counts.values()) for counts in self.outcomes.values())

    def rarest(self) -> int:
        """The smallest count over all verbs and outcomes, cancelled or done."""
        verbs = ("inspect", "renew", "acquire", "take", "release")
        return min(
            self.outcomes.get(verb, {}).get(outcome, 0) for verb in verbs for outcome in ("cancelled", "done")
        )

    async def _release(self, lease: Any, name: str) -> None:
        if isinstance(lease, leasehold.Lease):
            assert (lease.name, lease.holder) == (name, name)
            await self._cancel("release", lease.release())

    async def _cancel(self, verb: str, call: Coroutine[Any, Any, Any]) -> Any:
        # A release that was cancelled before it had begun has rightly done nothing.
        answer = await cancel_at_random(call, begun=verb == "release")
        counts = self.outcomes.setdefault(verb, {})
        outcome = "cancelled" if answer is CANCELLED else "unknown" if answer is UNKNOWN else "done"
        counts[outcome] = counts.get(outcome, 0) + 1
        return answer


def left_over(server: Server) -> list[str]:
    """Keys that exist though the lock is free; the counters of fences may stay for a day."""
    with server.admin(decode_responses=True) as admin:
        keys = list(admin.scan_iter(count=10_000))
        assert all(admin.ttl(key) != -1 for key in random.sample(keys, min(len(keys), 200)))
    return [key for key in keys if not key.endswith(":fence") and not key.startswith("lock:{kept ")]


@pytest.mark.timeout(300)
async def test_after_thousands_of_cancelled_calls_replies_match_requests_and_no_key_is_left_over(
    valkey: Server, count: Count
) -> None:
    calls = count(full=10_000, quick=1_000)
    started_at = time.monotonic()
    async with leasehold.connect(valkey.url) as locks:
        traffic = Traffic(locks)
        await traffic.begin()
        await traffic.run(calls)
        # How many calls are over before they are cancelled depends on the machine. So it goes on until each
        # verb has been cancelled often, and has often not been, or the moments were not random.
        while traffic.rarest() < calls // 100:
            assert traffic.calls() < 20 * calls, traffic.outcomes
            await traffic.run(AT_ONCE)
        await traffic.check()
        await eventually_async(lambda: not left_over(valkey), message="no key is left over")
        print(f"{traffic.calls()} calls in {time.monotonic() - started_at:.1f} s:", traffic.outcomes)
        for lease in traffic.kept:
            await lease.release()
        assert not left_over(valkey)
    async with leasehold.connect(valkey.url) as locks:
        found = await asyncio.gather(*[locks.inspect(f"kept {n}") for n in range(KEPT)])
        assert not any(info.is_held for info in found)


@pytest.mark.timeout(300)
async def test_the_same_holds_while_the_connection_is_cut_again_and_again(
    valkey: Server, proxy: Proxy, count: Count
) -> None:
    through = proxy(valkey)
    calls = count(full=5_000, quick=500)
    async with leasehold.connect(through.url, timeout=5) as locks:
        traffic = Traffic(locks)
        await traffic.begin()
        cuts = 0

        async def cut_for_ever() -> None:
            nonlocal cuts
            while True:
                await asyncio.sleep(random.random() * 0.03)
                await asyncio.to_thread(through.cut)
                cuts += 1

        cutting = asyncio.create_task(cut_for_ever())
        await traffic.run(calls)
        while cuts < 10:
            await traffic.run(AT_ONCE)
        cutting.cancel()
        await asyncio.wait({cutting})
        await traffic.check()
        await eventually_async(lambda: not left_over(valkey), message="no key is left over")
        print(f"{calls} calls, {cuts} cuts:", traffic.outcomes)


async def test_a_cancelled_wait_for_a_busy_lock_leaves_no_trace(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        held = await locks.acquire("busy", ttl=60, holder="me")
        waiters = [asyncio.create_task(locks.acquire("busy", wait=None)) for _ in range(200)]
        # One stays, so that its client counts as alive, and no waiter is dropped that has not left.
        patient = asyncio.create_task(locks.acquire("busy", wait=None))
        await eventually_async(lambda: valkey.call("ZCARD", "lock:{busy}:queue") == 201)
        for waiter in random.sample(waiters, len(waiters)):
            waiter.cancel()
            await asyncio.sleep(0)
        assert {type(end) for end in await asyncio.gather(*waiters, return_exceptions=True)} == {
            asyncio.CancelledError
        }
        await eventually_async(lambda: valkey.call("ZCARD", "lock:{busy}:queue") == 1)
        info = await locks.inspect("busy")
        assert (info.holder, info.waiters) == ("me", 1)
        await held.release()
        await (await patient).release()
        assert not (await locks.inspect("busy")).is_held
        await eventually_async(lambda: not left_over(valkey), message="no key is left over")


async def test_a_timeout_around_a_call_is_a_cancellation_like_any_other(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url) as locks:
        kept = await locks.acquire("kept 0", ttl=60, holder="me")
        through.delay(0.05)
        for n in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01 + 0.004 * n):
                    await locks.acquire(f"late {n}", ttl=60)
        through.delay(0)
        assert (await locks.inspect("kept 0")).holder == "me"
        await eventually_async(lambda: not left_over(valkey), message="no key is left over")
        try:
            async with asyncio.timeout(0):
                await kept.release()
        except TimeoutError:
            await eventually_async(lambda: not valkey.call("EXISTS", "lock:{kept 0}"))
        except LeaseLost:
            pytest.fail("it had no other holder")
