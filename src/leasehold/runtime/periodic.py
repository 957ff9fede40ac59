"""Work that comes round again and again, and must not end because it failed once."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("leasehold")


async def every(seconds: Callable[[], float], work: Callable[[], Awaitable[None]], what: str) -> None:
    """Do ``work`` after every ``seconds()``, for ever; ``what`` it is for, in the log."""
    while True:
        await asyncio.sleep(seconds())
        try:
            await work()
        except StoreError as error:
            _log.warning("%s: %s", what, error)
        except Exception:  # noqa: BLE001 - whatever it is, the next round comes
            _log.exception("%s", what)
