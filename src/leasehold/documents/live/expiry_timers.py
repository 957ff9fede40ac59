"""When to look at a lock again although nothing was heard: at the end of its hold, and of a mark on it."""

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

_log = logging.getLogger("leasehold")

# The store counts in milliseconds, and a look that comes a moment too early would have to be repeated.
_MARGIN = 0.02
# A mark counts a second longer than the holder may save; see the scripts.
_LAPSE = 1.0
_BATCH = 100
_RETRY = Backoff(first=0.1, cap=2)
_UNREADABLE_EVERY = 5.0


class Deadlines:
    """One timer for each lock that is watched, and a look at it when that has fired.

    ``reading`` is called before each look; what it returns is called with every state that was found by it.
    """

    def __init__(
        self,
        read: Callable[[Sequence[str]], Awaitable[Sequence[LockState]]],
        reading: Callable[[], Callable[[LockState], None]],
    ) -> None:
        self._read = read
        self._reading = reading
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: dict[str, None] = {}
        self._asked: dict[str, None] = {}
        self._looking: asyncio.Task[None] | None = None

    def set(self, state: LockState) -> None:
        """Look again when the next thing happens by time alone, in place of when that was to be before."""
        self._cancel(state.document_id)
        if state.held_until is None:
            return
        next_at = state.held_until
        if state.taking is not None:
            next_at = min(next_at, state.taking.save_until + _LAPSE)
        # Counted from when the state was read, on the store's own clock: ours may show anything.
        left = max(_MARGIN, next_at - state.read_at + _MARGIN)
        loop = asyncio.get_running_loop()
        self._timers[state.document_id] = loop.call_later(left, self._fire, state.document_id)

    def drop(self, document_id: str) -> None:
        """Look no more, unless somebody asks for it."""
        self._cancel(document_id)
        self._due.pop(document_id, None)
        self._asked.pop(document_id, None)

    def look(self, document_ids: Iterable[str]) -> None:
        """Look now, and again and again until there is an answer. What is looked at already is looked at once more:
        that answer may have been given before there was a reason to ask."""
        self._due.update(dict.fromkeys(document_ids))
        if self._due and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="leasehold-look")

    async def close(self) -> None:
        """Look no more at anything."""
        for document_id in tuple(self._timers):
            self._cancel(document_id)
        self._due.clear()
        self._asked.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def _cancel(self, document_id: str) -> None:
        timer = self._timers.pop(document_id, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, document_id: str) -> None:
        del self._timers[document_id]
        self.look([document_id])

    async def _look(self) -> None:
        failures, size = 0, _BATCH
        try:
            while self._due:
                batch = list(self._due)[:size]
                for document_id in batch:
                    del self._due[document_id]
                self._asked = dict.fromkeys(batch)
                learn = self._reading()
                try:
                    states = await self._read(batch)
                except StoreUnavailable as error:
                    self._put_back()
                    failures += 1
                    _log.warning("locks that are watched cannot be read now: %s", error)
                    await asyncio.sleep(_RETRY.pause(failures, random.random()))  # noqa: S311 - not a secret
                    continue
                except Exception:  # noqa: BLE001 - whatever it is, everything else must still be looked at
                    _log.exception("locks that are watched cannot be read")
                    states = ()
                    if len(batch) > 1:
                        self._put_back()
                        size = 1  # so that one of them does not hide the others
                        continue
                failures = 0
                self._found(states, learn)
        finally:
            self._looking = None

    def _put_back(self) -> None:
        """What was asked for in vain comes first."""
        self._due = self._asked | self._due
        self._asked = {}

    def _found(self, states: Sequence[LockState], learn: Callable[[LockState], None]) -> None:
        for state in states:
            self._asked.pop(state.document_id, None)
            try:
                learn(state)
            except Exception:  # noqa: BLE001 - whatever it is, everything else must still be learnt
                _log.exception("what was seen of %r could not be told", state.document_id)
        loop = asyncio.get_running_loop()
        # Without those that nobody watches any more: they were dropped meanwhile.
        for document_id in self._asked:
            # It cannot be read, by another version perhaps; that may change.
            self._cancel(document_id)
            self._timers[document_id] = loop.call_later(_UNREADABLE_EVERY, self._fire, document_id)
        self._asked = {}
