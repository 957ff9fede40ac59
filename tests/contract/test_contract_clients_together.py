"""All kinds of clients at once: a holder on one side excludes all other sides, and they see it."""

from __future__ import annotations

import asyncio
import time
from itertools import permutations

import pytest
from tests.contract.queues import LONG

from leasehold import LeaseLost, LockBusy


@pytest.mark.topologies
async def test_a_holder_on_one_side_is_seen_and_respected_on_every_other(every_side):
    for side, locks in every_side.items():
        lease = await locks.acquire("a", ttl=20, holder={"side": side})
        for other in every_side.values():
            info = await other.inspect("a")
            assert (info.holder, info.fence) == ({"side": side}, lease.fence)
            with pytest.raises(LockBusy) as busy:
                await other.acquire("a", wait=0)
            assert busy.value.holder == {"side": side}
        await lease.release()


@pytest.mark.topologies
async def test_a_take_on_one_side_ends_the_lease_on_every_other(every_side):
    fences = []
    for (_, one), (_, other) in permutations(every_side.items(), 2):
        old = await one.acquire("a", ttl=20)
        new = await other.take("a", ttl=20, expect_fence=old.fence)
        with pytest.raises(LeaseLost) as lost:
            await old.renew()
        assert lost.value.reason == "taken"
        await new.release()
        fences += [old.fence, new.fence]
    assert fences == sorted(set(fences))


async def test_threads_and_tasks_keep_each_other_out(every_side):
    """Each client reads a number, waits a little, and writes back one more."""
    account = {"balance": 0, "inside": 0, "fences": []}
    rounds = 4

    async def deposit(locks):
        for _ in range(rounds):
            lease = await locks.acquire("account", ttl=LONG, wait=LONG)
            account["inside"] += 1
            assert account["inside"] == 1
            account["fences"].append(lease.fence)
            balance = account["balance"]
            await asyncio.sleep(0.002)
            account["balance"] = balance + 1
            account["inside"] -= 1
            await lease.release()

    await asyncio.gather(*(deposit(locks) for locks in every_side.values()))
    assert account["balance"] == rounds * len(every_side)
    assert account["fences"] == sorted(set(account["fences"]))


async def test_a_thread_and_a_task_keep_each_other_out_inside_their_own_bodies(flavour, server, admin):
    """The clients' own contexts, without the adapter: `with` in a thread against `async with` in a task."""
    import leasehold

    inside, fences = [], []
    rounds = 10

    def thread():
        with leasehold.blocking.connect(server.url) as locks:
            for _ in range(rounds):
                with locks.lock("a", ttl=LONG, wait=LONG) as lease:
                    inside.append("thread")
                    assert inside == ["thread"]
                    fences.append(lease.fence)
                    time.sleep(0.003)
                    assert inside == ["thread"]
                    inside.clear()

    async def task():
        async with leasehold.connect(server.url) as locks:
            for _ in range(rounds):
                async with locks.lock("a", ttl=LONG, wait=LONG) as lease:
                    inside.append("task")
                    assert inside == ["task"]
                    fences.append(lease.fence)
                    await asyncio.sleep(0.003)
                    assert inside == ["task"]
                    inside.clear()

    await asyncio.gather(asyncio.to_thread(thread), task())
    assert fences == sorted(set(fences))
    assert len(fences) == 2 * rounds
