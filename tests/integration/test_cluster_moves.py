"""Slots of a cluster that are moved to other nodes while their locks are in use."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clients import both, client
from tests.support.clusters import slot_of
from tests.support.eventually import LIMIT, eventually_async
from tests.support.threads import InThread

from leasehold import StoreRefused
from leasehold.core.replies import DONE, Renewal
from leasehold.core.sync_runner import run_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.conftest import Clusters, Count
    from tests.support.clusters import Cluster, Node

NAME = "deal"
SLOT = slot_of(NAME)
TWIN = next(f"twin-{number}" for number in range(10**6) if slot_of(f"twin-{number}") == SLOT)


def move_live(cluster: Cluster, target: Node, slot: int = SLOT) -> None:
    cluster.move_live(slot, target)


def move_keys(cluster: Cluster, target: Node, slot: int = SLOT) -> None:
    source = cluster.begin_move(slot, target)
    cluster.move_keys(slot, source, target, source.keys_in(slot)[::2])
    cluster.end_move(slot, source, target)


ways = pytest.mark.parametrize(
    ("flavour", "move"),
    [("valkey9", move_live), ("valkey9", move_keys), ("redis62", move_keys)],
    ids=["valkey9-live", "valkey9-keys", "redis62-keys"],
)


@both
@ways
async def test_a_moving_slot_gives_no_wrong_answer_and_loses_no_lease(
    clusters: Clusters, count: Count, kind: str, flavour: str, move: Callable[..., None]
) -> None:
    cluster = clusters.empty(flavour)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    held_by, fences, cycles, is_over = 0, [0], 0, False

    async def use(locks: Any) -> None:
        nonlocal held_by, cycles
        while not is_over:
            lease = await locks.acquire(NAME, ttl=4 * LIMIT, wait=LIMIT)
            held_by += 1
            assert held_by == 1
            assert lease.fence > fences[-1]
            fences.append(lease.fence)
            assert await locks.try_acquire(NAME) is None
            await asyncio.sleep(0.001)
            held_by -= 1
            await lease.release()
            cycles += 1

    async def renew(lease: Any) -> None:
        nonlocal cycles
        while not is_over:
            await lease.renew(4 * LIMIT)
            cycles += 1
            await asyncio.sleep(0.001)

    options = {"timeout": LIMIT}
    async with client(kind, cluster.url, **options) as one, client(kind, cluster.url, **options) as other:
        kept = await one.acquire(TWIN, ttl=4 * LIMIT)
        tasks = [
            asyncio.create_task(work) for work in (use(one), use(one), use(other), use(other), renew(kept))
        ]
        home, away = cluster.owner(SLOT), cluster.others(SLOT)[0]
        for _ in range(count(full=10, quick=1)):
            for target in (away, home):
                before = cycles
                await eventually_async(
                    lambda before=before: cycles >= before + 20 or any(task.done() for task in tasks)
                )
                await asyncio.to_thread(move, cluster, target)
        is_over = True
        await asyncio.gather(*tasks)
        kept.check()
        assert await other.try_acquire(TWIN) is None
        await kept.release()


@both
async def test_a_slot_that_still_moves_in_the_end_is_refused_with_nothing_done(
    cluster: Cluster, kind: str
) -> None:
    target = cluster.others(SLOT)[0]
    async with client(kind, cluster.url, timeout=0.5) as locks:
        lease = await locks.acquire(NAME, ttl=4 * LIMIT)
        source = cluster.begin_move(SLOT, target)
        cluster.move_keys(SLOT, source, target, [in_key(NAME)])
        for request in (
            lambda: locks.acquire(NAME, ttl=20, wait=0),
            lambda: locks.acquire(NAME, ttl=20, wait=5),
            lambda: locks.take(NAME, ttl=20),
            lambda: locks.inspect(NAME),
            lambda: locks.once(NAME, lambda: 1),
            lambda: lease.renew(4 * LIMIT),
        ):
            with pytest.raises(StoreRefused, match=f"slot {SLOT} is being moved.*nothing was done"):
                await request()
        assert not lease.is_lost
        cluster.end_move(SLOT, source, target)
        await lease.renew()
        assert await locks.try_acquire(NAME) is None
        await lease.release()
        await (await locks.acquire(NAME, ttl=20, wait=0)).release()


@both
@pytest.mark.parametrize("flavour", ["valkey9", "redis62"])
async def test_what_needs_one_key_goes_on_at_the_node_to_which_it_is_being_moved(
    clusters: Clusters, kind: str, flavour: str
) -> None:
    """A key that is not there any more, or not yet, is asked for at the other node."""
    cluster = clusters.empty(flavour)
    slot = slot_of("pay:1")
    target = cluster.others(slot)[0]
    async with client(kind, cluster.url, timeout=LIMIT) as locks:
        source = cluster.begin_move(slot, target)
        assert await locks.first_time("pay", 1)
        assert not await locks.first_time("pay", 1)
        assert target.keys_in(slot)
        assert not source.keys_in(slot)
        assert await locks.once("pay:1:x", lambda: 7) == 7  # in another slot
        cluster.end_move(slot, source, target)
        assert not await locks.first_time("pay", 1)


@both
async def test_a_batch_of_renewals_does_not_wait_for_a_slot_that_is_being_moved(
    cluster: Cluster, kind: str
) -> None:
    """With the other leases of the node it would wait for the whole timeout, and they would run out meanwhile."""
    source, target = cluster.owner(SLOT), cluster.others(SLOT)[0]
    names = [*cluster.names_on(source, 3), NAME]
    async with client(kind, cluster.url, timeout=4 * LIMIT) as locks:
        leases = [await locks.acquire(name, ttl=4 * LIMIT) for name in names]
        cluster.begin_move(SLOT, target)
        cluster.move_keys(SLOT, source, target, [in_key(NAME)])
        renewals = [Renewal(lease.name, lease.token, lease.fence, 4 * LIMIT) for lease in leases]
        async with asyncio.timeout(LIMIT):
            *done, moving = await of_store(kind, plain(locks)._engine.store.renew(renewals))
        assert done == [DONE] * 3
        assert isinstance(moving, StoreRefused)
        cluster.end_move(SLOT, source, target)
        for lease in leases:
            await lease.release()


@both
@ways
async def test_a_listing_is_complete_while_slots_are_moved(
    clusters: Clusters, count: Count, kind: str, flavour: str, move: Callable[..., None]
) -> None:
    """To a node that has been listed from one that has not been, and the other way round."""
    cluster = clusters.empty(flavour)
    names = {name for node in cluster.primaries for name in cluster.names_on(node, 50)} | {NAME, TWIN}
    async with client(kind, cluster.url, timeout=LIMIT) as locks:
        for name in names:
            await locks.acquire(name, ttl=4 * LIMIT)
        for _ in range(count(full=5, quick=1)):
            for target in (*cluster.primaries, *cluster.primaries[::-1]):
                if target is cluster.owner(SLOT):
                    continue
                found: list[str] = []
                cursor: Any = 0
                while True:
                    cursor, page = await of_store(kind, plain(locks)._engine.page("*", cursor))
                    found += [info.name for info in page]
                    if cursor and target is not cluster.owner(SLOT):
                        await asyncio.to_thread(move, cluster, target)
                    if not cursor:
                        break
                assert set(found) == names


def plain(thing: Any) -> Any:
    """The client or lease itself, of either kind."""
    return thing._thing if isinstance(thing, InThread) else thing


async def of_store(kind: str, work: Coroutine[Any, Any, Any]) -> Any:
    return await (work if kind == "async" else asyncio.to_thread(run_sync, work))


@both
@ways
@pytest.mark.parametrize("target", [0, 2], ids=["scanned", "not-scanned"])
async def test_a_slot_that_is_moved_while_its_node_is_scanned_is_scanned_again(
    clusters: Clusters, kind: str, flavour: str, move: Callable[..., None], target: int
) -> None:
    """In the middle of the scan of a node: to one that has been scanned, and to one that has not been."""
    cluster = clusters.empty(flavour)
    async with client(kind, cluster.url, timeout=LIMIT) as locks:
        names = [name for node in cluster.primaries for name in cluster.names_on(node, 20)]
        for name in names:
            await locks.acquire(name, ttl=4 * LIMIT)
        wanted = {in_key(name) for name in names}
        transport, source = plain(locks).store_access.transport, cluster.primaries[1]
        found: set[bytes] = set()
        cursor, moved = None, None
        while cursor != 0:
            scan = partial(transport.call, "SCAN", cursor or 0, "MATCH", "lock:*", "COUNT", 5)
            # As `list` does, while the map is older than what the node itself says.
            cursor, keys = await of_store(kind, plain(locks)._engine.retry(scan))
            found |= set(keys)
            if not moved and cursor and cursor.node is not None and cursor.node.port == source.port:
                # One that this node has not shown yet.
                moved = next(name for name in cluster.names_on(source, 20) if in_key(name) not in found)
                await asyncio.to_thread(move, cluster, cluster.primaries[target], slot_of(moved))
        assert moved
        assert wanted <= found
        await asyncio.to_thread(move, cluster, source, slot_of(moved))


def in_key(name: str) -> bytes:
    return f"lock:{{{name}}}".encode()


@both
async def test_a_listing_shows_locks_that_are_half_moved(cluster: Cluster, kind: str) -> None:
    source, target = cluster.owner(SLOT), cluster.others(SLOT)[0]
    async with client(kind, cluster.url, timeout=LIMIT) as locks:
        for name in (NAME, TWIN):
            await locks.acquire(name, ttl=4 * LIMIT)
        cluster.begin_move(SLOT, target)
        half = [key for key in source.keys_in(SLOT) if NAME.encode() in key]
        cluster.move_keys(SLOT, source, target, half)
        keys: list[bytes] = []
        transport = plain(locks).store_access.transport
        cursor: Any = 0
        while True:
            cursor, found = await of_store(kind, transport.call("SCAN", cursor, "MATCH", "lock:*"))
            keys += found
            if not cursor:
                break
        assert {in_key(NAME), in_key(TWIN)} <= set(keys)
        cluster.end_move(SLOT, source, target)
