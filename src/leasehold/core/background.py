"""Background work: started once, and its unexpected errors logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidRequest, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.ports import Concurrency

_log = logging.getLogger("leasehold")


class BackgroundLoop:
    """Runs ``loop`` in the background, once, however many callers start it at the same time.

    The loop itself notes that it runs, not its starter: a signal handler may raise in the starter, before it has
    started anything or before it knows that it has. So there may be a second start, which ends at once.
    """

    def __init__(self, concurrency: Concurrency, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._concurrency = concurrency
        self._loop = loop
        self._first: list[object] = []
        self._is_started = False

    def start(self) -> None:
        """Start the loop, unless it has been started."""
        if not self._is_started:
            self._concurrency.background(self._run)
            self._is_started = True

    async def _run(self) -> None:
        mine = object()
        self._first.append(mine)
        if self._first[0] is mine:
            await self._loop()


def report_unexpected(error: Exception, where: str = "while renewing or cleaning up") -> None:
    """Log ``error``, unless it is expected: while the store cannot be reached, or when the client has been closed."""
    if not isinstance(error, StoreError | InvalidRequest):
        _log.error("unexpected error %s", where, exc_info=error)
