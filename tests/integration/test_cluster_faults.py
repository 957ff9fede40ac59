"""Nodes of a cluster that die or fall silent: the locks of the others are not disturbed."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clients import both, client
from tests.support.clusters import Cluster, Node
from tests.support.eventually import LIMIT, eventually_async
from tests.support.threads import InThread

from leasehold import LeaseLost, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Count


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """Not the shared one: its nodes are paused."""
    with Cluster() as cluster:
        yield cluster


def plain(thing: Any) -> Any:
    """The client or lease itself, of either kind."""
    return thing._thing if isinstance(thing, InThread) else thing


def listening_at(cluster: Cluster, locks: Any) -> Node:
    """The primary at which this client gets its notifications."""
    channel = f"leasehold:{plain(locks).store_access.transport.channel}"
    (node,) = [each for each in cluster.primaries if each.is_running and is_heard(each, channel)]
    return node


def is_heard(node: Node, channel: str) -> bool:
    return channel.encode() in node.call("PUBSUB", "CHANNELS", "leasehold:*")


@both
@pytest.mark.parametrize("death", ["kill", "pause"])
async def test_when_a_primary_is_lost_the_others_are_not_disturbed_and_its_replica_goes_on(
    count: Count, kind: str, death: str
) -> None:
    """It is also the node at which the client listens."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    cycles, errors, is_over = Counter[str](), Counter[str](), False

    async def use(locks: Any, name: str) -> None:
        latest = 0
        while not is_over:
            try:
                lease = await locks.acquire(name, ttl=LIMIT, wait=LIMIT)
                assert lease.fence > latest
                latest = lease.fence
                await lease.release()
            except (StoreError, LeaseLost):
                errors[name] += 1
                await asyncio.sleep(0.01)
            else:
                cycles[name] += 1

    async def progress(*names: str) -> None:
        goals = {name: cycles[name] + count(full=500, quick=50) for name in names}
        await eventually_async(lambda: all(cycles[name] >= goal for name, goal in goals.items()), 2 * LIMIT)

    with Cluster(replicas=1) as cluster:
        names = cluster.names_everywhere()
        # A short timeout for the lost node, a long one for the others: a slow machine is no error.
        async with (
            client(kind, cluster.url, timeout=LIMIT) as locks,
            client(kind, cluster.url, timeout=1) as hasty,
        ):
            await eventually_async(lambda: is_listening(cluster, locks))
            lost = listening_at(cluster, locks)
            index = cluster.primaries.index(lost)
            lost_name, others = names[index], [name for name in names if name != names[index]]
            kept = [
                await locks.acquire(cluster.names_on(node, 1, "kept")[0], ttl=LIMIT, renew=True)
                for node in cluster.primaries
                if node is not lost
            ]
            tasks = [asyncio.create_task(use(hasty if name == lost_name else locks, name)) for name in names]
            await progress(*names)
            getattr(lost, death)()
            await progress(*others)
            cluster.replicas[index].call("CLUSTER", "FAILOVER", "TAKEOVER")
            await progress(*names)
            is_over = True
            await asyncio.gather(*tasks)
            assert [errors[name] for name in others] == [0, 0]
            for lease in kept:
                await lease.release()


@both
async def test_a_client_listens_at_another_node_when_its_own_is_lost(own_cluster: Cluster, kind: str) -> None:
    options = {"retry_interval": LIMIT, "timeout": LIMIT}
    async with client(kind, own_cluster.url, **options) as locks:
        names = own_cluster.names_everywhere()
        await (await locks.acquire(names[0], ttl=20)).release()
        await eventually_async(lambda: is_listening(own_cluster, locks))
        first = listening_at(own_cluster, locks)
        first.call("CLIENT", "KILL", "TYPE", "pubsub")
        await eventually_async(lambda: is_listening(own_cluster, locks))
        assert listening_at(own_cluster, locks) is not first
        async with client(kind, own_cluster.url) as rival:
            for name in names:
                lease = await locks.acquire(name, ttl=4 * LIMIT)
                await (await rival.take(name, ttl=20)).release()
                assert await lease.lost(timeout=LIMIT) == "taken"


def is_listening(cluster: Cluster, locks: Any) -> bool:
    try:
        listening_at(cluster, locks)
    except ValueError:
        return False
    return True


@both
async def test_a_silent_node_delays_no_renewal_of_the_others(own_cluster: Cluster, kind: str) -> None:
    silent, *healthy = own_cluster.primaries
    async with client(kind, own_cluster.url, timeout=4 * LIMIT) as locks:
        names = [own_cluster.names_on(node, 1, "r")[0] for node in (silent, *healthy)]
        leases = [plain(await locks.acquire(name, ttl=4 * LIMIT)) for name in names]
        silent.pause()
        try:
            for lease in leases:
                lease.renews = True
                lease.valid_until -= 3 * LIMIT  # as if so much time had passed, so that all are due now
                plain(locks)._engine.watch(lease)
            late = leases[0].valid_until
            await eventually_async(lambda: all(lease.valid_until > late + LIMIT for lease in leases[1:]))
            assert leases[0].valid_until == late
        finally:
            silent.resume()
        await eventually_async(lambda: leases[0].valid_until > late + LIMIT)
        for name in names:
            await (await locks.take(name, ttl=20)).release()


@both
async def test_a_silent_node_delays_no_waiter_of_the_others(own_cluster: Cluster, kind: str) -> None:
    silent, healthy, _ = own_cluster.primaries
    blocked, free = own_cluster.names_on(silent, 1, "w")[0], own_cluster.names_on(healthy, 1, "w")[0]
    async with (
        client(kind, own_cluster.url) as holder,
        client(kind, own_cluster.url, timeout=4 * LIMIT) as waiter,
    ):
        await holder.acquire(blocked, ttl=4 * LIMIT)
        waiting = asyncio.create_task(waiter.acquire(blocked, ttl=20, wait=4 * LIMIT))
        await eventually_async(lambda: silent.call("ZCARD", f"lock:{{{blocked}}}:queue") == 1)
        # It ends without a notification, so only a poll shows that.
        held = await holder.acquire(free, ttl=1)
        silent.pause()
        try:
            async with asyncio.timeout(LIMIT):
                await (await waiter.acquire(free, ttl=20, wait=LIMIT)).release()
            assert held.is_lost
            assert not waiting.done()
        finally:
            silent.resume()
        await (await waiter.take(blocked, ttl=20)).release()
        await (await waiting).release()


@both
async def test_a_node_that_is_cut_off_is_not_believed(own_cluster: Cluster, kind: str) -> None:
    """It says that the cluster is down, and knows of no other node, or only of those that there were before."""
    with Node("valkey9", node_timeout_ms=60_000) as cut_off:
        url = own_cluster.url_for(cut_off, *own_cluster.primaries)
        async with client(kind, url) as locks:
            for name in own_cluster.names_everywhere():
                await (await locks.acquire(name, ttl=20)).release()
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{cut_off.port} says that the cluster is down"):
            async with client(kind, own_cluster.url_for(cut_off), timeout=0.3):
                pass
