"""Work for a caller who may hang up while it is done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.requests import Request

T = TypeVar("T")


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; None if the caller hung up first, and then it has been cancelled."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_hang_up(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
    finally:
        for task in (working, watching):
            task.cancel()
        # Also when we are cancelled ourselves: what was begun is undone before anybody hears that it is.
        await asyncio.wait({working, watching})
    if not working.cancelled():
        working.exception()  # looked at, so that asyncio does not report it: nobody is there to be told
    return None


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
