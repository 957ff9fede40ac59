"""Several names of one file, requested together: one lease, restored and released as one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold

if TYPE_CHECKING:
    from tests.files.conftest import Shop


def make_links(shop: Shop, *names: str) -> None:
    (shop.root / names[0]).write_text("x")
    for name in names[1:]:
        os.link(shop.root / names[0], shop.root / name)


async def test_links_that_were_taken_under_a_third_name_are_lost_as_a_whole(shop: Shop) -> None:
    make_links(shop, "a.txt", "b.txt", "c.txt")
    one, other = await shop.session("one"), await shop.session("other")
    held = await one.acquire_all(["a.txt", "b.txt"], ttl=1)
    await eventually_async(lambda: held.is_lost)
    theirs = await other.acquire_write("c.txt", wait=LIMIT)
    again = await shop.session("one", secret=one.secret)
    reports = await again.restore(timeout=0.3)
    assert {report.outcome for report in reports} == {"lost"}
    assert again.held == []
    await theirs.renew()
    # Nor is one of the two names left behind, held.
    third = await shop.session("third")
    await theirs.release()
    for name in ("a.txt", "b.txt"):
        await (await third.acquire_write(name, wait=LIMIT)).release()


@pytest.mark.every_way_in
async def test_links_that_are_restored_keep_all_their_names_and_fences(shop: Shop) -> None:
    make_links(shop, "a.txt", "b.txt", "c.txt")
    one, other = await shop.session("one"), await shop.session("other")
    held = await one.acquire_all(["a.txt", "b.txt"])
    again = await shop.session("one", secret=one.secret)
    (report,) = await again.restore()
    assert report.outcome == "restored"
    names = report.lease.entry.names
    assert [report.lease.fence_of(name) for name in names[:2]] == list(held.fences.values())
    for name in ("a.txt", "b.txt", "c.txt"):
        with pytest.raises(leasehold.FileBusy):
            await other.acquire_write(name, wait=0)
    assert (await again.read_file("b.txt")).fence == held.fences[str(shop.root / "b.txt")]
    listed = {info.path for info in await (await shop.files()).everything()}
    assert listed == {str(shop.root / "a.txt"), str(shop.root / "b.txt")}


async def test_releasing_one_name_releases_all_locks_of_the_file(shop: Shop) -> None:
    make_links(shop, "a.txt", "b.txt", "c.txt")
    one, other = await shop.session("one"), await shop.session("other")
    held = await one.acquire_all(["a.txt", "b.txt"])
    assert await one.release("b.txt")
    with pytest.raises(leasehold.LeaseLost):
        held["a.txt"].check()
    assert await one.history() == []
    async with other.write_all(["c.txt", "a.txt", "b.txt"], wait=0):
        pass


async def test_another_process_releases_links_as_a_whole(shop: Shop) -> None:
    make_links(shop, "a.txt", "b.txt", "c.txt")
    one, other = await shop.session("one"), await shop.session("other")
    await one.acquire_all(["a.txt", "b.txt"])
    again = await shop.session("one", secret=one.secret)
    assert await again.release("b.txt")
    assert await again.history() == []
    async with other.write_all(["c.txt", "a.txt", "b.txt"], wait=0):
        pass
