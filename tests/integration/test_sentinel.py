"""Locks on a primary that sentinels monitor: found, followed through fail-overs, and errors that name what is wrong."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.sentinels import SERVICE, Monitored
from tests.support.threads import InThread

import leasehold
from leasehold import LeaseLost, StoreError, StoreRefused, StoreUnavailable, blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.conftest import Count
    from tests.support.servers import Server

both = pytest.mark.parametrize("kind", ["async", "blocking"])


@pytest.fixture(scope="module")
def monitored() -> Iterator[Monitored]:
    """Not to be failed over."""
    with Monitored() as group:
        yield group


@asynccontextmanager
async def client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    if kind == "async":
        async with leasehold.connect(url, **options) as locks:
            yield locks
    else:
        with blocking.connect(url, **options) as locks:
            yield InThread(locks)


async def insist(locks: Any, name: str) -> Any:
    """A lease, as soon as there is a primary."""
    leases: list[Any] = []

    async def is_granted() -> bool:
        try:
            leases.append(await locks.acquire(name, ttl=20, wait=5))
        except StoreError:
            return False
        return True

    await eventually_async(is_granted)
    return leases[-1]


def is_connected(server: Server, name: str) -> bool:
    return f"name={name} " in server.call("CLIENT", "LIST").decode()


@both
async def test_a_lock_is_held_on_the_primary(monitored: Monitored, kind: str) -> None:
    async with client(kind, monitored.url) as locks:
        lease = await locks.acquire("deal", ttl=20)
        assert monitored.primary.call("EXISTS", "lock:{deal}")
        await lease.release()


@both
async def test_sentinels_that_do_not_reply_are_passed_over(monitored: Monitored, kind: str) -> None:
    silent, gone, alive = monitored.sentinels
    url = monitored.url_for(silent, gone, alive)
    silent.pause()
    gone.kill()
    try:
        async with client(kind, url, timeout=LIMIT) as locks:
            await (await locks.acquire("deal", ttl=20)).release()
    finally:
        silent.resume()
        gone.start()


@both
async def test_a_service_that_the_sentinels_do_not_know_is_refused_with_those_they_know(
    monitored: Monitored, kind: str
) -> None:
    with pytest.raises(StoreRefused, match=rf"knows no service 'lokcs'; it knows: {SERVICE}"):
        async with client(kind, monitored.url.replace(f"/{SERVICE}", "/lokcs")):
            pass


@both
async def test_a_server_that_is_no_sentinel_is_named(monitored: Monitored, kind: str) -> None:
    with pytest.raises(StoreRefused, match=f"127.0.0.1:{monitored.primary.port} is not a sentinel"):
        async with client(kind, monitored.url_for(monitored.primary)):
            pass


@both
async def test_a_sentinel_in_the_url_of_one_server_is_named(monitored: Monitored, kind: str) -> None:
    with pytest.raises(StoreRefused, match="is a sentinel: name it in"):
        async with client(kind, f"redis://127.0.0.1:{monitored.sentinels[0].port}"):
            pass


@both
async def test_the_password_of_sentinels_is_told_apart_from_that_of_the_servers(kind: str) -> None:
    with Monitored(password="open-sesame") as group:
        async with client(kind, group.url) as locks:
            await (await locks.acquire("deal", ttl=20)).release()
        wrong = group.url.replace("open-", "close-")
        with pytest.raises(StoreRefused, match=r"sentinel .* does not accept this login") as refused:
            async with client(kind, wrong):
                pass
        assert "sesame" not in str(refused.value)
        wrong = group.url.replace("://", "://somebody:xyzzy@")
        with pytest.raises(StoreRefused, match="the server does not accept this user name and password"):
            async with client(kind, wrong):
                pass


@both
@pytest.mark.parametrize("death", ["kill", "pause"])
async def test_waiters_get_the_lock_from_the_new_primary_and_fences_grow(
    count: Count, kind: str, death: str
) -> None:
    waiters = count(full=50, quick=5)
    with Monitored(down_after_ms=1000) as group:
        async with AsyncExitStack() as stack:
            holder = await stack.enter_async_context(client(kind, group.url))
            others = [await stack.enter_async_context(client(kind, group.url)) for _ in range(2)]
            lease = await holder.acquire("deal", ttl=2)
            waiting = [
                asyncio.create_task(use_once(locks, f"{number}"))
                for number, locks in zip(range(waiters), itertools.cycle(others))
            ]
            await eventually_async(lambda: group.primary.call("ZCARD", "lock:{deal}:queue") == waiters)
            group.replicas[0].wait_until_synced()
            getattr(group.primary, death)()
            fences = [lease.fence, *sorted(await asyncio.gather(*waiting))]
            assert group.replicas[0].info("replication")["role"] == "master"
            after = await insist(holder, "deal")
            assert len({*fences, after.fence}) == waiters + 2
            assert after.fence > max(fences)
            await after.release()
            group.primary.resume() if death == "pause" else None


async def use_once(locks: Any, who: str) -> int:
    """Acquire, through all errors of a fail-over, and release. Return the fence."""
    while True:
        try:
            async with asyncio.timeout(LIMIT):
                lease = await locks.acquire("deal", ttl=5, wait=LIMIT, holder=who)
                await lease.release()
        except (StoreUnavailable, LeaseLost):
            continue
        return lease.fence


@both
async def test_a_client_follows_a_fail_over_without_a_request_of_its_own(kind: str) -> None:
    """The former primary is alive, and silent for clients: nothing but the sentinels reports the new one."""
    with Monitored(down_after_ms=1000) as group:
        async with client(kind, group.url, client_name="follower") as locks:
            await (await locks.acquire("deal", ttl=20)).release()
            assert is_connected(group.primary, "follower")
            group.primary.pause()
            try:
                eventually(lambda: group.replicas[0].info("replication")["role"] == "master")
                await eventually_async(lambda: is_connected(group.replicas[0], "follower"))
            finally:
                group.primary.resume()


@both
async def test_sentinels_that_the_url_does_not_name_are_found(kind: str) -> None:
    with Monitored(down_after_ms=1000) as group:
        first, *_ = group.sentinels
        async with client(kind, group.url_for(first)) as locks:
            before = await locks.acquire("deal", ttl=1)
            first.kill()
            group.primary.kill()
            after = await insist(locks, "deal")
            assert after.fence > before.fence
            await after.release()
