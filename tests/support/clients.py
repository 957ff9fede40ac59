"""Clients of both kinds for tests that are written once, for asyncio."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold import StoreError, blocking
from tests.support.eventually import eventually_async
from tests.support.threads import InThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

both = pytest.mark.parametrize("kind", ["async", "blocking"])


@asynccontextmanager
async def client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    """An "async" or a "blocking" client, whose verbs are awaited."""
    if kind == "async":
        async with leasehold.connect(url, **options) as locks:
            yield locks
    else:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))  # a thread for each waiter
        with blocking.connect(url, **options) as locks:
            yield InThread(locks)


async def insist(locks: Any, name: str, **options: Any) -> Any:
    """A lease, as soon as there is a primary."""
    leases: list[Any] = []

    async def is_granted() -> bool:
        try:
            leases.append(await locks.acquire(name, **{"ttl": 20, "wait": 5, **options}))
        except StoreError:
            return False
        return True

    await eventually_async(is_granted)
    return leases[-1]
