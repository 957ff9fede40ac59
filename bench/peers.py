"""The peers, each used as its own documentation shows; missing ones are named and skipped."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import redis
import redis.asyncio

from bench.limit import COMPARE_AND_DELETE, TOKEN
from bench.work import AsyncCycles, BlockingCycles, Names, Window

POOL = 64
TTL = 30
WAIT = 5


@asynccontextmanager
async def redis_py_tasks(url: str) -> AsyncIterator[AsyncCycles]:
    async with _client(url) as client:

        async def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lock = client.lock(next(names), timeout=TTL, blocking_timeout=WAIT)
                if not await lock.acquire():
                    raise RuntimeError("redis-py: not acquired")
                await lock.release()
                done += 1
            return done

        yield cycles


@contextmanager
def redis_py_threads(url: str) -> Iterator[BlockingCycles]:
    with redis.Redis.from_url(url, max_connections=POOL) as client:

        def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lock = client.lock(next(names), timeout=TTL, blocking_timeout=WAIT)
                if not lock.acquire():
                    raise RuntimeError("redis-py: not acquired")
                lock.release()
                done += 1
            return done

        yield cycles


@contextmanager
def python_redis_lock_threads(url: str) -> Iterator[BlockingCycles]:
    import redis_lock  # noqa: PLC0415  a peer may be missing

    with redis.Redis.from_url(url, max_connections=POOL) as client:

        def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lock = redis_lock.Lock(client, next(names), expire=TTL)
                if not lock.acquire(timeout=WAIT):
                    raise RuntimeError("python-redis-lock: not acquired")
                lock.release()
                done += 1
            return done

        yield cycles


@asynccontextmanager
async def pottery_tasks(url: str) -> AsyncIterator[AsyncCycles]:
    from pottery import AIORedlock  # noqa: PLC0415  a peer may be missing

    async with _client(url) as client:
        masters = {client}

        async def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lock = AIORedlock(key=next(names), masters=masters, auto_release_time=TTL)
                if not await lock.acquire(timeout=WAIT):
                    raise RuntimeError("pottery: not acquired")
                await lock.release()
                done += 1
            return done

        yield cycles


@contextmanager
def pottery_threads(url: str) -> Iterator[BlockingCycles]:
    from pottery import Redlock  # noqa: PLC0415  a peer may be missing

    with redis.Redis.from_url(url, max_connections=POOL) as client:
        masters = {client}

        def cycles(names: Names, window: Window) -> int:
            done = 0
            while window.is_open:
                lock = Redlock(key=next(names), masters=masters, auto_release_time=TTL)
                if not lock.acquire(timeout=WAIT):
                    raise RuntimeError("pottery: not acquired")
                lock.release()
                done += 1
            return done

        yield cycles


@asynccontextmanager
async def glide_tasks(url: str) -> AsyncIterator[AsyncCycles]:
    """No lock of its own: the limit's two commands through its multiplexed client."""
    import glide  # noqa: PLC0415  a peer may be missing

    address = urlsplit(url)
    where = [glide.NodeAddress(address.hostname or "127.0.0.1", address.port or 6379)]
    client = await glide.GlideClient.create(glide.GlideClientConfiguration(where, request_timeout=5000))
    script = glide.Script(COMPARE_AND_DELETE)
    absent = glide.ConditionalChange.ONLY_IF_DOES_NOT_EXIST
    ttl = glide.ExpirySet(glide.ExpiryType.SEC, TTL)

    async def cycles(names: Names, window: Window) -> int:
        done = 0
        while window.is_open:
            name = next(names)
            if await client.set(name, TOKEN, conditional_set=absent, expiry=ttl) is None:
                raise RuntimeError("valkey-glide: not acquired")
            await client.invoke_script(script, keys=[name], args=[TOKEN])
            done += 1
        return done

    try:
        yield cycles
    finally:
        await client.close()


def _client(url: str) -> redis.asyncio.Redis:
    # Blocking pool without a deadline: 1,000 tasks wait for 64 connections instead of failing.
    pool = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=POOL, timeout=None)
    return redis.asyncio.Redis.from_pool(pool)
