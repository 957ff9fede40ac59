"""The public API as a type checker sees it. pyright checks this file; it is never run."""

from __future__ import annotations

from typing import assert_type

import leasehold
from leasehold import blocking
from leasehold.files import FileLease, FileLocks, Session
from leasehold.operations import Operations, Purpose


async def check_async_client() -> None:
    """Leases, values and iterators of the async client."""
    async with leasehold.connect("redis://localhost:6379/0", timeout=2) as locks:
        assert_type(locks, leasehold.Client)
        async with locks.lock("deal:42", ttl=30, wait=5) as lease:
            assert_type(lease, leasehold.Lease)
            assert_type(lease.fence, int)
            assert_type(lease.token, str)
            assert_type(lease.remaining(), float)
            assert_type(lease.is_lost, bool)
        async with locks.lock_all(["a", "b"]) as leases:
            assert_type(leases, leasehold.Leases)
        assert_type(await locks.acquire("deal:42"), leasehold.Lease)
        assert_type(await locks.try_acquire("deal:42"), leasehold.Lease | None)
        assert_type(await locks.take("deal:42", holder="ops"), leasehold.Lease)
        assert_type(await locks.inspect("deal:42"), leasehold.LockInfo)
        async for info in locks.list("deal:*"):
            assert_type(info, leasehold.LockInfo)
        assert_type(await locks.first_time("deposit", "0xabc"), bool)
        assert_type(await locks.once("payout:42", pay), int)


async def pay() -> int:
    """The work of `once`; its type is the type of the result."""
    return 42


def check_blocking_client() -> None:
    """The same for threads."""
    with blocking.connect() as locks:
        assert_type(locks, blocking.Client)
        with locks.lock("deal:42") as lease:
            assert_type(lease, blocking.Lease)
        assert_type(locks.try_acquire("deal:42"), blocking.Lease | None)
        assert_type(locks.once("payout:42", lambda: 42), int)


async def check_files(locks: leasehold.Client) -> None:
    """Sessions and leases of files."""
    files = FileLocks(locks, root="/repo")
    session = await files.session("agent-1")
    assert_type(session, Session)
    async with session.write("notes.md") as lease:
        assert_type(lease, FileLease)


async def check_operations(locks: leasehold.Client) -> None:
    """Purposes and guarded functions keep the types of what they wrap."""
    ops = Operations(locks)
    assert_type(ops.purposes.find("deal"), Purpose)

    @ops.guarded("payout")
    async def payout(deal_id: int) -> int:
        return deal_id

    assert_type(await payout(42), int)


def check_errors(error: leasehold.LeaseholdError) -> None:
    """The fields of errors."""
    assert_type(error.code, str)
    if isinstance(error, leasehold.LockBusy):
        assert_type(error.retry_after, float | None)
    if isinstance(error, leasehold.StaleFence):
        assert_type(error.seen, int)
