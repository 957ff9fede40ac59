"""Leases that end while a file is written or read, and the errors for that."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from tests.files.late_renames import hold_renames, stop_at_rename
from tests.support.eventually import LIMIT, eventually_async

import leasehold

if TYPE_CHECKING:
    from tests.files.conftest import Shop


async def test_a_paused_writer_changes_nothing_under_a_reader_that_has_read(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_shop.root / "a.txt").write_bytes(b"old")
    one, other = await own_shop.session("one"), await own_shop.session("other")
    is_paused, goes_on = hold_renames(monkeypatch)
    await one.acquire_write("a.txt", ttl=6)
    late = asyncio.ensure_future(one.write_file("a.txt", b"late"))
    await eventually_async(is_paused.is_set)
    async with other.read("a.txt", wait=LIMIT):
        assert (await other.read_file("a.txt")).data == b"old"
        goes_on.set()
        with pytest.raises(leasehold.FileChanged, match="belongs to a later writer"):
            await late
        assert (await other.read_file("a.txt")).data == b"old"


async def test_reading_does_not_stop_the_writer_that_is_oneself(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_shop.root / "a.txt").write_bytes(b"old")
    session = await own_shop.session("one")
    is_paused, goes_on = hold_renames(monkeypatch)
    async with session.write("a.txt"):
        writes = asyncio.ensure_future(session.write_file("a.txt", b"new"))
        await eventually_async(is_paused.is_set)
        assert (await session.read_file("a.txt")).data == b"old"
        goes_on.set()
        await writes
    assert (own_shop.root / "a.txt").read_bytes() == b"new"


async def test_a_lease_that_ends_after_the_replacement_says_that_the_file_was_replaced(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_shop.root / "a.txt").write_bytes(b"old")
    session = await own_shop.session("one")
    lease = await session.acquire_write("a.txt")
    await session.read_file("a.txt")

    def lose() -> None:
        for each in lease:
            each.end("expired")

    with monkeypatch.context() as patch:
        stop_at_rename(patch, lose)
        with pytest.raises(leasehold.LeaseLost) as lost:
            await session.write_file("a.txt", b"new")
    assert lost.value.is_replaced
    assert (own_shop.root / "a.txt").read_bytes() == b"new"
    with pytest.raises(leasehold.LeaseLost) as lost:
        await session.write_file("a.txt", b"never")
    assert not lost.value.is_replaced
    with pytest.raises(leasehold.LeaseLost):
        await lease.release()
    # What was written is what was last seen of it.
    async with session.write("a.txt", wait=LIMIT):
        await session.write_file("a.txt", b"newer")


async def test_a_loss_names_the_file_and_a_restore_as_what_it_may_have_been(valkey_shop: Shop) -> None:
    session = await valkey_shop.session("one")
    path = str(valkey_shop.root / "a.txt")
    told: list[leasehold.LeaseLost] = []

    async def body() -> None:
        async with session.write("a.txt", on_loss="signal") as lease:
            again = await valkey_shop.session("one", secret=session.secret)
            await again.restore()
            for use in (lease.renew, lambda: session.write_file("a.txt", b"x"), lambda: check(lease)):
                with pytest.raises(leasehold.LeaseLost) as lost:
                    await use()
                told.append(lost.value)

    async def check(lease: Any) -> None:
        lease.check()

    with pytest.raises(leasehold.LeaseLost) as lost:
        await body()
    told.append(lost.value)
    for each in told:
        assert each.name == path
        if each.reason == "taken":
            assert "another process of its session has restored it" in str(each)
    assert len(told) == 4


async def test_two_files_that_share_a_lock_are_not_taken_for_each_other(valkey_shop: Shop) -> None:
    name = "caf\N{LATIN SMALL LETTER E WITH ACUTE}.txt"
    twins = [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    for twin in twins:
        (valkey_shop.root / twin).write_text(twin)
    if len(list(valkey_shop.root.iterdir())) == 1:
        pytest.skip("this file system does not keep them apart")
    session = await valkey_shop.session("one")
    async with session.write(twins[0]):
        await session.read_file(twins[0])
        await session.write_file(twins[1], b"never looked at")
        await session.write_file(twins[0], b"as it was seen")
        (valkey_shop.root / twins[0]).write_bytes(b"by another writer")
        with pytest.raises(leasehold.FileChanged):
            await session.write_file(twins[0], b"lost")
