"""Periodic work that goes on after an error."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("leasehold")


async def every(seconds: Callable[[], float], work: Callable[[], Awaitable[None]], what: str) -> None:
    """Do ``work`` after every ``seconds()``, for ever; ``what`` names it in the log."""
    while True:
        await asyncio.sleep(seconds())
        try:
            await work()
        except StoreError as error:
            _log.warning("%s: %s", what, error)
        except Exception:  # noqa: BLE001 - the next round comes after any error
            _log.exception("%s", what)
