"""Killed right here: before and after every word to the store, and cancelled at every await."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.documents.cancellation import CancelledAt
from tests.support.eventually import LIMIT, eventually_async
from tests.support.processes import Child

import leasehold
from leasehold.files.sessions.credentials import Secret

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.files.conftest import Shop

PHASES = ("before", "after")


def nursery(parent: Any) -> None:
    """Forks a process for each of the test's orders, since a fork need not import anything, and reports how it ended."""
    import asyncio
    import os

    from tests.files.test_file_crashes import mortal

    import leasehold.files  # noqa: F401 - before the fork

    while (orders := parent.receive()) is not None:
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(mortal(*orders))
            finally:
                os._exit(1)
        parent.send(status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


async def mortal(url: str, root: str, secret: str, verb: str, step: int, phase: str) -> None:
    """Is killed before or after its n-th request to the store during ``verb``."""
    import functools
    import os
    import signal

    import leasehold
    from leasehold.files import FileLocks
    from leasehold.files.lock_store import FileLockStore
    from leasehold.files.sessions.session_store import SessionStore

    words = 0
    is_armed = False

    def deadly(kind: Any, name: str) -> None:
        ask = getattr(kind, name)

        @functools.wraps(ask)
        async def wrapper(*args: Any, **options: Any) -> Any:
            nonlocal words
            words += is_armed
            is_last = is_armed and words == step
            if is_last and phase == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await ask(*args, **options)
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(kind, name, wrapper)

    deadly(SessionStore, "_ask")
    for name in ("acquire", "acquire_all", "release", "resume", "upgrade"):
        deadly(FileLockStore, name)
    async with leasehold.connect(url) as locks:
        session = await FileLocks(locks, root=root).session("agent", secret=secret)
        if verb == "upgrade":
            lease = await session.acquire_read("a.txt", ttl=300)
            is_armed = True
            await lease.upgrade()
        elif verb == "restore":
            is_armed = True
            await session.restore()
        elif verb == "release":
            lease = await session.acquire_write("a.txt", ttl=300)
            is_armed = True
            await lease.release()
        elif verb == "acquire_all":
            is_armed = True
            await session.acquire_all(["a.txt", "b.txt"], ttl=300)
        else:
            is_armed = True
            await session.acquire_write("a.txt", ttl=300)


@pytest.fixture(scope="module")
def die() -> Iterator[Callable[..., Awaitable[None]]]:
    """`await die(shop, secret, verb, step, phase)`: a process of the session dies in the middle of a verb."""
    with Child.spawn(nursery) as child:

        async def one(shop: Shop, secret: str, verb: str, step: int, phase: str) -> None:
            child.send([shop.server.url, str(shop.root), secret, verb, step, phase])
            assert await child.aread(LIMIT) == {"status": -signal.SIGKILL}, child.stderr()

        yield one


async def check_that_all_is_found(shop: Shop, session: Any) -> list[Any]:
    """Every held file is in the history, and can be restored and released."""
    held = {info.path: info.holds[0].fence for info in await (await shop.files()).everything()}
    history = {entry.path for entry in await session.history()}
    assert set(held) <= history
    reports = await session.restore()
    for report in reports:
        if report.path in held:
            assert report.fence == held[report.path]
            report.lease.check()
    assert {report.path for report in reports if report.path in held} == set(held)
    return reports


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_an_acquire_that_is_killed_leaves_no_lock_that_history_does_not_know(
    own_shop: Shop, die: Callable[..., Awaitable[None]], step: int, phase: str
) -> None:
    secret = Secret.new().reveal()
    await die(own_shop, secret, "acquire", step, phase)
    session = await own_shop.session("agent", secret=secret)
    reports = await check_that_all_is_found(own_shop, session)
    # The grant was never acknowledged, so the restore acquires nothing new.
    expected = ["restored"] if step == 3 or (step, phase) == (2, "after") else []
    assert [report.outcome for report in reports] == expected
    await session.release_session_locks()
    assert await (await own_shop.files()).everything() == []
    assert await session.history() == []


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_an_acquire_of_several_that_is_killed_leaves_no_lock_that_history_does_not_know(
    own_shop: Shop, die: Callable[..., Awaitable[None]], step: int, phase: str
) -> None:
    secret = Secret.new().reveal()
    await die(own_shop, secret, "acquire_all", step, phase)
    session = await own_shop.session("agent", secret=secret)
    reports = await check_that_all_is_found(own_shop, session)
    assert len(reports) in {0, 2}
    await session.release_session_locks()
    assert await (await own_shop.files()).everything() == []


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", [1, 2])
async def test_a_release_that_is_killed_leaves_no_lock_that_history_does_not_know(
    own_shop: Shop, die: Callable[..., Awaitable[None]], step: int, phase: str
) -> None:
    secret = Secret.new().reveal()
    await die(own_shop, secret, "release", step, phase)
    session = await own_shop.session("agent", secret=secret)
    reports = await check_that_all_is_found(own_shop, session)
    assert {report.outcome for report in reports} <= {"restored", "reacquired"}
    await session.release_session_locks()
    assert await (await own_shop.files()).everything() == []


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_an_upgrade_that_is_killed_leaves_one_lease_that_is_found(
    own_shop: Shop, die: Callable[..., Awaitable[None]], step: int, phase: str
) -> None:
    secret = Secret.new().reveal()
    await die(own_shop, secret, "upgrade", step, phase)
    session = await own_shop.session("agent", secret=secret)
    (report,) = await check_that_all_is_found(own_shop, session)
    was_done = step == 3 or (step, phase) == (2, "after")
    assert report.mode == ("write" if was_done else "read")
    await report.lease.upgrade()
    assert report.lease.mode == "write"
    await session.release_session_locks()
    assert await (await own_shop.files()).everything() == []


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("step", [1, 2, 3, 4])
async def test_a_restore_that_is_killed_can_be_done_again_with_the_same_fence(
    own_shop: Shop, die: Callable[..., Awaitable[None]], step: int, phase: str
) -> None:
    first = await own_shop.session("agent")
    lease = await first.acquire_write("a.txt", ttl=300)
    for _ in range(2):  # twice: what the first left behind must not confuse the second
        await die(own_shop, first.secret, "restore", step, phase)
    session = await own_shop.session("agent", secret=first.secret)
    (report,) = await check_that_all_is_found(own_shop, session)
    assert (report.outcome, report.fence) == ("restored", lease.fence)
    await session.release("a.txt")
    assert await (await own_shop.files()).everything() == []


async def test_an_acquire_that_is_cancelled_anywhere_leaves_nothing(async_shop: Shop) -> None:
    session, files = await async_shop.session("agent"), await async_shop.files()
    at = 0
    while True:
        for acquire in (
            lambda: session.thing.acquire_write("a.txt"),
            lambda: session.thing.acquire_all(["a.txt", "b.txt"]),
        ):
            work = CancelledAt(acquire(), at)
            try:
                held = await work
            except asyncio.CancelledError:
                await eventually_async(lambda: _is_empty(files, session))
            else:
                await held.release()
        if not work.was_cancelled:
            break
        at += 1
    assert at >= 3
    await eventually_async(lambda: _is_empty(files, session))


async def test_an_upgrade_that_is_cancelled_anywhere_is_read_or_nothing(async_shop: Shop) -> None:
    session, files = await async_shop.session("agent"), await async_shop.files()
    other = await async_shop.session("other")
    at = 0
    was_cancelled = True
    while was_cancelled:
        lease = await session.acquire_read("a.txt")
        work = CancelledAt(lease.thing.upgrade(wait=0), at)
        try:
            await work
        except asyncio.CancelledError:
            if lease.is_lost:
                assert (await other.acquire_write("a.txt", wait=LIMIT)).mode == "write"
                await other.release("a.txt")
            else:
                assert (await files.inspect("a.txt")).mode == lease.mode
        was_cancelled = work.was_cancelled
        try:
            await lease.release()
        except leasehold.LeaseLost:
            assert was_cancelled
        await eventually_async(lambda: _is_empty(files, session))
        at += 1
    assert at >= 3


async def test_a_restore_that_is_cancelled_anywhere_can_be_done_again(async_shop: Shop) -> None:
    first = await async_shop.session("agent")
    lease = await first.acquire_write("a.txt")
    at = 0
    was_cancelled = True
    while was_cancelled:
        session = await async_shop.session("agent", secret=first.secret)
        work = CancelledAt(_restore_one(session), at)
        with suppress(asyncio.CancelledError):
            await work
        was_cancelled = work.was_cancelled
        again = await async_shop.session("agent", secret=first.secret)
        (report,) = await again.restore()
        assert (report.outcome, report.fence) == ("restored", lease.fence)
        at += 1
    assert at >= 3


async def _restore_one(session: Any) -> None:
    """The restore of one file, without a task around it, so that it can be cancelled at every await."""
    from leasehold.files.sessions.restore import Restorer

    restorer = Restorer(session.thing._core, timeout=5, renew=True)
    (entry,) = await session.thing._core.store.entries()
    await restorer._restore(entry)


async def _is_empty(files: Any, session: Any) -> bool:
    return not await files.everything() and not await session.history()
