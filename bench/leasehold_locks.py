"""Leasehold's locks with default settings, fence and all checks."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from bench.work import AsyncCycles, BlockingCycles, Names, Window


@asynccontextmanager
async def tasks(url: str) -> AsyncIterator[AsyncCycles]:
    import leasehold  # noqa: PLC0415  the harness also runs without it

    async with leasehold.connect(url) as locks:

        async def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lease = await locks.acquire(next(names), ttl=30, wait=5)
                await lease.release()
                done += 1
            return done

        yield cycles


@contextmanager
def threads(url: str) -> Iterator[BlockingCycles]:
    """One client shared by all threads."""
    import leasehold.blocking  # noqa: PLC0415  the harness also runs without it

    with leasehold.blocking.connect(url) as locks:

        def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lease = locks.acquire(next(names), ttl=30, wait=5)
                lease.release()
                done += 1
            return done

        yield cycles
