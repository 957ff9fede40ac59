"""Reads a lock again when its hold or a force-take on it expires, although no event has come."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from leasehold.core.backoff import Backoff
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from leasehold.documents.state import LockState

_log = logging.getLogger("leasehold.documents")

# The store counts in milliseconds, and a read that comes a moment too early would have to be repeated.
_MARGIN = 0.02
# A mark counts a second longer than the holder may save; see the scripts.
_LAPSE = 1.0
_BATCH = 100
_RETRY = Backoff(first=0.1, cap=2)
_UNREADABLE_EVERY = 5.0


class ExpiryTimers:
    """One timer for each watched lock, and a read when it fires.

    ``begin_read`` is called before each read; the function that it returns gets every state that was read.
    """

    def __init__(
        self,
        read: Callable[[Sequence[str]], Awaitable[Sequence[LockState]]],
        begin_read: Callable[[], Callable[[LockState], None]],
    ) -> None:
        self._read = read
        self._begin_read = begin_read
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: dict[str, None] = {}
        self._asked: dict[str, None] = {}
        self._reading: asyncio.Task[None] | None = None

    def set(self, state: LockState) -> None:
        """Read again when the state next changes by time alone; replaces the lock's timer."""
        self._cancel(state.document_id)
        if state.held_until is None:
            return
        next_at = state.held_until
        if state.taking is not None:
            next_at = min(next_at, state.taking.save_until + _LAPSE)
        # Counted from when the state was read, on the store's own clock: ours may be wrong.
        left = max(_MARGIN, next_at - state.read_at + _MARGIN)
        loop = asyncio.get_running_loop()
        self._timers[state.document_id] = loop.call_later(left, self._fire, state.document_id)

    def drop(self, document_id: str) -> None:
        """Cancel the timer and the pending read."""
        self._cancel(document_id)
        self._due.pop(document_id, None)
        self._asked.pop(document_id, None)

    def read_now(self, document_ids: Iterable[str]) -> None:
        """Read now, and again until the store answers. A lock that is being read is read once more: that reply may
        be older than the reason for this call."""
        self._due.update(dict.fromkeys(document_ids))
        if self._due and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_due(), name="leasehold-read")

    async def close(self) -> None:
        """End all timers and reads."""
        for document_id in tuple(self._timers):
            self._cancel(document_id)
        self._due.clear()
        self._asked.clear()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def _cancel(self, document_id: str) -> None:
        timer = self._timers.pop(document_id, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, document_id: str) -> None:
        del self._timers[document_id]
        self.read_now([document_id])

    async def _read_due(self) -> None:
        failures, size = 0, _BATCH
        try:
            while self._due:
                batch = list(self._due)[:size]
                for document_id in batch:
                    del self._due[document_id]
                self._asked = dict.fromkeys(batch)
                update = self._begin_read()
                try:
                    states = await self._read(batch)
                except StoreUnavailable as error:
                    self._put_back()
                    failures += 1
                    _log.warning("watched locks cannot be read now: %s", error)
                    await asyncio.sleep(_RETRY.pause(failures, random.random()))  # noqa: S311 - not a secret
                    continue
                except Exception:  # noqa: BLE001 - whatever it is, the other locks must still be read
                    _log.exception("watched locks cannot be read")
                    states = ()
                    if len(batch) > 1:
                        self._put_back()
                        size = 1  # so that one unreadable lock does not hide the others
                        continue
                failures = 0
                self._apply(states, update)
        finally:
            self._reading = None

    def _put_back(self) -> None:
        """The locks of the failed read come first."""
        self._due = self._asked | self._due
        self._asked = {}

    def _apply(self, states: Sequence[LockState], update: Callable[[LockState], None]) -> None:
        for state in states:
            self._asked.pop(state.document_id, None)
            try:
                update(state)
            except Exception:  # noqa: BLE001 - whatever it is, the other states must still be applied
                _log.exception("the new state of the lock of %r could not be sent", state.document_id)
        loop = asyncio.get_running_loop()
        # Without locks that are no longer watched: `drop` has removed them.
        for document_id in self._asked:
            # Unreadable, perhaps written by another version; that may change.
            self._cancel(document_id)
            self._timers[document_id] = loop.call_later(_UNREADABLE_EVERY, self._fire, document_id)
        self._asked = {}
