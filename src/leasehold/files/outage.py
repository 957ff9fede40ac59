"""A word in the log when a store goes away, and one when it is back; not one for every caller."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import StoreUnavailable
from leasehold.valkey.transport.error_mapping import fault_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
_log = logging.getLogger("leasehold.files")


class Outage:
    """Whether a store was there when it was last asked.

    ``where`` is how it is called in the log, and ``store`` what its errors say (`StoreUnavailable.store`): those of
    another store say nothing about this one.
    """

    def __init__(self, where: str, *, store: str = "") -> None:
        self._where = where or "the store"
        self._store = store
        self._is_out = False

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``; what it raises says something about the store, too."""
        try:
            result = await work
        except StoreUnavailable as error:
            if error.store == self._store and not self._is_out:
                self._is_out = True
                fault = fault_of(error)
                # The code and the place only: what a driver says may quote what was sent.
                _log.warning(
                    "unavailable: %s cannot be reached (%s); file locks are refused until it can",
                    self._where,
                    fault and fault.code,
                )
            raise
        if self._is_out:
            self._is_out = False
            _log.warning("available again: %s", self._where)
        return result
