"""Cleaning up after requests that ended in doubt."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leasehold.core.replies import Done
from leasehold.core.surprises import report_unexpected
from leasehold.core.timer_queue import Agenda

if TYPE_CHECKING:
    from leasehold.core.ports import Clock, Concurrency, Store

_RETRY_EVERY = 0.25
_AT_ONCE = 256


class Orphan:
    """A grant that the store may hold although nobody knows of it.

    It would end by itself at ``until``, if ever, so there is nothing to clean up after that. ``look_again`` says
    that the request may still be on its way: a connection was dropped with the request in it, and the
    server may read it after it has answered us on the next connection.
    """

    __slots__ = ("look_again", "name", "token", "until")

    def __init__(self, name: str, token: str, *, until: float, look_again: bool) -> None:
        self.name = name
        self.token = token
        self.until = until
        self.look_again = look_again


class Settler:
    """Takes orphaned grants back, each by its own token, without anybody having to wait for it."""

    def __init__(self, store: Store, clock: Clock, concurrency: Concurrency, *, patience: float) -> None:
        self._store = store
        self._clock = clock
        self._concurrency = concurrency
        self._patience = patience
        self._is_stopped = False
        self._is_silent = False
        self._in_doubt: set[Orphan] = set()
        self._all_clear = concurrency.signal()
        self._agenda: Agenda[Orphan] = Agenda(
            clock, concurrency.signal(), is_live=lambda _when, _orphan: True
        )

    def adopt(self, orphan: Orphan) -> None:
        """See to it that ``orphan`` ends as soon as the store can be reached."""
        self._in_doubt.add(orphan)
        self._all_clear.clear()
        self._agenda.put(self._clock.now(), orphan)

    async def all_clear(self, timeout: float) -> bool:
        """Wait until nothing is in doubt any more; False if that took longer than ``timeout``.

        A second look that is merely a precaution is not waited for.
        """
        return not self._in_doubt or await self._all_clear.wait(timeout)

    def stop(self) -> None:
        """End `run` soon. What is still in doubt ends with its ttl."""
        self._is_stopped = True
        self._agenda.stop()

    async def run(self) -> None:
        """Work until stopped."""
        while due := await self._agenda.due():
            waiting = deque(due)
            while waiting and not self._is_stopped:
                # A store that is silent is asked once in a while by one of them, not by all.
                size = 1 if self._is_silent else min(len(waiting), _AT_ONCE)
                waiting.extendleft(await self._settle_together([waiting.popleft() for _ in range(size)]))
                if self._is_silent:
                    await self._clock.sleep(_RETRY_EVERY)

    async def _settle_together(self, batch: list[Orphan]) -> list[Orphan]:
        """Those of ``batch`` about which the store must be asked again."""
        left = len(batch)
        unsettled: list[Orphan] = []
        all_done = self._concurrency.signal()

        async def settle(orphan: Orphan) -> None:
            nonlocal left
            try:
                # In a thread they come one after another, and the first silence is enough for all.
                if (self._is_silent and len(batch) > 1) or not await self._settle(orphan):
                    unsettled.append(orphan)
            finally:
                left -= 1
                if not left:
                    all_done.set()

        for orphan in batch:
            self._concurrency.spawn(settle(orphan))
        await all_done.wait()
        return unsettled

    async def _settle(self, orphan: Orphan) -> bool:
        """Whether nothing needs to be done about ``orphan`` for now; False if the store must be asked again."""
        if self._clock.now() < orphan.until:
            try:
                # Fence 0: it only serves to tell "taken" from "expired", and nobody is left to be told.
                answer = await self._store.release(orphan.name, orphan.token, 0, None)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the settler
                report_unexpected(error)
                orphan.look_again = True
                self._is_silent = True
                return False
            self._is_silent = False
            look_at = self._clock.now() + self._patience
            if orphan.look_again and not isinstance(answer, Done) and look_at < orphan.until:
                orphan.look_again = False
                self._agenda.put(look_at, orphan)
        self._in_doubt.discard(orphan)
        if not self._in_doubt:
            self._all_clear.set()
        return True
