"""Locks on a cluster: each on the primary that keeps its slot, with everything that concerns several of them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clients import both, client
from tests.support.clusters import Cluster, slot_of
from tests.support.eventually import LIMIT, eventually_async
from tests.support.servers import ADMIN_PASSWORD, ADMIN_USER, FLAVOURS

import leasehold
from leasehold import LockBusy, StoreRefused, StoreUnavailable, blocking
from leasehold.valkey.transport.async_connection import AsyncConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.conftest import Clusters, Count
    from tests.support.servers import Server
    from tests.support.tls import Certificates, TlsFront

flavours = pytest.mark.parametrize("flavour", sorted({"valkey9", "redis62"} & FLAVOURS.keys()))


@both
@flavours
async def test_each_lock_is_held_on_the_primary_that_keeps_its_slot(
    clusters: Clusters, flavour: str, kind: str
) -> None:
    cluster = clusters.empty(flavour)
    names = cluster.names_everywhere()
    async with client(kind, cluster.url_for(cluster.primaries[1])) as locks:
        leases = [await locks.acquire(name, ttl=60) for name in names]
        for node, name in zip(cluster.primaries, names, strict=True):
            assert node.call("EXISTS", f"lock:{{{name}}}")
        for name in names:
            assert await locks.try_acquire(name) is None
            assert (await locks.inspect(name)).is_held
        taken = await locks.take(names[0], ttl=60, expect_fence=leases[0].fence)
        assert taken.fence > leases[0].fence
        for lease in (taken, *leases[1:]):
            await lease.renew(30)
            await lease.release()
        assert await locks.once(names[1], lambda: 7) == 7
        assert await locks.once(names[1], lambda: 8) == 7


@both
async def test_waiters_on_every_node_are_notified(cluster: Cluster, kind: str) -> None:
    """The subscription is on one node, and the locks are on three."""
    # So long that only a notification comes in time.
    options = {"retry_interval": LIMIT, "timeout": LIMIT}
    async with client(kind, cluster.url, **options) as holder, client(kind, cluster.url, **options) as waiter:
        for name, node in zip(cluster.names_everywhere(), cluster.primaries, strict=True):
            lease = await holder.acquire(name, ttl=4 * LIMIT)
            waiting = asyncio.create_task(waiter.acquire(name, ttl=60, wait=2 * LIMIT))
            queue = f"lock:{{{name}}}:queue"
            await eventually_async(lambda node=node, queue=queue: node.call("ZCARD", queue) == 1)
            await lease.release()
            async with asyncio.timeout(LIMIT):
                await (await waiting).release()


@both
async def test_a_holder_learns_of_a_take_on_any_node(cluster: Cluster, kind: str) -> None:
    async with client(kind, cluster.url) as holder, client(kind, cluster.url) as taker:
        for name in cluster.names_everywhere():
            lease = await holder.acquire(name, ttl=4 * LIMIT)
            await (await taker.take(name, ttl=60)).release()
            assert await lease.lost(timeout=LIMIT) == "taken"


@both
async def test_a_listing_shows_the_locks_of_all_nodes_each_once(cluster: Cluster, kind: str) -> None:
    names = {name for node in cluster.primaries for name in cluster.names_on(node, 40)}
    async with client(kind, cluster.url) as locks:
        for name in names:
            await locks.acquire(name, ttl=120)
        assert Counter(await listed(locks)) == Counter(names)
        assert set(await listed(locks, "lock-1*")) == {name for name in names if name.startswith("lock-1")}


async def listed(locks: Any, pattern: str = "*") -> list[str]:
    if isinstance(locks, leasehold.Client):
        return [info.name async for info in locks.list(pattern)]
    found = await locks.list(pattern)
    return await asyncio.to_thread(lambda: [info.name for info in found])


@both
async def test_several_locks_are_acquired_together_over_all_nodes_all_or_none(
    cluster: Cluster, count: Count, kind: str
) -> None:
    names = cluster.names_everywhere()
    rounds, clients = count(full=20, quick=3), 20
    inside = 0

    async def use(locks: Any, order: list[str]) -> None:
        nonlocal inside
        for _ in range(rounds):
            async with together(kind, locks, order, wait=LIMIT):
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * clients))
    options = {"timeout": LIMIT}
    async with client(kind, cluster.url, **options) as one, client(kind, cluster.url, **options) as other:
        async with asyncio.timeout(2 * LIMIT):
            await asyncio.gather(
                *(
                    use(one if number % 2 else other, names if number % 3 else names[::-1])
                    for number in range(clients)
                )
            )
        held = await one.acquire(names[2], ttl=60)
        with pytest.raises(LockBusy) as busy:
            await together(kind, one, names, wait=0).__aenter__()
        assert busy.value.name == names[2]
        await held.release()
        for name in names:
            await (await one.acquire(name, ttl=60, wait=0)).release()


@both
async def test_several_locks_of_one_slot_are_acquired_in_one_step(cluster: Cluster, kind: str) -> None:
    name = "deal"
    twin = next(f"twin-{number}" for number in range(10**6) if slot_of(f"twin-{number}") == slot_of(name))
    owner = cluster.owner(slot_of(name))
    async with client(kind, cluster.url) as locks:
        owner.call("CONFIG", "RESETSTAT")
        async with together(kind, locks, [name, twin], wait=0):
            pass
        assert owner.info("commandstats")["cmdstat_evalsha"]["calls"] == 1


@asynccontextmanager
async def together(kind: str, locks: Any, names: list[str], *, wait: float) -> AsyncIterator[None]:
    if kind == "async":
        async with locks.lock_all(names, ttl=60, wait=wait):
            yield
    else:
        context = await locks.lock_all(names, ttl=60, wait=wait)
        await asyncio.to_thread(context.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


async def test_renewals_of_a_thousand_leases_cost_one_round_trip_per_node(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: Counter[str] = Counter()
    run_many = AsyncConnection.run_many

    async def counted(self: AsyncConnection, calls: Any) -> Any:
        sent[self.name] += len(calls)
        trips[self.name] += 1
        return await run_many(self, calls)

    trips: Counter[str] = Counter()
    names = [name for node in cluster.primaries for name in cluster.names_on(node, 334)][:1000]
    async with leasehold.connect(cluster.url, timeout=LIMIT) as locks:
        leases = await asyncio.gather(*(locks.acquire(name, ttl=4 * LIMIT) for name in names))
        monkeypatch.setattr(AsyncConnection, "run_many", counted)
        for lease in leases:
            lease.renews = True
            lease.valid_until -= 3 * LIMIT  # as if so much time had passed, so that all are due now
            locks._engine.watch(lease)
        await eventually_async(lambda: sum(sent.values()) >= 1000)
        assert dict(trips) == {f"127.0.0.1:{node.port}": 1 for node in cluster.primaries}
        assert sum(sent.values()) == 1000
        for lease in leases:
            lease.abandon()


@both
async def test_a_script_that_one_node_has_forgotten_is_sent_again(cluster: Cluster, kind: str) -> None:
    names = cluster.names_everywhere()
    async with client(kind, cluster.url) as locks:
        for node in cluster.primaries:
            node.call("SCRIPT", "FLUSH")
            leases = [await locks.acquire(name, ttl=60) for name in names]
            node.call("SCRIPT", "FLUSH")
            for lease in leases:
                await lease.renew()
            node.call("SCRIPT", "FLUSH")
            assert len(await listed(locks)) == 3
            for lease in leases:
                await lease.release()


# Wrong addresses


@both
async def test_a_server_that_is_no_cluster_is_named(valkey: Server, kind: str) -> None:
    url = f"redis+cluster://127.0.0.1:{valkey.port}"
    with pytest.raises(StoreRefused, match=f"127.0.0.1:{valkey.port} is no node of a cluster.* redis://"):
        async with client(kind, url):
            pass


@both
async def test_a_node_of_a_cluster_in_the_url_of_one_server_is_named(cluster: Cluster, kind: str) -> None:
    with pytest.raises(StoreRefused, match=r"is a node of a cluster: .* redis\+cluster://"):
        async with client(kind, cluster.primaries[0].url):
            pass


@both
async def test_nodes_that_do_not_reply_are_passed_over(cluster: Cluster, kind: str) -> None:
    closed = "127.0.0.1:1"
    url = cluster.url.replace("://", f"://{closed},")
    async with client(kind, url) as locks:
        await (await locks.acquire("deal", ttl=20)).release()
    with pytest.raises(StoreUnavailable, match=f"no node of the cluster replies: no connection to {closed}"):
        async with client(kind, f"redis+cluster://{closed}", timeout=0.3):
            pass


@both
async def test_a_wrong_password_is_refused_and_never_shown(cluster: Cluster, kind: str) -> None:
    login = f"{ADMIN_USER}:{ADMIN_PASSWORD}"
    async with client(kind, cluster.url.replace("://", f"://{login}@")) as locks:
        await (await locks.acquire("deal", ttl=20)).release()
    with pytest.raises(StoreRefused, match="does not accept this user name and password") as refused:
        async with client(kind, cluster.url.replace("://", f"://{ADMIN_USER}:xyzzy@")):
            pass
    assert "xyzzy" not in str(refused.value)


@both
async def test_an_announced_address_that_cannot_be_reached_is_named(kind: str) -> None:
    with Cluster(primaries=1, cluster_announce_ip="127.0.0.9", cluster_announce_port=1) as cluster:
        port = cluster.primaries[0].port
        with pytest.raises(
            StoreUnavailable, match=r"127.0.0.9:1, which the cluster announces: .*address_map"
        ):
            async with client(kind, cluster.url, timeout=0.5):
                pass
        mapped = f"{cluster.url}?address_map=127.0.0.9:1=localhost:{port}"
        async with client(kind, mapped) as locks:
            await (await locks.acquire("deal", ttl=20)).release()


@both
async def test_a_cluster_without_all_slots_is_not_ready(kind: str) -> None:
    with Cluster(primaries=1, cluster_require_full_coverage=False) as cluster:
        cluster.primaries[0].call("CLUSTER", "DELSLOTS", 17)
        with pytest.raises(StoreUnavailable, match="serves slot 17 now"):
            async with client(kind, cluster.url, timeout=0.5):
                pass


@both
async def test_a_cluster_is_reached_over_tls(
    cluster: Cluster, certificates: Certificates, tls_front: Callable[..., TlsFront], kind: str
) -> None:
    """The servers here have no TLS of their own: each is behind a front, where the address map finds it."""
    fronts = [tls_front(node) for node in cluster.primaries]
    address_map = ",".join(
        f"127.0.0.1:{node.port}=localhost:{front.port}"
        for node, front in zip(cluster.primaries, fronts, strict=True)
    )
    url = (
        f"rediss+cluster://localhost:{fronts[0].port}?ssl_ca_certs={certificates.ca_file}"
        f"&address_map={address_map}"
    )
    async with client(kind, url) as locks:
        for name in cluster.names_everywhere():
            await (await locks.acquire(name, ttl=20)).release()


# Processes


@pytest.mark.parametrize("kind", ["blocking"])
async def test_a_forked_child_connects_by_itself_and_leaves_the_parents_leases(
    cluster: Cluster, kind: str
) -> None:
    del kind
    with blocking.connect(cluster.url) as locks:
        names = cluster.names_everywhere()
        leases = [locks.acquire(name, ttl=60) for name in names]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                verdict = b"y" if all(locks.try_acquire(name) is None for name in names) else b"n"
                for name in ("child-1", "child-2", "child-3"):
                    locks.acquire(name, ttl=20).release()
                os.write(writer, verdict)
            finally:
                os._exit(0)
        os.close(writer)
        assert os.read(reader, 1) == b"y"
        os.close(reader)
        os.waitpid(child, 0)
        for lease in leases:
            lease.renew()
            lease.release()


@both
async def test_closing_ends_every_connection_and_thread(cluster: Cluster, kind: str) -> None:
    before = set(threading.enumerate())
    async with client(kind, cluster.url, client_name="leaver") as locks:
        for name in cluster.names_everywhere():
            await locks.acquire(name, ttl=20, renew=True)
        assert sum(text.count(b"name=leaver ") for text in cluster.call_all("CLIENT", "LIST")) >= 3

    def is_gone() -> bool:
        ours = [each for each in set(threading.enumerate()) - before if each.name == "leasehold"]
        return not ours and not any(b"name=leaver " in text for text in cluster.call_all("CLIENT", "LIST"))

    await eventually_async(is_gone)
