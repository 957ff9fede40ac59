"""Waits in the queue of a lock, for the suites; the machine may pause for seconds at any point."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.eventually import LIMIT, eventually_async

from leasehold import AcquireTimeout, LeaseLost
from leasehold.core.replies import DONE, Renewal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.contract.clients import Held, Locks

T = TypeVar("T")

# No waiter in these suites waits as long as this, unless there is a defect.
LONG = LIMIT

CLAIM_WINDOW = 2.0
"""Seconds within which a grant to a waiter must be claimed."""

PRESENCE = 3.0
"""Seconds for which a client that does not poll keeps its place in a queue."""


async def join(locks: Locks, name: str, **options: Any) -> asyncio.Task[Held]:
    """Starts to wait for a held lock. On return the waiter is in the queue."""
    before = (await locks.inspect(name)).waiters
    waiting = asyncio.create_task(locks.acquire(name, **{"ttl": 30, "wait": LONG} | options))

    async def has_joined() -> bool:
        return waiting.done() or (await locks.inspect(name)).waiters > before

    await eventually_async(has_joined)
    assert not waiting.done(), f"the waiter ended at once: {waiting}"
    return waiting


async def join_behind_one_that_gives_up(
    locks: Locks, name: str, hold: Callable[[str], Awaitable[Held]], **options: Any
) -> tuple[Held, asyncio.Task[Held]]:
    """Joins the queue behind a waiter with a short wait, which has given up on return. `hold(lock)` gets the lock
    for which both wait; its result and the remaining waiter are returned."""
    for wait in (2, 8, 32):  # a machine that pauses for two seconds needs another try
        lock = f"{name}, waited for {wait} s"
        held = await hold(lock)
        impatient = asyncio.create_task(locks.acquire(lock, wait=wait))
        await _queue_reached(locks, lock, 1, impatient)
        patient = asyncio.create_task(locks.acquire(lock, **{"ttl": 30, "wait": LONG} | options))
        waited_together = await _queue_reached(locks, lock, 2, impatient)
        await asyncio.wait({impatient}, timeout=LIMIT)
        assert isinstance(impatient.exception(), AcquireTimeout)
        if waited_together:
            return held, patient
        await held.release()
        await (await patient).release()
    raise AssertionError("the two were never in the queue together")


async def _queue_reached(locks: Locks, name: str, length: int, unless: asyncio.Task[Any]) -> bool:
    """Waits until the queue has this length; False if the task ends before."""
    seen: list[int] = []

    async def has_length() -> bool:
        seen.append((await locks.inspect(name)).waiters)
        return seen[-1] == length or unless.done()

    await eventually_async(has_length)
    return seen[-1] == length


async def queue_has(locks: Locks, name: str, length: int) -> None:
    """Waits until the queue has this length."""

    async def has_length() -> bool:
        return (await locks.inspect(name)).waiters == length

    await eventually_async(has_length, every=0.05)


async def run_out(locks: Locks, name: str) -> None:
    """Waits until the current hold of a lock has expired. `inspect` does not advance its queue."""

    async def is_free() -> bool:
        return not (await locks.inspect(name)).is_held

    await eventually_async(is_free, every=0.02)


async def end_hold(locks: Locks, name: str, secret: str, fence: int) -> None:
    """Lets a hold expire: its ttl ends when the test is ready, not while the test prepares."""
    assert await locks.ask_store_in_time("shorten", Renewal(name, secret, fence, 0.05)) is DONE
    await run_out(locks, name)


async def renewed(*leases: Any) -> None:
    """Waits until each lease has been renewed: it is valid for longer than before."""
    before = [lease.valid_until for lease in leases]

    def are_renewed() -> bool:
        for lease in leases:
            lease.check()
        return all(lease.valid_until > until for lease, until in zip(leases, before, strict=True))

    await eventually_async(are_renewed)
    for lease in leases:
        lease.check()


async def with_a_ttl_that_lasts(attempt: Callable[[float], Awaitable[None]], *ttls: float) -> None:
    """Runs `attempt(ttl)`, and again with a longer ttl if its lease expired: a machine that pauses for longer
    than the ttl ends the lease. A lease that is not renewed expires with every ttl, and fails."""
    ttls = ttls or (3, 9, 27)
    for ttl in ttls:
        try:
            return await attempt(ttl)
        except LeaseLost as lost:
            if lost.reason != "expired" or ttl == ttls[-1]:
                raise
    return None


async def seen_within(seconds: float, scene: Callable[[int], Awaitable[T]]) -> T:
    """The result of the first `scene(number)` that took less than so many seconds: the state that it observes is gone
    after that, so a run on a machine that paused for as long proves nothing."""
    for number in range(5):
        began_at = time.monotonic()
        seen = await scene(number)
        if time.monotonic() - began_at < seconds:
            return seen
    raise AssertionError(f"no scene took less than {seconds:g} s")


def token(number: int) -> str:
    """A token of the test's own."""
    return f"{number:032x}"
