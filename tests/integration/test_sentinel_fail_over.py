"""Fail-overs under load: waiters get the lock again, fences grow, and a resource with a guard loses nothing.

The clients' view may overlap across a fail-over, because replication is asynchronous. That is counted and printed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio
from tests.support.clients import both, client, insist
from tests.support.eventually import LIMIT, eventually_async
from tests.support.scripted_sentinel import ScriptedSentinel
from tests.support.sentinels import FAILOVER_TIMEOUT_MS, SERVICE, Monitored, ask

import leasehold
from leasehold import LeaseLost, StaleFence, StoreError, StoreUnavailable
from leasehold.operations.guards.valkey import guarded_get, guarded_set

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Count
    from tests.support.servers import Server


DOWN_AFTER_MS = 1000
TTL, TIMEOUT = 2.0, 2.0
BOUND = DOWN_AFTER_MS / 1000 + 3 + 2 * FAILOVER_TIMEOUT_MS / 1000 + 2 * TIMEOUT + TTL
"""The formula of docs/scaling.md, with one vote that the sentinels had to repeat."""


@dataclass
class Holds:
    """What the clients believed: the windows of their leases, and the updates that were acknowledged to them."""

    windows: list[tuple[float, float, int]] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)
    refused: int = 0

    def overlaps(self) -> int:
        ordered = sorted(self.windows)
        return sum(after[0] < before[1] for before, after in itertools.pairwise(ordered))

    def check_fences(self) -> None:
        """A hold that began after another one had ended has the larger fence."""
        for (_, ended, fence), (begun, _, later) in itertools.permutations(self.windows, 2):
            assert begun <= ended or later > fence, self.windows
        assert len({fence for _, _, fence in self.windows}) == len(self.windows)


class Resource:
    """A text to which holders append, in a server of its own, behind a guard."""

    def __init__(self, server: Server) -> None:
        self.client = redis.asyncio.Redis(port=server.port)

    async def append(self, word: str, fence: int) -> None:
        text = await guarded_get(self.client, "text", fence) or b""
        await guarded_set(self.client, "text", text + b" " + word.encode(), fence)

    async def lost(self, words: set[str]) -> set[str]:
        return words - set((await self.client.get("text") or b"").decode().split())


async def use_once(locks: Any, resource: Resource, holds: Holds, who: str, ttl: float = TTL) -> None:
    """Acquire through all errors of a fail-over, append, and release."""
    while True:
        try:
            async with asyncio.timeout(LIMIT):
                lease = await locks.acquire("deal", ttl=ttl, wait=LIMIT, holder=who)
        except StoreUnavailable:
            continue
        begun, until = time.monotonic(), time.monotonic() + lease.remaining()
        is_done = False
        try:
            await resource.append(who, lease.fence)
            holds.acknowledged.add(who)
            is_done = True
        except StaleFence:
            holds.refused += 1
        holds.windows.append((begun, min(until, time.monotonic()), lease.fence))
        with suppress(StoreUnavailable, LeaseLost):  # it ends with its ttl
            await lease.release()
        if is_done:
            return


@both
@pytest.mark.parametrize("death", ["kill", "pause"])
async def test_waiters_get_the_lock_from_the_new_primary_in_time_and_fences_grow(
    count: Count, own_server: Callable[..., Server], kind: str, death: str, full: bool
) -> None:
    if (kind, death) in {("async", "pause"), ("blocking", "kill")} and not full:
        pytest.skip("only with --full")
    waiters = count(full=50, quick=10)
    resource, holds = Resource(own_server()), Holds()
    with Monitored(down_after_ms=DOWN_AFTER_MS) as group:
        async with AsyncExitStack() as stack:
            holder, *others = [
                await stack.enter_async_context(client(kind, group.url, timeout=TIMEOUT)) for _ in range(3)
            ]
            lease = await holder.acquire("deal", ttl=TTL, renew=True)
            waiting = [
                asyncio.create_task(use_once(locks, resource, holds, f"w{number}"))
                for number, locks in zip(range(waiters), itertools.cycle(others))
            ]
            await eventually_async(lambda: group.primary.call("ZCARD", "lock:{deal}:queue") == waiters)
            group.replicas[0].wait_until_synced()
            died_at = time.monotonic()
            getattr(group.primary, death)()
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            took = time.monotonic() - died_at
            await asyncio.gather(*waiting)
            assert ask(group.replicas[0], "ROLE")[0] == b"master"
            group.primary.resume() if death == "pause" else None
            after = await insist(holder, "deal")
            await after.release()
        lost = await resource.lost(holds.acknowledged)
    await resource.client.aclose()
    print(f"{death}: next success after {took:.1f} s, {holds.overlaps()} overlaps, {holds.refused} refused")
    assert took < BOUND
    assert len(holds.acknowledged) == waiters
    assert not lost
    holds.check_fences()
    assert lease.fence < min(fence for _, _, fence in holds.windows)
    assert after.fence > max(fence for _, _, fence in holds.windows)


@both
async def test_a_former_primary_that_is_cut_off_but_alive_mints_no_later_fence(
    count: Count, own_server: Callable[..., Server], kind: str, full: bool
) -> None:
    """Clients on both sides: of the former primary with a sentinel of its own, and of all others."""
    if kind == "blocking" and not full:
        pytest.skip("only with --full")
    rounds = count(full=200, quick=20)
    resource, holds = Resource(own_server()), Holds()
    with Monitored(down_after_ms=DOWN_AFTER_MS, cuts=True) as group:
        assert group.link is not None
        with ScriptedSentinel(SERVICE, group.primary.port) as isolated:
            cut_off_url = f"redis+sentinel://127.0.0.1:{isolated.port}/{SERVICE}"
            async with client(kind, cut_off_url) as cut_off, client(kind, group.url) as locks:
                for number in range(5):
                    await use_once(locks, resource, holds, f"before{number}")
                group.replicas[0].wait_until_synced()
                group.link.refuse()
                group.link.cut()

                async def is_moved() -> bool:
                    try:
                        await use_once(cut_off, resource, holds, f"meanwhile{len(holds.windows)}")
                    except StoreError:
                        return False
                    return ask(group.replicas[0], "ROLE")[0] == b"master"

                await eventually_async(is_moved)
                await eventually_async(lambda: is_used(group.replicas[0], locks))
                windows = len(holds.windows)
                for _ in range(rounds):
                    # In turns, so that each grant begins when the one before is over. A take mints by the clock.
                    former = await cut_off.take("deal", ttl=TTL)
                    await former.release()
                    present = await locks.acquire("deal", ttl=TTL)
                    await present.release()
                    assert former.fence < present.fence
                for number in range(rounds):
                    await asyncio.gather(
                        try_once(cut_off, resource, holds, f"former{number}"),
                        use_once(locks, resource, holds, f"present{number}"),
                    )
        lost = await resource.lost(holds.acknowledged)
    await resource.client.aclose()
    both_sides = holds.windows[windows:]
    assert len({fence for _, _, fence in holds.windows}) == len(holds.windows)
    print(
        f"cut off: {Holds(both_sides).overlaps()} overlaps in {len(both_sides)} holds, {holds.refused} refused"
    )
    assert not lost


async def try_once(locks: Any, resource: Resource, holds: Holds, who: str) -> None:
    """As `use_once`, but a refusal by the guard is the end of it."""
    lease = await locks.acquire("deal", ttl=TTL, wait=LIMIT)
    begun = time.monotonic()
    try:
        await resource.append(who, lease.fence)
    except StaleFence:
        holds.refused += 1
    else:
        holds.acknowledged.add(who)
    holds.windows.append((begun, time.monotonic(), lease.fence))
    await lease.release()


async def is_used(server: Server, locks: Any) -> bool:
    """Whether a grant of this client is in this server."""
    lease = await insist(locks, "probe")
    found = ask(server, "EXISTS", "lock:{probe}")
    await lease.release()
    return bool(found)


@both
async def test_a_client_follows_a_fail_over_without_a_request_of_its_own(kind: str, full: bool) -> None:
    """The machine of the primary and of the sentinel that the client listens to is silent: nothing is closed."""
    if kind == "async" and not full:
        pytest.skip("only with --full")
    with Monitored(down_after_ms=DOWN_AFTER_MS) as group:
        first, *_ = group.sentinels
        async with client(kind, group.url, timeout=TIMEOUT, client_name="follower") as locks:
            await (await locks.acquire("deal", ttl=20)).release()
            await eventually_async(lambda: b"sub=1" in first.call("CLIENT", "LIST"))
            group.primary.pause()
            first.pause()
            try:
                await eventually_async(
                    lambda: b"name=follower " in ask(group.replicas[0], "CLIENT", "LIST"), every=0.1
                )
            finally:
                group.primary.resume()
                first.resume()


@both
async def test_sentinels_that_the_url_does_not_name_are_found_and_a_client_of_a_fail_over_connects(
    kind: str, full: bool
) -> None:
    if kind == "blocking" and not full:
        pytest.skip("only with --full")
    with Monitored(down_after_ms=DOWN_AFTER_MS) as group:
        first, *_ = group.sentinels
        async with client(kind, group.url_for(first)) as locks:
            before = await locks.acquire("deal", ttl=1)
            first.kill()
            group.primary.kill()
            # From the first moment on, as a program would that is started just now.
            async with client(kind, group.url_for(*group.sentinels), timeout=LIMIT) as newcomer:
                during = await newcomer.acquire("deal", ttl=20, wait=LIMIT)
                await during.release()
            after = await insist(locks, "deal")
            assert before.fence < during.fence < after.fence
            await after.release()


@both
async def test_two_of_three_sentinels_dead_change_nothing_for_clients(kind: str, full: bool) -> None:
    if kind == "blocking" and not full:
        pytest.skip("only with --full")
    with Monitored() as group:
        one, two, _ = group.sentinels
        async with client(kind, group.url, timeout=TIMEOUT) as locks:
            lease = await locks.acquire("deal", ttl=20, renew=True)
            one.kill()
            two.pause()
            try:
                await lease.renew()
                await (await locks.acquire("other", wait=0)).release()
                async with client(kind, group.url, timeout=4 * TIMEOUT) as newcomer:
                    with pytest.raises(leasehold.LockBusy):
                        await newcomer.acquire("deal", wait=0)
                lease.check()
                await lease.release()
            finally:
                two.resume()
