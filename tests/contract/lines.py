"""Standing in line for a lock, as the suites do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually_async

if TYPE_CHECKING:
    from tests.contract.sides import Held, Locks

# Nobody in these suites waits in vain for so long, unless something is broken.
LONG = 60


async def join(locks: Locks, name: str, **options: Any) -> asyncio.Task[Held]:
    """Begin to wait for a lock that is held. On return the waiter is in the queue."""
    before = (await locks.inspect(name)).waiters
    waiting = asyncio.create_task(locks.acquire(name, **{"ttl": 30, "wait": LONG} | options))

    async def has_joined() -> bool:
        return waiting.done() or (await locks.inspect(name)).waiters > before

    await eventually_async(has_joined, within=20)
    assert not waiting.done(), f"somebody came through at once: {waiting}"
    return waiting


async def line_is(locks: Locks, name: str, length: int) -> None:
    """Wait until so many are in the queue."""

    async def is_so_long() -> bool:
        return (await locks.inspect(name)).waiters == length

    await eventually_async(is_so_long, within=20)


async def run_out(locks: Locks, name: str) -> None:
    """Wait until the current hold of a lock has run out. Looking on does not move its queue."""

    async def is_free() -> bool:
        return not (await locks.inspect(name)).is_held

    await eventually_async(is_free, within=20)


def token(number: int) -> str:
    """A made-up secret."""
    return f"{number:032x}"
