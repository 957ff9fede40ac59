"""The world of asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidRequest
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class TaskClock:
    """Implements `leasehold.core.ports.Clock`."""

    now = staticmethod(clock.now)

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for ``seconds``."""
        await asyncio.sleep(seconds)


class TaskSignal:
    """Implements `leasehold.core.ports.Signal`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set = self._event.set
        self.clear = self._event.clear

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True once the flag is set, False when ``timeout`` seconds have passed first."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Tasks:
    """Implements `leasehold.core.ports.Concurrency`: each piece of work is a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Refuse a second event loop: what keeps leases alive runs in the first."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise InvalidRequest("this client belongs to another event loop; make one for each loop")

    def signal(self) -> TaskSignal:
        """A new flag."""
        return TaskSignal()

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loop()`` as a task."""
        self.spawn(loop())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` as a task; asyncio itself only keeps weak references to tasks."""
        try:
            self.check()
        except InvalidRequest:
            work.close()
            raise
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def after_fork(self) -> None:
        """In a child process: the parent's tasks and its loop are not here."""
        self._tasks = set()
        self._loop = None

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
