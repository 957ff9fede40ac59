"""Clock, signals and concurrency for asyncio."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import InvalidRequest
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")


class AsyncioClock:
    """Implements `leasehold.core.ports.Clock`."""

    now = staticmethod(clock.now)

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for ``seconds``."""
        await asyncio.sleep(seconds)


class AsyncioSignal:
    """Implements `leasehold.core.ports.Signal`.

    An `asyncio.Event` in an `asyncio.timeout` would do the same, but cost as much as all the rest of a wait.
    """

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[bool]] = []

    def set(self) -> None:
        """Wake every waiter, now and until `clear`."""
        self._is_set = True
        for waiter in self._waiters:
            _answer(waiter, True)

    def clear(self) -> None:
        """Let later waiters wait again."""
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True once the flag is set, False when ``timeout`` seconds have passed first."""
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _answer, waiter, False)
        self._waiters.append(waiter)
        try:
            return await waiter
        finally:
            self._waiters.remove(waiter)
            if timer is not None:
                timer.cancel()


def _answer(waiter: asyncio.Future[bool], answer: bool) -> None:  # noqa: FBT001 - a value
    if not waiter.done():
        waiter.set_result(answer)


class AsyncioConcurrency:
    """Implements `leasehold.core.ports.Concurrency`: each piece of work is a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise `InvalidRequest` in a second event loop: renewals run in the first."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise InvalidRequest("this client belongs to another event loop; make one for each loop")

    def signal(self) -> AsyncioSignal:
        """Return a new flag."""
        return AsyncioSignal()

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
        with suppress(AttributeError):  # as asyncio does for its own; a task of another kind may not have it
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - see `__del__`
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """The result of ``work``, run in a thread.

        A thread cannot be cancelled. If the caller is, this waits for ``work`` and then raises `CancelledError`:
        a lock that the work needs must not be released before. ``work`` itself records what it has done by then.
        """
        running = asyncio.ensure_future(asyncio.to_thread(work))
        cancelled: asyncio.CancelledError | None = None
        while not running.done():
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError as error:
                if running.cancelled():
                    raise
                cancelled = error
            except Exception:  # noqa: BLE001 - raised below, or hidden by a cancellation
                break
        if cancelled is not None:
            running.exception()  # retrieved, or asyncio logs that it never was
            raise cancelled
        return running.result()

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run each as a task."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
        return [task.result() for task in tasks]

    def after_fork(self) -> None:
        """In a child process: forget the parent's tasks and its loop."""
        self._tasks = set()
        self._loop = None

    def __del__(self) -> None:
        """Warn about a client that was dropped without being closed, instead of one message for each of its tasks."""
        if self._tasks:
            warnings.warn(
                "unclosed Leasehold client: use 'async with', or await its close()", ResourceWarning, 2
            )

    async def close(self) -> None:
        """Cancel the tasks that still run and wait for their end."""
        # A task that is cancelled before its first step runs no clean-up, such as ending the leases that it renews.
        await asyncio.sleep(0)
        await end_tasks({task for task in self._tasks if task is not asyncio.current_task()})


async def end_tasks(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel ``tasks`` and wait until they have ended.

    Cancels more than once: a driver that fails at the moment of the cancellation may raise its own error instead, and
    a task that then tries again would run for ever. Seen with asyncpg, connecting to a server that has gone away.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=1)
