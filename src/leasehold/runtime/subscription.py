"""Subscribes to a pub/sub channel, and polls where pub/sub is not available."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("leasehold")

_RETRY_EVERY = 0.5


async def keep_subscribed(
    subscribe: Callable[[], Awaitable[bool]], resumed: Callable[[], None], *, deaf_every: float, to: str
) -> None:
    """Call ``subscribe`` until the store answers, then ``resumed`` for what was published before.

    The subscription outlives this call: the transport renews it, and reports gaps itself. Where ``subscribe``
    returns False (no pub/sub), this call goes on and calls ``resumed`` every ``deaf_every`` seconds instead.
    """
    last_error = ""
    while True:
        try:
            is_heard = await subscribe()
        except Exception as error:  # noqa: BLE001 - whatever it is, events must arrive again soon
            reason = str(error) or type(error).__name__
            if reason != last_error:  # not at every try: a store may be away for hours
                _log.warning("no subscription to %s yet: %s", to, reason)
            last_error = reason
            await asyncio.sleep(_RETRY_EVERY)
        else:
            break
    resumed()
    while not is_heard:
        await asyncio.sleep(deaf_every)
        resumed()
