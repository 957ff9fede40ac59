"""Reads and writes of files through a session: only under a lease, and never over unseen contents."""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.files.late_renames import hold_renames
from tests.support.eventually import eventually_async

import leasehold

if TYPE_CHECKING:
    from tests.files.conftest import Shop


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.every_way_in
async def test_written_contents_are_read_with_their_hash_and_the_fence(shop: Shop) -> None:
    session = await shop.session("one")
    async with session.write("sub/a.txt") as lease:
        assert await session.write_file("sub/a.txt", b"one") == sha256(b"one")
        assert await session.write_file("./sub/a.txt", b"two") == sha256(b"two")
        content = await session.read_file("sub/a.txt")
        assert (content.data, content.sha256, content.fence) == (b"two", sha256(b"two"), lease.fence)
    assert (shop.root / "sub/a.txt").read_bytes() == b"two"


async def test_a_file_that_is_not_held_is_neither_read_nor_written(valkey_shop: Shop) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"old")
    session = await valkey_shop.session("one")
    path = str(valkey_shop.root / "a.txt")
    with pytest.raises(leasehold.InvalidRequest) as refused:
        await session.read_file("a.txt")
    assert str(refused.value) == f"session 'one' does not hold {path!r} for reading"
    async with session.read("a.txt"):
        assert (await session.read_file("a.txt")).data == b"old"
        with pytest.raises(leasehold.InvalidRequest) as refused:
            await session.write_file("a.txt", b"new")
        assert str(refused.value) == f"session 'one' does not hold {path!r} for writing"
    with pytest.raises(leasehold.InvalidRequest):
        await session.read_file("a.txt")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"old"


async def test_a_reader_may_write_after_an_upgrade(valkey_shop: Shop) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"old")
    session = await valkey_shop.session("one")
    async with session.read("a.txt") as lease:
        seen = await session.read_file("a.txt")
        await lease.upgrade()
        await session.write_file("a.txt", seen.data + b" and new")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"old and new"


async def test_a_file_that_changed_behind_the_lock_is_not_written(valkey_shop: Shop) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"old")
    session = await valkey_shop.session("one")
    async with session.write("a.txt"):
        await session.read_file("a.txt")
        (valkey_shop.root / "a.txt").write_bytes(b"by a writer without a lock")
        with pytest.raises(leasehold.FileChanged) as refused:
            await session.write_file("a.txt", b"new")
        assert refused.value.seen == sha256(b"old")
        assert refused.value.found == sha256(b"by a writer without a lock")
        assert (valkey_shop.root / "a.txt").read_bytes() == b"by a writer without a lock"
        await session.read_file("a.txt")
        await session.write_file("a.txt", b"new")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"new"


async def test_contents_that_another_session_wrote_between_two_leases_are_not_overwritten_unread(
    valkey_shop: Shop,
) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"0")
    one, other = await valkey_shop.session("one"), await valkey_shop.session("other")
    async with one.read("a.txt"):
        await one.read_file("a.txt")
    async with other.write("a.txt"):
        await other.write_file("a.txt", b"1")
    async with one.write("a.txt"):
        with pytest.raises(leasehold.FileChanged):
            await one.write_file("a.txt", b"from 0")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"1"


async def test_a_file_that_was_seen_as_absent_is_not_written_over_one_that_came(valkey_shop: Shop) -> None:
    session = await valkey_shop.session("one")
    async with session.write("a.txt"):
        with pytest.raises(leasehold.NotFound):
            await session.read_file("a.txt")
        (valkey_shop.root / "a.txt").write_bytes(b"came")
        with pytest.raises(leasehold.FileChanged):
            await session.write_file("a.txt", b"new")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"came"


async def test_a_file_with_several_links_is_not_written(valkey_shop: Shop) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"old")
    os.link(valkey_shop.root / "a.txt", valkey_shop.root / "b.txt")
    session = await valkey_shop.session("one")
    async with session.write("a.txt"):
        with pytest.raises(leasehold.InvalidRequest):
            await session.write_file("a.txt", b"new")
    assert (valkey_shop.root / "a.txt").read_bytes() == b"old"


@pytest.mark.every_way_in
async def test_nothing_is_written_under_a_lease_that_another_process_has_taken_over(shop: Shop) -> None:
    """The holder does not know it: on its own clock the lease is fine."""
    (shop.root / "a.txt").write_bytes(b"old")
    session, other = await shop.session("one"), await shop.session("other")
    lease = await session.acquire_write("a.txt")
    with shop.server.admin() as admin:
        admin.delete(*admin.scan_iter("file:*"))
    await other.acquire_write("a.txt", wait=0)
    assert not lease.is_lost
    with pytest.raises(leasehold.LeaseLost):
        await session.write_file("a.txt", b"late")
    assert (shop.root / "a.txt").read_bytes() == b"old"


async def test_nothing_is_read_under_a_lease_that_has_ended(valkey_shop: Shop) -> None:
    (valkey_shop.root / "a.txt").write_bytes(b"old")
    session = await valkey_shop.session("one")
    lease = await session.acquire_read("a.txt")
    with suppress(leasehold.LeaseLost):  # which is what it comes to anyway
        await lease.renew(0.5)
    await eventually_async(lambda: lease.is_lost)
    with pytest.raises(leasehold.LeaseLost):
        await session.read_file("a.txt")


async def test_a_cancelled_write_has_ended_before_the_file_is_released(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await own_shop.session("one"), await own_shop.session("other")
    is_paused, goes_on = hold_renames(monkeypatch)

    async def write() -> None:
        async with one.write("a.txt"):
            await one.write_file("a.txt", b"new")

    writes = asyncio.ensure_future(write())
    await eventually_async(is_paused.is_set)
    writes.cancel()
    with pytest.raises(leasehold.FileTimeout):
        await other.acquire_write("a.txt", wait=0.3)
    assert not writes.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writes
    async with other.write("a.txt", wait=0):
        assert (await other.read_file("a.txt")).data == b"new"


@pytest.mark.parametrize("data", ["text", None, 7, ["x"]], ids=repr)
async def test_a_file_is_written_with_bytes(own_shop: Shop, data: object) -> None:
    session = await own_shop.session("one")
    async with session.write("a.txt"):
        with pytest.raises(leasehold.InvalidRequest, match="a file is written with bytes, not"):
            await session.write_file("a.txt", data)
        await session.write_file("a.txt", bytearray(b"fine"))
