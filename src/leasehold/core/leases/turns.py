"""Turns: of several requests about one lease or file, only one is under way at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.ports import Clock, Signal

T = TypeVar("T")

# A signal handler may raise between the end of a turn and the wake-up of those that wait for it.
_LOOK_AGAIN = 0.5


async def run_in_turn(
    queue: list[Signal],
    mine: Signal,
    work: Callable[[], Coroutine[None, None, T]],
    *,
    clock: Clock,
    timeout: float,
    too_late: Callable[[], Exception],
    on_end: Callable[[], None] | None = None,
) -> T:
    """Run ``work`` as soon as ``mine`` is the first in ``queue``; raise ``too_late()`` after ``timeout`` seconds.

    A turn is one entry in a list, so it is taken and given back in one call of a function of C, before which no signal
    handler can raise in the ``finally``. Nothing else is to be undone, and only the one that has a turn can end it.
    """
    give_up_at: float | None = None
    try:
        queue.append(mine)
        while (first := queue[0]) is not mine:
            now = clock.now()
            give_up_at = now + timeout if give_up_at is None else give_up_at
            left = give_up_at - now
            if left <= 0:
                raise too_late()
            await first.wait(min(left, _LOOK_AGAIN))
        return await work()
    finally:
        if mine in queue:
            queue.remove(mine)
        mine.set()
        if on_end is not None:
            on_end()
