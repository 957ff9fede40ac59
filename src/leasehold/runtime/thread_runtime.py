"""Clock, signals and concurrency for threads: ports that block and never suspend."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core.sync_runner import run_sync
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")

_MAX_THREADS = 32


class ThreadClock:
    """Implements `leasehold.core.ports.Clock`."""

    now = staticmethod(clock.now)

    async def sleep(self, seconds: float) -> None:
        """Block the thread for ``seconds``."""
        time.sleep(seconds)  # noqa: ASYNC251 - a blocking port blocks: that is its contract


class ThreadSignal:
    """Implements `leasehold.core.ports.Signal`."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set
        self.clear = self._event.clear

    async def wait(self, timeout: float | None = None) -> bool:
        """Block until the flag is set (True) or ``timeout`` seconds have passed (False)."""
        # A thread cannot wait longer than this at once, some 292 years; no lease lasts that long.
        return self._event.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))


class ThreadConcurrency:
    """Implements `leasehold.core.ports.Concurrency`: long-running loops get a thread each."""

    def check(self) -> None:
        """Any thread may call."""

    def signal(self) -> ThreadSignal:
        """Return a new flag."""
        return ThreadSignal()

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loop()`` in a thread that does not keep the program alive."""
        threading.Thread(target=lambda: run_sync(loop()), name="leasehold", daemon=True).start()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` at once, in the caller's thread."""
        run_sync(work)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, run in the caller's thread."""
        return work()

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run each in a thread, at most 32 at once."""
        with ThreadPoolExecutor(_MAX_THREADS, "leasehold") as pool:
            return [done.result() for done in [pool.submit(run_sync, work) for work in works]]

    def after_fork(self) -> None:
        """Nothing to drop: the parent's threads are not in the child."""

    async def close(self) -> None:
        """Nothing to end: each loop ends by itself when it is stopped."""
