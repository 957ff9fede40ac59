"""File work for asyncio: in a thread, and never behind the caller's back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")


async def to_the_end(work: Callable[[], R]) -> R:
    """What ``work`` returns, done in a thread.

    A thread cannot be cancelled. If the caller is, the work is waited for and then `CancelledError` comes out: the
    lock that it was done under must not be given back before. Whether it had been done is then what ``work`` has
    noted itself.
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
        running.exception()  # looked at, or asyncio complains that nobody did
        raise cancelled
    return running.result()
