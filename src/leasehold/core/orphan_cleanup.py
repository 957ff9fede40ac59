"""Releases grants that requests in doubt may have left in the store."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leasehold.core.background import BackgroundLoop, report_unexpected
from leasehold.core.replies import Done
from leasehold.core.timer_queue import TimerQueue

if TYPE_CHECKING:
    from leasehold.core.ports import Clock, Concurrency, Store

_RETRY_EVERY = 0.25
_BATCH = 256


class Orphan:
    """A grant that the store may hold, without a lease in this client.

    It ends by itself at ``until``, if ever, so there is nothing to clean up after that. With ``look_again`` the
    request may still be on its way: a connection was dropped with the request in it, and the server may read it
    after it has replied on the next connection.
    """

    __slots__ = ("look_again", "name", "token", "until")

    def __init__(self, name: str, token: str, *, until: float, look_again: bool) -> None:
        self.name = name
        self.token = token
        self.until = until
        self.look_again = look_again


class OrphanCleaner:
    """Releases orphaned grants in the background, each by its own token."""

    def __init__(self, store: Store, clock: Clock, concurrency: Concurrency, *, timeout: float) -> None:
        self._store = store
        self._clock = clock
        self._concurrency = concurrency
        self._timeout = timeout
        self._is_stopped = False
        self._is_silent = False
        self._in_doubt: set[Orphan] = set()
        self._all_clean = concurrency.signal()
        self._timer_queue: TimerQueue[Orphan] = TimerQueue(
            clock, concurrency.signal(), is_live=lambda _when, _orphan: True
        )
        self._loop = BackgroundLoop(concurrency, self.run)

    def add(self, orphan: Orphan) -> None:
        """Release ``orphan`` as soon as the store can be reached."""
        self._loop.start()
        try:
            self._in_doubt.add(orphan)
            self._all_clean.clear()
            self._timer_queue.put(self._clock.now(), orphan)
        except BaseException:  # from a signal handler: `wait_until_clean` would wait for it in vain
            self._in_doubt.discard(orphan)
            raise

    async def wait_until_clean(self, timeout: float) -> bool:
        """Wait until nothing is in doubt; False if that takes longer than ``timeout``.

        A second release that is only a precaution is not waited for.
        """
        return not self._in_doubt or await self._all_clean.wait(timeout)

    def stop(self) -> None:
        """End `run` soon. What is still in doubt ends with its ttl."""
        self._is_stopped = True
        self._timer_queue.stop()

    async def run(self) -> None:
        """Work until stopped."""
        while due := await self._timer_queue.due():
            waiting = deque(due)
            while waiting and not self._is_stopped:
                # A silent store is asked now and then with one request, not with all of them.
                size = 1 if self._is_silent else min(len(waiting), _BATCH)
                waiting.extendleft(await self._clean_batch([waiting.popleft() for _ in range(size)]))
                if self._is_silent:
                    await self._clock.sleep(_RETRY_EVERY)

    async def _clean_batch(self, batch: list[Orphan]) -> list[Orphan]:
        """Return those of ``batch`` about which the store must be asked again."""
        left = len(batch)
        unclear: list[Orphan] = []
        all_done = self._concurrency.signal()

        async def clean(orphan: Orphan) -> None:
            nonlocal left
            try:
                # In a thread they come one after another, and the first silence is enough for all.
                if (self._is_silent and len(batch) > 1) or not await self._clean(orphan):
                    unclear.append(orphan)
            finally:
                left -= 1
                if not left:
                    all_done.set()

        for orphan in batch:
            self._concurrency.spawn(clean(orphan))
        await all_done.wait()
        return unclear

    async def _clean(self, orphan: Orphan) -> bool:
        """Release ``orphan``; False if the store must be asked again."""
        if self._clock.now() < orphan.until:
            try:
                # Fence 0: behind the request in doubt. No lease needs the reason "taken", for which the fence serves.
                reply = await self._store.release(orphan.name, orphan.token, 0, None)
            except Exception as error:  # noqa: BLE001 - no error may end the cleaner
                report_unexpected(error)
                orphan.look_again = True
                self._is_silent = True
                return False
            self._is_silent = False
            look_at = self._clock.now() + self._timeout
            if orphan.look_again and not isinstance(reply, Done) and look_at < orphan.until:
                orphan.look_again = False
                self._timer_queue.put(look_at, orphan)
        self._in_doubt.discard(orphan)
        if not self._in_doubt:
            self._all_clean.set()
        return True
