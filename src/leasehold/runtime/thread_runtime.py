"""Clock, signals and concurrency for threads: ports that block and never suspend.

A signal handler of the program may raise in the main thread, whenever CPython looks for signals: at the entry of a
Python function, after a call, at a jump back, and in C code that blocks. The classes of `threading` that are written in
Python (Condition, Event, Semaphore, and in them Thread.start and Future) keep their inner lock for ever if that happens
between taking it and the ``with`` that gives it back; with Python 3.14 so does every ``with lock`` (CPython
issue 148874). So nothing here uses them in a thread that may be interrupted; see docs/adr/0009-signal-handlers.md.
"""

from __future__ import annotations

import threading
import time
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core.sync_runner import run_sync
from leasehold.runtime import clock

if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")

_MAX_THREADS = 32

# What an interruption can lose is a wake-up, so each wait looks again after so many seconds.
_LOOK_AGAIN = 5.0


class ThreadClock:
    """Implements `leasehold.core.ports.Clock`."""

    now = staticmethod(clock.now)

    async def sleep(self, seconds: float) -> None:
        """Block the thread for ``seconds``."""
        time.sleep(seconds)  # noqa: ASYNC251 - a blocking port blocks: that is its contract


class ThreadSignal:
    """Implements `leasehold.core.ports.Signal`.

    A `threading.Event` does the same, but see above. Each waiter has a lock of its own, which `set` releases once.
    """

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[LockType] = []

    def set(self) -> None:
        """Wake every waiter, now and until `clear`."""
        self._is_set = True
        waiters = self._waiters
        while waiters:
            try:
                waiter = waiters.pop()
            except IndexError:  # another thread was faster
                return
            waiter.release()

    def clear(self) -> None:
        """Let later waiters wait again."""
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        """Block until the flag is set (True) or ``timeout`` seconds have passed (False)."""
        if self._is_set:
            return True
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_AGAIN if give_up_at is None else min(_LOOK_AGAIN, give_up_at - time.monotonic())
            if left <= 0:
                return False
            waiter = allocate_lock()
            waiter.acquire()
            try:
                self._waiters.append(waiter)
                # Looked at after the lock is known to `set`, so that none is missed.
                if self._is_set or waiter.acquire(timeout=left) or self._is_set:
                    return True
            finally:
                if waiter in self._waiters:
                    _discard(self._waiters, waiter)


class ThreadConcurrency:
    """Implements `leasehold.core.ports.Concurrency`: long-running loops get a thread each."""

    def check(self) -> None:
        """Any thread may call."""

    def signal(self) -> ThreadSignal:
        """Return a new flag."""
        return ThreadSignal()

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loop()`` in a thread that does not keep the program alive."""
        # `Thread.start` waits for the new thread on an Event. The thread that calls it here is never interrupted.
        start_new_thread(_start_thread, (lambda: run_sync(loop()),))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` at once, in the caller's thread."""
        run_sync(work)

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, run in the caller's thread."""
        return work()

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run each in a thread, at most 32 at once.

        If the caller is interrupted, those that have begun run on, and the others never begin.
        """
        todo = list(enumerate(works))
        todo.reverse()
        results: dict[int, T] = {}
        failures: list[BaseException] = []
        ended: list[None] = []
        all_ended = ThreadSignal()
        threads = min(_MAX_THREADS, len(todo))

        def work() -> None:
            try:
                while todo:
                    try:
                        index, coroutine = todo.pop()
                    except IndexError:  # another thread was faster
                        break
                    results[index] = run_sync(coroutine)
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                failures.append(error)
            finally:
                ended.append(None)
                if len(ended) == threads:
                    all_ended.set()

        try:
            for _ in range(threads):
                start_new_thread(_start_thread, (work,))
            if threads:
                await all_ended.wait()
        finally:
            not_begun = todo.copy()
            todo.clear()
            for _, coroutine in not_begun:
                coroutine.close()
        if failures:
            raise failures[0]
        return [results[index] for index in range(len(works))]

    def after_fork(self) -> None:
        """Nothing to drop: the parent's threads are not in the child."""

    async def close(self) -> None:
        """Nothing to end: each loop ends by itself when it is stopped."""


def _start_thread(target: Callable[[], None]) -> None:
    try:
        threading.Thread(target=target, name="leasehold", daemon=True).start()
    except RuntimeError:  # no more threads: this one is left, and its starter counts on it
        target()


def _discard(waiters: list[LockType], waiter: LockType) -> None:
    try:
        waiters.remove(waiter)
    except ValueError:  # `set` was faster
        return
