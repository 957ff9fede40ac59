"""A word in the log when the store goes away, and one when it is back; not one for every caller."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
_log = logging.getLogger("leasehold.files")


class Outage:
    """Whether the store was there when it was last asked."""

    def __init__(self, where: str) -> None:
        self._where = where or "the store"
        self._is_out = False

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``; what it raises says something about the store, too."""
        try:
            result = await work
        except StoreUnavailable as error:
            if not self._is_out:
                self._is_out = True
                # The kind and the place only: what a driver says may quote what was sent.
                cause = type(error.__cause__).__name__ if error.__cause__ else "no answer"
                _log.warning(
                    "unavailable: %s cannot be reached (%s); file locks are refused until it can",
                    self._where,
                    cause,
                )
            raise
        if self._is_out:
            self._is_out = False
            _log.warning("available again: %s", self._where)
        return result
