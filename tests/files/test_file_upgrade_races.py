"""An upgrade beside another use of the same lease: a release, a renewal, a second upgrade."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.files.lock_store import FileLockStore

if TYPE_CHECKING:
    from tests.files.conftest import Shop


class Gate:
    """Holds every request of an upgrade before it is sent, or its reply, for asyncio and threads."""

    holds_answers = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached, self._is_open = threading.Event(), threading.Event()
        upgrade = FileLockStore.upgrade

        async def upgrade_and_wait(store: FileLockStore, *args: Any) -> Any:
            if self.holds_answers:
                answer = await upgrade(store, *args)
                await self._pass()
                return answer
            await self._pass()
            return await upgrade(store, *args)

        monkeypatch.setattr(FileLockStore, "upgrade", upgrade_and_wait)

    async def _pass(self) -> None:
        self.is_reached.set()
        if threading.current_thread() is threading.main_thread():
            await eventually_async(self._is_open.is_set)
        else:
            assert self._is_open.wait(LIMIT)

    async def reached(self) -> None:
        await eventually_async(self.is_reached.is_set)

    def open(self) -> None:
        self._is_open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def is_free(shop: Shop, session: Any) -> bool:
    return not (await (await shop.files()).inspect("a.txt")).is_held and await session.history() == []


async def is_being_given_back(lease: Any) -> None:
    await eventually_async(lambda: lease._is_releasing)


@pytest.mark.every_way_in
async def test_a_release_during_the_request_of_an_upgrade_frees_the_file(shop: Shop, gate: Gate) -> None:
    one = await shop.session("one")
    lease = await one.acquire_read("a.txt", renew=True)
    upgrading = asyncio.ensure_future(lease.upgrade())
    await gate.reached()
    releasing = asyncio.ensure_future(lease.release())
    await is_being_given_back(lease)
    gate.open()
    await releasing
    assert await is_free(shop, one)
    with pytest.raises(leasehold.LeaseLost) as lost:
        await upgrading
    assert lost.value.reason == "released"
    assert one.held == []


async def test_a_body_that_ends_during_the_request_of_its_upgrade_frees_the_file(
    own_shop: Shop, gate: Gate
) -> None:
    one = await own_shop.session("one")
    async with one.read("a.txt") as lease:
        upgrading = asyncio.ensure_future(lease.upgrade())
        await gate.reached()
        gate.open()
    assert await is_free(own_shop, one)
    with pytest.raises(leasehold.LeaseLost):
        await upgrading


async def test_a_release_that_is_cancelled_while_the_upgrade_is_granted_frees_the_file_all_the_same(
    own_shop: Shop, gate: Gate
) -> None:
    gate.holds_answers = True
    one = await own_shop.session("one")
    lease = await one.acquire_read("a.txt", renew=True)
    upgrading = asyncio.ensure_future(lease.upgrade())
    await gate.reached()
    releasing = asyncio.ensure_future(lease.release())
    await is_being_given_back(lease)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    gate.open()
    with pytest.raises(leasehold.LeaseLost):
        await upgrading
    files = await own_shop.files()

    async def is_not_held() -> bool:
        return not (await files.inspect("a.txt")).is_held

    await eventually_async(is_not_held)


async def test_a_release_does_not_wait_for_the_readers_that_the_upgrade_waits_for(valkey_shop: Shop) -> None:
    one, other = await valkey_shop.session("one"), await valkey_shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    files = await valkey_shop.files()
    upgrading = asyncio.ensure_future(mine.upgrade(wait=None))

    async def is_in_the_queue() -> bool:
        return (await files.inspect("a.txt")).waiters == 1

    await eventually_async(is_in_the_queue)
    await asyncio.wait_for(mine.release(), LIMIT)
    with pytest.raises(leasehold.LeaseLost):
        await upgrading
    theirs.check()
    assert await one.history() == []


async def test_the_second_of_two_upgrades_of_one_lease_finds_it_done(valkey_shop: Shop, gate: Gate) -> None:
    one = await valkey_shop.session("one")
    lease = await one.acquire_read("a.txt", renew=True)
    upgrades = [asyncio.ensure_future(lease.upgrade())]
    await gate.reached()
    upgrades.append(asyncio.ensure_future(lease.upgrade()))
    await eventually_async(lambda: len(lease.thing.upgrades) == 2)
    gate.open()
    assert await asyncio.gather(*upgrades) == [None, None]
    assert lease.mode == "write"
    lease.check()


@pytest.mark.parametrize(("wait", "kind"), [(0, leasehold.FileBusy), (0.1, leasehold.FileTimeout)])
async def test_an_upgrade_without_a_wait_is_refused_while_another_one_of_the_lease_runs(
    valkey_shop: Shop, gate: Gate, wait: float, kind: type[Exception]
) -> None:
    one = await valkey_shop.session("one")
    lease = await one.acquire_read("a.txt", renew=True)
    upgrading = asyncio.ensure_future(lease.upgrade())
    await gate.reached()
    with pytest.raises(leasehold.FileBusy) as refused:
        await lease.upgrade(wait=wait)
    assert type(refused.value) is kind
    assert refused.value.holder["session"] == "one"
    gate.open()
    await upgrading
    assert lease.mode == "write"


async def test_a_renewal_that_waited_for_an_upgrade_renews_the_writers_lease(
    valkey_shop: Shop, gate: Gate
) -> None:
    one = await valkey_shop.session("one")
    lease = await one.acquire_read("a.txt", ttl=60)
    upgrading = asyncio.ensure_future(lease.upgrade())
    await gate.reached()
    renewing = asyncio.ensure_future(lease.renew(200))
    await eventually_async(lambda: any(len(each.exchanges) == 2 for each in lease.thing))
    gate.open()
    await asyncio.gather(upgrading, renewing)
    assert lease.mode == "write"
    assert lease.remaining() > 100


async def test_after_an_upgrade_the_end_is_waited_for_as_before(valkey_shop: Shop) -> None:
    """The reader's lease ends with it, and that must not be taken for the end of the hold again and again."""
    one = await valkey_shop.session("one")
    lease = await one.acquire_read("a.txt")
    await lease.upgrade()
    looks = 0
    hold = lease.thing
    loss = hold.loss

    def count_looks() -> Any:
        nonlocal looks
        looks += 1
        return loss()

    hold.loss = count_looks
    assert await lease.lost(timeout=0.3) is None
    assert looks < 10


async def test_a_refusal_after_silence_leaves_neither_lease(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upgrade was done and its reply lost: the refusal of the repetition does not exclude that."""
    one, other = await own_shop.session("one"), await own_shop.session("other")
    lease = await one.acquire_read("a.txt")
    upgrade, answers = FileLockStore.upgrade, iter(["lost"])

    async def lose_then_refuse(store: FileLockStore, *args: Any) -> Any:
        if next(answers, None) is None:
            raise leasehold.StoreRefused("READONLY")
        await upgrade(store, *args)
        raise leasehold.StoreUnavailable("the answer is lost")

    monkeypatch.setattr(FileLockStore, "upgrade", lose_then_refuse)
    with pytest.raises(leasehold.StoreRefused):
        await lease.upgrade(wait=0)
    assert lease.is_lost
    assert (await other.acquire_write("a.txt", wait=LIMIT)).mode == "write"


async def test_a_plain_refusal_leaves_the_reader_as_it_was(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await own_shop.session("one")
    lease = await one.acquire_read("a.txt")

    async def refuse(*_: Any) -> Any:
        raise leasehold.StoreRefused("READONLY")

    with monkeypatch.context() as for_now:
        for_now.setattr(FileLockStore, "upgrade", refuse)
        with pytest.raises(leasehold.StoreRefused):
            await lease.upgrade(wait=0)
    lease.check()
    await lease.upgrade()
    assert lease.mode == "write"
