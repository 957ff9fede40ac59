"""Logs when a store becomes unavailable and when it is available again, once for all callers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.errors import StoreUnavailable
from leasehold.runtime.outages import OutageTracker
from leasehold.valkey.transport.error_mapping import fault_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
_log = logging.getLogger("leasehold.files")


class OutageLog:
    """The outages of one store.

    ``where`` is its name in the log, ``store`` its name in errors (`StoreUnavailable.store`): errors of another
    store are no evidence about this one.
    """

    def __init__(self, where: str, *, store: str = "") -> None:
        self._where = where or "the store"
        self._store = store
        self._tracker = OutageTracker()

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``. Its success or failure is evidence about the store."""
        began_at = self._tracker.now()
        try:
            result = await work
        except StoreUnavailable as error:
            if error.store == self._store and self._tracker.record_failure(began_at):
                fault = fault_of(error)
                # The code and the place only: a driver's message may quote what was sent.
                _log.warning(
                    "unavailable: %s cannot be reached (%s); file locks are refused until it can",
                    self._where,
                    fault and fault.code,
                )
            raise
        if self._tracker.record_answer(began_at):
            _log.warning("available again: %s", self._where)
        return result
