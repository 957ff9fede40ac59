"""Cancels a task, or a coroutine at a chosen await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator


async def give_up(task: asyncio.Task[Any]) -> None:
    """Cancel it and wait for its end, so that a test leaves nothing under way."""
    task.cancel()
    await asyncio.wait({task})


class CancelledAt:
    """`await CancelledAt(work, 3)`: the work is cancelled where it would suspend for the fourth time."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self._work = work
        self._at = at
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, None, Any]:
        suspended = 0
        step, value = self._work.send, None
        while True:
            try:
                future = step(value)
            except StopIteration as done:
                return done.value
            step, value = self._work.send, None
            if suspended == self._at:
                self.was_cancelled = True
                step, value = self._work.throw, asyncio.CancelledError()
            else:
                try:
                    yield future
                except (
                    asyncio.CancelledError
                ) as error:  # of the task: that is how `asyncio.timeout` ends a wait
                    step, value = self._work.throw, error
            suspended += 1
