"""A queue of items that become due at their times."""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.ports import Clock, Signal

T = TypeVar("T")

# The number of new items that may pile up unread, and of dead ones unswept. Short holds come and go far more often
# than any of them becomes due, so neither may cost more than a list append.
_PILE = 1024


class TimerQueue(Generic[T]):
    """A heap of timers that one coroutine reads and any thread may write to.

    Writers touch an atomic inbox only; the heap belongs to the reader. Entries are never removed: those for which
    ``is_live(when, item)`` is false are skipped.
    """

    def __init__(
        self, clock: Clock, alarm: Signal, *, is_live: Callable[[float, T], bool], slack: float = 0.0
    ) -> None:
        self._clock = clock
        self._alarm = alarm
        self._is_live = is_live
        self._slack = slack
        self._inbox: deque[tuple[float, T]] = deque()
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()
        self._swept_size = 0
        self._wakes_at = -math.inf
        self._is_stopped = False

    def put(self, when: float, item: T) -> None:
        """Make ``item`` due at ``when``."""
        try:
            self._inbox.append((when, item))
        finally:  # a signal handler may raise after the append
            if when < self._wakes_at or len(self._inbox) > _PILE:
                self._alarm.set()

    def stop(self) -> None:
        """Make `due` return nothing from now on."""
        self._is_stopped = True
        self._alarm.set()

    async def due(self) -> list[T]:
        """Return the items that are due, as soon as there are any; an empty list once stopped.

        Items that become due within ``slack`` seconds are returned with them.
        """
        while not self._is_stopped:
            # Infinite until the alarm is waited for: each `put` in between sets the alarm, so none is missed.
            self._wakes_at = math.inf
            self._alarm.clear()
            self._read_inbox()
            now = self._clock.now()
            if self._heap and self._heap[0][0] <= now:
                if items := self._pop_until(now + self._slack):
                    return items
                continue  # none of them was live
            wakes_at = self._heap[0][0] if self._heap else math.inf
            self._wakes_at = wakes_at
            await self._alarm.wait(None if wakes_at == math.inf else wakes_at - now)
        return []

    def drain(self) -> list[T]:
        """Return all live items, due or not."""
        self._read_inbox()
        return self._pop_until(math.inf)

    def _read_inbox(self) -> None:
        heap, is_live = self._heap, self._is_live
        while self._inbox:
            when, item = self._inbox.popleft()
            if is_live(when, item):
                heapq.heappush(heap, (when, next(self._order), item))
        if len(heap) > 2 * self._swept_size + _PILE:
            heap[:] = [entry for entry in heap if is_live(entry[0], entry[2])]
            heapq.heapify(heap)
            self._swept_size = len(heap)

    def _pop_until(self, until: float) -> list[T]:
        items: list[T] = []
        while self._heap and self._heap[0][0] <= until:
            when, _, item = heapq.heappop(self._heap)
            if self._is_live(when, item):
                items.append(item)
        return items
