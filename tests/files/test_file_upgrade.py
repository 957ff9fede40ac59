"""From reading to writing, with no writer in between."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.files import FileSettings
from leasehold.files.lock_store import FileLockStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.files.conftest import Shop
    from tests.support.proxy import FaultProxy


async def waiters(shop: Shop, path: str, count: int) -> None:
    files = await shop.files()

    async def are_there() -> bool:
        return (await files.inspect(path)).waiters == count

    await eventually_async(are_there)


@pytest.mark.every_way_in
async def test_an_only_reader_is_upgraded_at_once_with_a_new_fence(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.read("a.txt") as lease:
        before = lease.fence
        await lease.upgrade(wait=0)
        assert lease.mode == "write"
        assert lease.fence > before
        with pytest.raises(leasehold.FileBusy):
            await other.acquire_read("a.txt", wait=0)
        (entry,) = await one.history()
        assert (entry.mode, entry.fence) == ("write", lease.fence)
        await lease.renew()
        await lease.upgrade(wait=0)  # nothing to do
    assert await one.history() == []
    assert (await other.acquire_write("a.txt", wait=0)).fence > lease.fence


async def test_an_upgrade_waits_for_the_other_readers(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    upgrading = asyncio.ensure_future(mine.upgrade())
    await waiters(shop, "a.txt", 1)
    assert mine.mode == "read"
    assert not mine.is_lost
    await theirs.release()
    await upgrading
    assert mine.mode == "write"
    await mine.release()


@pytest.mark.every_way_in
async def test_no_writer_gets_in_between(shop: Shop) -> None:
    """A writer that waited first, and readers that come later, all come after the upgrade."""
    one, other, third = [await shop.session(name) for name in ("one", "other", "third")]
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    order: list[str] = []

    async def come(name: str, acquire: Any) -> None:
        lease = await acquire("a.txt")
        order.append(name)
        await lease.release()

    writer = asyncio.ensure_future(come("writer", third.acquire_write))
    await waiters(shop, "a.txt", 1)
    upgrading = asyncio.ensure_future(mine.upgrade())
    await waiters(shop, "a.txt", 2)
    reader = asyncio.ensure_future(come("reader", (await shop.session("fourth")).acquire_read))
    await waiters(shop, "a.txt", 3)
    assert order == []
    await theirs.release()
    await upgrading
    assert order == []
    assert mine.mode == "write"
    await mine.release()
    await asyncio.gather(writer, reader)
    assert order == ["writer", "reader"]


@pytest.mark.every_way_in
async def test_the_second_of_two_upgrades_is_refused_with_the_reason(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    upgrading = asyncio.ensure_future(mine.upgrade())
    await waiters(shop, "a.txt", 1)
    with pytest.raises(leasehold.UpgradeRefused) as refused:
        await theirs.upgrade()
    refusal = refused.value
    assert refusal.reason == "lock_contended"
    assert refusal.holder["session"] == "one"
    assert "each would wait for the other" in str(refusal)
    assert "release the read lease" in str(refusal)
    assert theirs.mode == "read"
    theirs.check()
    await theirs.release()
    await upgrading
    assert mine.mode == "write"
    await mine.release()
    assert await other.history() == []


async def test_after_the_first_has_given_up_the_second_can(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    with pytest.raises(leasehold.FileTimeout):
        await mine.upgrade(wait=0.1)
    await mine.release()
    await theirs.upgrade(wait=0)
    assert theirs.mode == "write"


@pytest.mark.parametrize(("wait", "kind"), [(0, leasehold.FileBusy), (0.2, leasehold.FileTimeout)])
async def test_a_reader_that_is_not_upgraded_still_reads(
    shop: Shop, wait: float, kind: type[Exception]
) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    with pytest.raises(leasehold.FileBusy) as refused:
        await mine.upgrade(wait=wait)
    assert type(refused.value) is kind
    assert refused.value.holder["session"] == "other"
    assert mine.mode == "read"
    await mine.renew()
    await waiters(shop, "a.txt", 0)
    third = await (await shop.session("third")).acquire_read("a.txt", wait=0)
    for lease in (third, theirs):
        await lease.release()
    await mine.upgrade(wait=0)
    assert mine.mode == "write"


async def test_a_reader_whose_lease_has_ended_is_not_upgraded(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    mine = await one.acquire_read("a.txt")
    with shop.server.admin() as admin:
        admin.delete(*admin.scan_iter("file:*"))
    with pytest.raises(leasehold.LeaseLost):
        await mine.upgrade(wait=0)
    assert mine.is_lost
    assert (await other.acquire_write("a.txt", wait=0)).mode == "write"


async def test_a_file_with_links_is_upgraded_as_a_whole(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    one, other = await shop.session("one"), await shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("b.txt")
    with pytest.raises(leasehold.FileBusy):
        await mine.upgrade(wait=0)
    mine.check()
    await theirs.release()
    await mine.upgrade(wait=0)
    with pytest.raises(leasehold.FileBusy):
        await other.acquire_read("b.txt", wait=0)
    await mine.release()
    assert (await other.acquire_write("b.txt", wait=0)).mode == "write"


async def half_an_upgrade(shop: Shop) -> tuple[Any, Any, Any]:
    """A reader's session and lease, and those of another that came when there was no link yet: it has one lock only."""
    (shop.root / "a.txt").write_text("x")
    one, other = await shop.session("one"), await shop.session("other")
    theirs = await other.acquire_read("a.txt")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    return one, await one.acquire_read("a.txt"), theirs


@pytest.mark.parametrize("is_restored", [False, True], ids=["here", "restored"])
async def test_half_an_upgrade_still_reads_and_goes_on_with_the_next(shop: Shop, is_restored: bool) -> None:
    one, mine, theirs = await half_an_upgrade(shop)
    with pytest.raises(leasehold.FileBusy):
        await mine.upgrade(wait=0)
    assert mine.mode == "read"
    assert {each.mode for each in mine} == {"shared", "exclusive"}
    await mine.renew()
    assert (await one.read_file("a.txt")).data == b"x"
    await theirs.release()
    await mine.upgrade(wait=0)
    assert mine.mode == "write"
    if is_restored:  # the two locks have tokens of different turns by now
        one = await shop.session("one", secret=one.secret)
        (report,) = await one.restore()
        assert (report.outcome, report.mode, report.fence) == ("restored", "write", mine.fence)
    third = await shop.session("third")
    for name in ("a.txt", "b.txt"):
        with pytest.raises(leasehold.FileBusy):
            await third.acquire_read(name, wait=0)
    assert await one.release("a.txt")
    assert await one.history() == []
    await third.acquire_all(["a.txt", "b.txt"], wait=0)


async def test_half_an_upgrade_that_is_cancelled_goes_on_with_the_next(async_shop: Shop) -> None:
    _, mine, theirs = await half_an_upgrade(async_shop)
    upgrading = asyncio.ensure_future(mine.upgrade())
    await waiters(async_shop, "a.txt", 1)
    # While it sleeps between two questions: in the middle of one it is given up.
    await eventually_async(lambda: all(not each.exchanges for each in mine))
    upgrading.cancel()
    await asyncio.wait({upgrading})
    mine.check()
    assert {each.mode for each in mine} == {"shared", "exclusive"}
    await theirs.release()
    await mine.upgrade(wait=0)
    assert mine.mode == "write"


async def test_all_locks_of_a_file_are_upgraded_in_the_time_of_one(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of the links is free after a while, and that of the path is not at all."""
    (own_shop.root / "a.txt").write_text("x")
    one, other, third = [await own_shop.session(name) for name in ("one", "other", "third")]
    await other.acquire_read("a.txt")
    os.link(own_shop.root / "a.txt", own_shop.root / "b.txt")
    mine, theirs = await one.acquire_read("a.txt"), await third.acquire_read("b.txt")
    path, inode = mine.entry.names
    asked: list[tuple[str, float]] = []
    upgrade = FileLockStore.upgrade

    def listen(store: FileLockStore, name: str, *rest: Any) -> Any:
        asked.append((name, rest[-2]))
        return upgrade(store, name, *rest)

    monkeypatch.setattr(FileLockStore, "upgrade", listen)
    upgrading = asyncio.ensure_future(mine.upgrade(wait=6))
    await eventually_async(lambda: len(asked) > 1)
    await theirs.release()
    with pytest.raises(leasehold.FileTimeout):
        await upgrading
    assert (mine[inode].mode, mine[path].mode) == ("exclusive", "shared")
    # The time that was spent on the first is not there for the second.
    left = [wait for _, wait in asked]
    assert left == sorted(left, reverse=True)
    assert {name for name, _ in asked} == {inode, path}


async def test_losing_the_upgraded_lease_stops_the_body(own_shop: Shop) -> None:
    session = await own_shop.session("one", settings=FileSettings(ttl=6))
    was_upgraded = False

    async def work() -> None:
        nonlocal was_upgraded
        async with session.read("a.txt") as lease:
            await lease.upgrade()
            was_upgraded = lease.mode == "write" and not lease.is_lost
            with own_shop.server.admin() as admin:
                admin.delete(f"file:{{{lease.entry.names[0]}}}")
            await asyncio.sleep(60)

    with pytest.raises(leasehold.LeaseLost):
        await work()
    assert was_upgraded


async def test_an_upgraded_lease_inside_a_body_is_renewed(own_shop: Shop) -> None:
    session = await own_shop.session("one", settings=FileSettings(ttl=9))
    async with session.read("a.txt") as lease:
        await lease.upgrade()
        valid_until = min(each.valid_until for each in lease)

        def is_renewed() -> bool:
            return min(each.valid_until for each in lease) > valid_until + 0.5

        await eventually_async(is_renewed)
        lease.check()


async def test_the_read_lease_is_renewed_while_the_upgrade_waits(own_shop: Shop) -> None:
    one, other = await own_shop.session("one"), await own_shop.session("other")
    theirs = await other.acquire_read("a.txt")
    async with one.read("a.txt", ttl=9) as mine:
        upgrading = asyncio.ensure_future(mine.upgrade())
        valid_until = min(each.valid_until for each in mine)

        def is_renewed() -> bool:
            return min(each.valid_until for each in mine) > valid_until + 1.5

        await eventually_async(is_renewed)
        await theirs.release()
        await upgrading
        assert mine.mode == "write"


async def test_a_reader_that_is_cancelled_while_waiting_still_reads_and_leaves_the_queue(
    async_shop: Shop,
) -> None:
    one, other = await async_shop.session("one"), await async_shop.session("other")
    mine, theirs = await one.acquire_read("a.txt"), await other.acquire_read("a.txt")
    for number in range(10):
        upgrading = asyncio.ensure_future(mine.upgrade())
        await waiters(async_shop, "a.txt", 1)
        await asyncio.sleep(0.007 * number)
        upgrading.cancel()
        await asyncio.wait({upgrading})
        await waiters(async_shop, "a.txt", 0)
        if mine.is_lost:  # cancelled while the store was asked: given up, because it might have been done
            await mine.release()
            mine = await one.acquire_read("a.txt", wait=0)
    await theirs.release()
    await mine.upgrade(wait=0)
    assert mine.mode == "write"


async def test_an_upgrade_whose_reply_is_lost_is_repeated(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    between = proxy(own_shop.server)
    session = await own_shop.session("one", url=between.url)
    await (await session.acquire_read("b.txt")).upgrade()  # from here on the server knows the script
    lease = await session.acquire_read("a.txt")
    cut = between.cut_after_request(b":upgrade")
    await lease.upgrade(wait=0)
    assert cut.wait(LIMIT)
    assert lease.mode == "write"
    await lease.release()
    assert not (await (await own_shop.files()).inspect("a.txt")).is_held


async def test_an_upgrade_that_is_delivered_late_leaves_the_reader_its_lease(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    """It was lost with its connection, repeated, and refused, because another session was reading then."""
    between = proxy(own_shop.server)
    session, other = await own_shop.session("one", url=between.url), await own_shop.session("other")
    await (await session.acquire_read("b.txt")).upgrade()  # from here on the server knows the script
    mine, theirs = await session.acquire_read("a.txt"), await other.acquire_read("a.txt")
    cut = between.cut_before_request(b":upgrade")
    with pytest.raises(leasehold.FileBusy):
        await mine.upgrade(wait=0)
    assert cut.wait(LIMIT)
    await theirs.release()
    reply = between.deliver_dropped()
    assert (await (await own_shop.files()).inspect("a.txt")).mode == "read"
    mine.check()
    assert reply.startswith(b"-TOOLATE ")


async def test_a_restore_that_is_delivered_late_does_not_shorten_a_lease_that_was_renewed_for_longer(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    between = proxy(own_shop.server)
    lost = await own_shop.session("one", secret="s" * 32)
    await (await lost.acquire_write("b.txt", ttl=30)).release()
    await lost.acquire_write("a.txt", ttl=30)
    session = await own_shop.session("one", secret="s" * 32, url=between.url)
    cut = between.cut_before_request(b":readers")
    (restored,) = await session.restore(timeout=LIMIT)
    assert cut.wait(LIMIT)
    await restored.lease.renew(ttl=600)
    between.deliver_dropped()
    (hold,) = (await (await own_shop.files()).inspect("a.txt")).holds
    assert hold.remaining > 60


async def test_an_upgrade_in_doubt_leaves_neither_lease(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    """If it was done, the reader's lease is gone and the writer's is released: neither may count as held."""
    between = proxy(own_shop.server)
    session, other = await own_shop.session("one", url=between.url), await own_shop.session("other")
    await (await other.acquire_read("b.txt")).upgrade()  # from here on the server knows the script
    lease = await session.acquire_read("a.txt")
    cut = between.cut_after_request(b":upgrade")
    between.refuse()
    with pytest.raises(leasehold.StoreUnavailable):
        await lease.upgrade(wait=0)
    assert cut.wait(LIMIT)
    assert lease.is_lost
    assert (await (await own_shop.files()).inspect("a.txt")).mode == "write"  # it was done
    between.refuse(False)
    assert (await other.acquire_write("a.txt", wait=LIMIT)).mode == "write"


async def test_an_upgrade_that_was_never_sent_leaves_the_reader_as_it_was(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    between = proxy(own_shop.server)
    session = await own_shop.session("one", url=between.url)
    lease = await session.acquire_read("a.txt")
    between.refuse()
    between.cut()
    with pytest.raises(leasehold.StoreUnavailable):
        await lease.upgrade(wait=0)
    lease.check()
    between.refuse(False)
    await lease.upgrade()
    assert lease.mode == "write"
