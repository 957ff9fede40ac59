"""Standing in line for a lock, as the suites do it; on a machine that may stand still for seconds at any point."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.waiting import LIMIT, eventually_async

from leasehold import AcquireTimeout, LeaseLost
from leasehold.core.replies import DONE, Renewal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.contract.clients import Held, Locks

T = TypeVar("T")

# Nobody in these suites waits in vain for so long, unless something is broken.
LONG = LIMIT

CLAIM_WINDOW = 2.0
"""Seconds within which a grant to a waiter must be claimed."""

PRESENCE = 3.0
"""Seconds for which a client that does not look in keeps its place in a queue."""


async def join(locks: Locks, name: str, **options: Any) -> asyncio.Task[Held]:
    """Begin to wait for a lock that is held. On return the waiter is in the queue."""
    before = (await locks.inspect(name)).waiters
    waiting = asyncio.create_task(locks.acquire(name, **{"ttl": 30, "wait": LONG} | options))

    async def has_joined() -> bool:
        return waiting.done() or (await locks.inspect(name)).waiters > before

    await eventually_async(has_joined)
    assert not waiting.done(), f"somebody came through at once: {waiting}"
    return waiting


async def join_behind_one_who_gives_up(
    locks: Locks, name: str, hold: Callable[[str], Awaitable[Held]], **options: Any
) -> tuple[Held, asyncio.Task[Held]]:
    """Stand in line behind somebody who waits for a while only, and has given up on return. `hold(lock)` gets the lock
    for which they wait; its answer and the one who waits on are returned."""
    for wait in (2, 8, 32):  # a machine that stands still for two seconds may try again
        lock = f"{name}, waited for {wait} s"
        held = await hold(lock)
        impatient = asyncio.create_task(locks.acquire(lock, wait=wait))
        await _line_was(locks, lock, 1, impatient)
        patient = asyncio.create_task(locks.acquire(lock, **{"ttl": 30, "wait": LONG} | options))
        stood_together = await _line_was(locks, lock, 2, impatient)
        await asyncio.wait({impatient}, timeout=LIMIT)
        assert isinstance(impatient.exception(), AcquireTimeout)
        if stood_together:
            return held, patient
        await held.release()
        await (await patient).release()
    raise AssertionError("they did not stand in line together")


async def _line_was(locks: Locks, name: str, length: int, unless: asyncio.Task[Any]) -> bool:
    """Wait until so many are in the queue; False if the task is done before that was seen."""
    seen: list[int] = []

    async def is_so_long() -> bool:
        seen.append((await locks.inspect(name)).waiters)
        return seen[-1] == length or unless.done()

    await eventually_async(is_so_long)
    return seen[-1] == length


async def line_is(locks: Locks, name: str, length: int) -> None:
    """Wait until so many are in the queue."""

    async def is_so_long() -> bool:
        return (await locks.inspect(name)).waiters == length

    await eventually_async(is_so_long, every=0.05)


async def run_out(locks: Locks, name: str) -> None:
    """Wait until the current hold of a lock has run out. Looking on does not move its queue."""

    async def is_free() -> bool:
        return not (await locks.inspect(name)).is_held

    await eventually_async(is_free, every=0.02)


async def end_hold(locks: Locks, name: str, secret: str, fence: int) -> None:
    """Let a hold run out. Its ttl ends when the test is ready for that, and not while it prepares itself."""
    assert await locks.ask_store("renew", [Renewal(name, secret, fence, 0.05)]) == [DONE]
    await run_out(locks, name)


async def renewed(*leases: Any) -> None:
    """Wait until each of these has been renewed: it may be trusted for longer than it was."""
    before = [lease.valid_until for lease in leases]

    def are_renewed() -> bool:
        for lease in leases:
            lease.check()
        return all(lease.valid_until > until for lease, until in zip(leases, before, strict=True))

    await eventually_async(are_renewed)
    for lease in leases:
        lease.check()


async def with_a_ttl_that_lasts(attempt: Callable[[float], Awaitable[None]], *ttls: float) -> None:
    """Run `attempt(ttl)`, and again with a longer ttl if its lease expired: a machine that stands still for longer
    than a lease lasts ends it. A lease that is not kept alive expires with every ttl, and fails."""
    ttls = ttls or (3, 9, 27)
    for ttl in ttls:
        try:
            return await attempt(ttl)
        except LeaseLost as lost:
            if lost.reason != "expired" or ttl == ttls[-1]:
                raise
    return None


async def seen_within(seconds: float, scene: Callable[[int], Awaitable[T]]) -> T:
    """What `scene(number)` saw, the first time that it was over within so many seconds: what it looks for is gone
    after that, so a machine that stood still for as long shows nothing."""
    for number in range(5):
        began_at = time.monotonic()
        seen = await scene(number)
        if time.monotonic() - began_at < seconds:
            return seen
    raise AssertionError(f"no scene was over within {seconds:g} s")


def token(number: int) -> str:
    """A made-up secret."""
    return f"{number:032x}"
