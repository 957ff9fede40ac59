"""Restore after a crash: files and reports."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.files import FileSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.files.conftest import Shop
    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy


def by_name(reports: list[Any]) -> dict[str, Any]:
    return {os.path.basename(report.path): report for report in reports}  # noqa: PTH119 - just its name


async def agent(parent: Any, url: str, root: str, secret: str) -> None:
    """A process that takes some locks, reports them, and is killed."""
    import asyncio

    import leasehold
    from leasehold.files import FileLocks

    async with leasehold.connect(url) as locks:
        session = await FileLocks(locks, root=root).session("agent", secret=secret)
        alive = await session.acquire_write("alive.txt", ttl=300)
        reading = await session.acquire_read("reading.txt", ttl=300)
        short = await session.acquire_write("short.txt", ttl=3)
        taken = await session.acquire_write("taken.txt", ttl=3)
        waiting = asyncio.ensure_future(session.acquire_write("busy.txt", wait=600))
        fences = {lease.path: lease.fence for lease in (alive, reading, short, taken)}
        await asyncio.sleep(0)
        parent.send(fences=fences)
        await waiting


@pytest.mark.parametrize("side", ["async", "blocking"])
async def test_the_report_of_each_file_of_a_killed_process_is_true(
    own_shop: Shop, spawn: Callable[..., Child], side: str
) -> None:
    from leasehold.files.sessions.credentials import Secret

    shop, secret = own_shop, Secret.new().reveal()
    rival = await shop.session("rival", purpose="taking over")
    busy = await rival.acquire_write("busy.txt")
    child = spawn(agent, shop.server.url, str(shop.root), secret)
    fences = {os.path.basename(path): fence for path, fence in (await child.aread())["fences"].items()}  # noqa: PTH119 - a text, not a path
    files = await shop.files()
    await eventually_async(lambda: _has_waiter(files, "busy.txt"))
    child.kill()
    theirs = await rival.acquire_write("taken.txt", wait=LIMIT)

    async def has_ended() -> bool:
        return not (await files.inspect("short.txt")).is_held

    await eventually_async(has_ended)
    shop.side = side
    session = await shop.session("agent", secret=secret)
    reports = by_name(await session.restore(timeout=4))
    assert {name: report.outcome for name, report in reports.items()} == {
        "alive.txt": "restored",
        "reading.txt": "restored",
        "short.txt": "reacquired",
        "taken.txt": "lost",
    }
    for name in ("alive.txt", "reading.txt"):
        assert reports[name].fence == reports[name].lease.fence == fences[name]
        reports[name].lease.check()
    assert reports["reading.txt"].mode == "read"
    assert reports["short.txt"].fence > fences["short.txt"]
    assert reports["taken.txt"].lost_to["session"] == "rival"
    assert reports["taken.txt"].lost_to["purpose"] == "taking over"
    assert isinstance(reports["taken.txt"].error, leasehold.FileTimeout)
    assert {os.path.basename(entry.path) for entry in await session.history()} == {  # noqa: PTH119 - a text, not a path
        "alive.txt",
        "reading.txt",
        "short.txt",
    }
    # A request that was only waiting has ended without a lock.
    await busy.release()
    assert not (await files.inspect("busy.txt")).is_held
    theirs.check()
    await session.release_session_locks()
    assert [info.path for info in await files.everything()] == [str(shop.root / "taken.txt")]


async def _has_waiter(files: Any, path: str) -> bool:
    return bool((await files.inspect(path)).waiters)


@pytest.mark.every_way_in
async def test_a_restored_file_can_be_used_renewed_upgraded_and_released(shop: Shop) -> None:
    first = await shop.session("one")
    await first.acquire_read("a.txt")
    await first.acquire_write("b.txt")
    again = await shop.session("one", secret=first.secret)
    reports = by_name(await again.restore())
    reading, writing = reports["a.txt"].lease, reports["b.txt"].lease
    await again.write_file("b.txt", b"new")
    assert (await again.read_file("b.txt")).data == b"new"
    lease = next(lease for lease in again.held if lease.path == reading.path)
    assert lease.fence == reading.fence
    for each in (reading, writing):
        assert not each.is_lost
    assert await again.release("a.txt")
    assert await again.release("b.txt")
    assert await again.history() == []
    assert await (await shop.files()).everything() == []


@pytest.mark.every_way_in
async def test_an_earlier_process_that_is_still_alive_loses_a_restored_file(shop: Shop) -> None:
    first = await shop.session("one")
    mine, shared = await first.acquire_write("a.txt"), await first.acquire_read("b.txt")
    again = await shop.session("one", secret=first.secret)
    assert {report.outcome for report in await again.restore()} == {"restored"}
    for lease in (mine, shared):
        with pytest.raises(leasehold.LeaseLost):
            await lease.renew()
        assert lease.is_lost
    with pytest.raises(leasehold.InvalidRequest):
        await again.write_file("b.txt", b"x")
    with pytest.raises(leasehold.LeaseLost):
        await first.write_file("a.txt", b"late")
    assert not (shop.root / "a.txt").exists()
    # Nor can it release what it no longer holds.
    for lease in (mine, shared):
        with pytest.raises(leasehold.LeaseLost):
            await lease.release()
    assert len(await (await shop.files()).everything()) == 2


async def test_an_earlier_process_that_subscribes_is_notified_at_once(own_shop: Shop) -> None:
    first = await own_shop.session("one")
    mine, shared = await first.acquire_write("a.txt"), await first.acquire_read("b.txt")
    again = await own_shop.session("one", secret=first.secret)
    await again.restore()
    assert await mine.lost(LIMIT) == "taken"
    assert await shared.lost(LIMIT) == "taken"


async def test_a_restored_file_is_renewed_and_notified_of_a_take(own_shop: Shop) -> None:
    first = await own_shop.session("one")
    await first.acquire_write("a.txt", ttl=9)
    again = await own_shop.session("one", secret=first.secret)
    (report,) = await again.restore()
    valid_until = min(each.valid_until for each in report.lease)

    def is_renewed() -> bool:
        return min(each.valid_until for each in report.lease) > valid_until + 1

    await eventually_async(is_renewed)
    third = await own_shop.session("one", secret=first.secret)
    (moved,) = await third.restore()
    assert (moved.outcome, moved.fence) == ("restored", report.fence)
    assert await report.lease.lost(LIMIT) == "taken"


@pytest.mark.every_way_in
async def test_a_waiter_gets_the_file_after_the_restored_lease_and_not_before(shop: Shop) -> None:
    first, other = await shop.session("one"), await shop.session("other")
    await first.acquire_write("a.txt")
    waiting = asyncio.ensure_future(other.acquire_write("a.txt"))
    files = await shop.files()
    await eventually_async(lambda: _has_waiter(files, "a.txt"))
    again = await shop.session("one", secret=first.secret)
    (report,) = await again.restore()
    assert report.outcome == "restored"
    assert not waiting.done()
    await again.release("a.txt")
    assert (await waiting).fence > report.fence


async def test_files_that_this_process_holds_are_not_restored(valkey_shop: Shop) -> None:
    session = await valkey_shop.session("one")
    lease = await session.acquire_write("a.txt")
    assert await session.restore() == []
    lease.check()
    await lease.renew()


async def test_a_file_that_is_held_does_not_delay_the_restore_of_others(shop: Shop) -> None:
    """Three wait side by side, and the fourth is restored before any of them."""
    first, rival = await shop.session("one"), await shop.session("rival")
    names = ["a.txt", "b.txt", "c.txt"]
    leases = [await first.acquire_write(name) for name in names]
    await first.acquire_write("free.txt")
    with shop.server.admin() as admin:
        admin.delete(*[f"file:{{{lease.entry.names[0]}}}" for lease in leases])
    theirs = [await rival.acquire_write(name, wait=0) for name in names]
    again, files = await shop.session("one", secret=first.secret), await shop.files()
    restoring = asyncio.ensure_future(again.restore(timeout=LIMIT))

    async def all_wait() -> bool:
        return all([await _has_waiter(files, name) for name in names])

    await eventually_async(all_wait)
    await eventually_async(lambda: [lease.path for lease in again.held] == [str(shop.root / "free.txt")])
    for lease in theirs:
        await lease.release()
    reports = by_name(await restoring)
    assert {reports[name].outcome for name in names} == {"reacquired"}
    assert reports["free.txt"].outcome == "restored"


async def test_a_file_with_links_is_restored_with_both_of_its_locks(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    first, other = await shop.session("one"), await shop.session("other")
    await first.acquire_write("a.txt")
    again = await shop.session("one", secret=first.secret)
    (report,) = await again.restore()
    assert report.outcome == "restored"
    with pytest.raises(leasehold.FileBusy):
        await other.acquire_write("b.txt", wait=0)
    assert await again.release("a.txt")
    assert (await other.acquire_write("b.txt", wait=0)).mode == "write"


async def test_a_file_with_links_that_is_held_in_part_is_acquired_again(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    first = await shop.session("one")
    lease = await first.acquire_write("a.txt")
    with shop.server.admin() as admin:
        admin.delete(f"file:{{{lease.entry.names[1]}}}")
    again = await shop.session("one", secret=first.secret)
    (report,) = await again.restore()
    assert report.outcome == "reacquired"
    assert report.fence > lease.fence
    await report.lease.renew() if shop.side == "async" else await asyncio.to_thread(report.lease.renew)
    await again.release_session_locks()
    assert await (await shop.files()).everything() == []


async def test_two_processes_that_restore_at_once_never_both_have_a_file(shop: Shop) -> None:
    first = await shop.session("one")
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        await first.acquire_write(name)
    sessions = [await shop.session("one", secret=first.secret) for _ in range(3)]
    reports = await asyncio.gather(*[session.restore(timeout=0.3) for session in sessions])
    holding = [
        os.path.basename(lease.path)  # noqa: PTH119 - a text, not a path
        for session in sessions
        for lease in session.held
        if not await _is_lost(shop, lease)
    ]
    assert len(holding) == len(set(holding))
    told = {report.outcome for each in reports for report in each}
    assert told <= {"restored", "lost"}


async def _is_lost(shop: Shop, lease: Any) -> bool:
    try:
        if shop.side == "async":
            await lease.renew()
        else:
            await asyncio.to_thread(lease.renew)
    except leasehold.LeaseLost:
        return True
    return False


async def test_a_restore_that_finds_no_store_says_so_and_can_be_tried_again(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    between = proxy(own_shop.server)
    first = await own_shop.session("one")
    lease = await first.acquire_write("a.txt")
    again = await own_shop.session("one", url=between.url, secret=first.secret)
    cut = between.cut_after_request(lease.entry.names[0].encode())
    between.refuse()
    (report,) = await again.restore()
    assert cut.wait(LIMIT)
    assert report.outcome == "failed"
    assert isinstance(report.error, leasehold.StoreUnavailable)
    between.refuse(False)
    (report,) = await again.restore()
    assert (report.outcome, report.fence) == ("restored", lease.fence)


async def test_a_timeout_that_cannot_be_is_refused(own_shop: Shop) -> None:
    session = await own_shop.session("one")
    for timeout in (0, -1, float("nan"), "5"):
        with pytest.raises(leasehold.InvalidRequest):
            await session.restore(timeout=timeout)


async def test_a_restored_lease_that_is_not_to_be_renewed_ends(shop: Shop) -> None:
    first, other = await shop.session("one"), await shop.session("other")
    await first.acquire_write("a.txt", ttl=1)
    again = await shop.session("one", secret=first.secret, settings=FileSettings(wait=0))
    (report,) = await again.restore(renew=False)
    assert (await other.acquire_write("a.txt", wait=LIMIT)).fence > report.fence
    assert report.lease.is_lost
