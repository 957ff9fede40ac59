"""The waiters of one process, for each contestant as its own documentation shows.

A waiter holds the lock repeatedly until its schedule ends; the body is one turn of the event loop.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic

from bench.hand_over import limit
from bench.hand_over.holds import Hold, Schedule
from bench.result import LIMIT, OURS, RIVAL

NAME = "deal:1"
TTL = 30
WAIT = 30
PYTHON_REDIS_LOCK = "python-redis-lock"

# Runs the waiters with these numbers for a schedule.
Work = Callable[[range, Schedule], Awaitable[list[Hold]]]


@asynccontextmanager
async def limit_tasks(url: str) -> AsyncIterator[Work]:
    async with limit.opening(url) as take_turns:
        yield _in_tasks(take_turns)


@asynccontextmanager
async def leasehold_tasks(url: str) -> AsyncIterator[Work]:
    import leasehold  # noqa: PLC0415  only the process that measures it needs it

    async with leasehold.connect(url) as locks:

        async def take_turns(waiter: int, schedule: Schedule) -> list[Hold]:
            holds: list[Hold] = []
            while monotonic() < schedule.ends_at:
                async with locks.lock(NAME, ttl=TTL, wait=WAIT) as lease:
                    acquired_at = monotonic()
                    await asyncio.sleep(0)
                    releases_at = monotonic()
                holds.append(Hold(waiter, acquired_at, releases_at, lease.fence))
            return holds

        yield _in_tasks(take_turns)


@asynccontextmanager
async def redis_py_tasks(url: str) -> AsyncIterator[Work]:
    import redis.asyncio  # noqa: PLC0415  only the process that measures it needs it

    async with redis.asyncio.Redis.from_url(url) as client:

        async def take_turns(waiter: int, schedule: Schedule) -> list[Hold]:
            holds: list[Hold] = []
            while monotonic() < schedule.ends_at:
                # Only up to the end of the schedule: serving starved waiters after it would take two seconds a round.
                lock = client.lock(NAME, timeout=TTL, blocking_timeout=schedule.ends_at - monotonic())
                if not await lock.acquire():
                    break
                acquired_at = monotonic()
                await asyncio.sleep(0)
                releases_at = monotonic()
                await lock.release()
                holds.append(Hold(waiter, acquired_at, releases_at, acquired_at))
            return holds

        yield _in_tasks(take_turns)


@asynccontextmanager
async def python_redis_lock_threads(url: str) -> AsyncIterator[Work]:
    import redis  # noqa: PLC0415  only the process that measures it needs it
    import redis_lock  # noqa: PLC0415  a peer may be missing

    with redis.Redis.from_url(url) as client:

        def take_turns(waiter: int, schedule: Schedule) -> list[Hold]:
            holds: list[Hold] = []
            while monotonic() < schedule.ends_at:
                with redis_lock.Lock(client, NAME, expire=TTL):
                    acquired_at = monotonic()
                    time.sleep(0)
                    releases_at = monotonic()
                holds.append(Hold(waiter, acquired_at, releases_at, acquired_at))
            return holds

        yield _in_threads(take_turns)


WAITERS: dict[str, Callable[[str], AbstractAsyncContextManager[Work]]] = {
    LIMIT: limit_tasks,
    OURS: leasehold_tasks,
    RIVAL: redis_py_tasks,
    PYTHON_REDIS_LOCK: python_redis_lock_threads,
}


def _in_tasks(take_turns: Callable[[int, Schedule], Awaitable[list[Hold]]]) -> Work:
    async def begin(waiter: int, schedule: Schedule) -> list[Hold]:
        await asyncio.sleep(schedule.begins_at - monotonic())
        return await take_turns(waiter, schedule)

    async def work(waiters: range, schedule: Schedule) -> list[Hold]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(begin(waiter, schedule)) for waiter in waiters]
        return [hold for task in tasks for hold in task.result()]

    return work


def _in_threads(take_turns: Callable[[int, Schedule], list[Hold]]) -> Work:
    async def work(waiters: range, schedule: Schedule) -> list[Hold]:
        """Blocks the event loop on purpose, so that only the threads run."""
        outcomes: list[list[Hold]] = []
        errors: list[Exception] = []

        def begin(waiter: int) -> None:
            time.sleep(max(0.0, schedule.begins_at - monotonic()))
            try:
                outcomes.append(take_turns(waiter, schedule))
            except Exception as error:  # noqa: BLE001  carried over to the main thread, which raises it
                errors.append(error)

        threads = [threading.Thread(target=begin, args=(waiter,), daemon=True) for waiter in waiters]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return [hold for outcome in outcomes for hold in outcome]

    return work
