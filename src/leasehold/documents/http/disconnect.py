"""Cancels the work of a request when its client disconnects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.requests import Request

T = TypeVar("T")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; None if the client disconnected first, and then it has been cancelled."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
    finally:
        for task in (working, watching):
            task.cancel()
        # Also when this call itself is cancelled: the work is undone before the caller goes on.
        await asyncio.wait({working, watching})
    if not working.cancelled():
        working.exception()  # retrieved, so that asyncio does not log it: the client is gone
    return None


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
