"""How files and sessions get work done beside locking, in either world; see `leasehold.core.ports`."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from leasehold.core.sync_runner import run_sync
from leasehold.files.finishing import to_the_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")

_AT_ONCE = 32


class World(Protocol):
    """What a coroutine of this package awaits besides the engine."""

    async def aside(self, work: Callable[[], T]) -> T:
        """What ``work``, which blocks, returns. It has ended when this ends, even by a cancellation."""
        ...

    async def side_by_side(self, works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Do all of them, none waiting for another; they raise nothing."""
        ...


class TaskWorld:
    """asyncio."""

    async def aside(self, work: Callable[[], T]) -> T:
        """In a thread."""
        return await to_the_end(work)

    async def side_by_side(self, works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Each as a task."""
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work())


class ThreadWorld:
    """Plain threads."""

    async def aside(self, work: Callable[[], T]) -> T:
        """Here and now."""
        return work()

    async def side_by_side(self, works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Each in a thread, so many at once."""
        if not works:
            return
        with ThreadPoolExecutor(min(len(works), _AT_ONCE), "leasehold-files") as threads:
            for done in [threads.submit(_run, work) for work in works]:
                done.result()


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_sync(work())
