"""Takes a lock by force, after the holder was asked to save and had a few seconds for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.documents.outcomes import Busy, Granted
from leasehold.documents.store.fence_registration import floor_after
from leasehold.errors import StaleFence
from leasehold.runtime import clock

if TYPE_CHECKING:
    from leasehold.documents.state import Editor, LockState
    from leasehold.documents.store.fence_registration import FenceRegistration
    from leasehold.documents.store.lock_store import DocumentLockStore, Verdict
    from leasehold.documents.timings import Times

# How often to poll: an event may be lost, and with some stores there are none.
_POLL_EVERY = 0.1


class ForceTake:
    """One force-take: runs one script again and again until the take is decided.

    That script also marks a held lock and takes it when the time has come, so that a call whose reply was lost is
    simply followed by another. All state is in the store: a process that dies here leaves a mark that expires.
    """

    def __init__(
        self,
        lock_store: DocumentLockStore,
        registration: FenceRegistration,
        document_id: str,
        taker: Editor,
        *,
        ask: str,
        times: Times,
    ) -> None:
        self._lock_store = lock_store
        self._registration = registration
        self._document_id = document_id
        self._taker = taker
        self._ask = ask
        self._floor = 0
        self._expect_fence: int | None = None
        self._handed: tuple[int, bool] | None = None
        # Other editors may take and give up, one after another; this call does not wait for all of them.
        self._give_up_at = clock.now() + 3 * (times.save_within + 1)

    async def run(self, changed: asyncio.Event) -> Granted | Busy:
        """The outcome. ``changed`` is set whenever the document's lock may have changed."""
        while True:
            changed.clear()
            verdict, state = await self._try_take()
            if verdict == "busy" or (verdict == "asked" and clock.now() > self._give_up_at):
                return Busy(state)
            # From the first reply on the take is about this hold: if another follows it, its holder was faster.
            self._expect_fence = state.version.fence
            if verdict == "asked":
                # Not `wait_for`: in Python 3.11 that swallows a cancellation that comes with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_pause(state)):
                        await changed.wait()
            elif granted := await self._accept(verdict, state):
                return granted

    async def _try_take(self) -> tuple[Verdict, LockState]:
        return await self._lock_store.take(
            self._document_id, self._taker, ask=self._ask, floor=self._floor, expect_fence=self._expect_fence
        )

    async def _accept(self, verdict: Verdict, state: LockState) -> Granted | None:
        """The grant, registered and claimed; None if that failed and the take must be tried again."""
        fence = state.version.fence
        if verdict != "granted":
            self._handed = fence, verdict == "saved"
        try:
            content_version = await self._registration.register(state, self._taker)
        except StaleFence as stale:
            self._floor = floor_after(stale, self._floor)
            return None
        if verdict != "granted":
            verdict, state = await self._lock_store.claim(self._document_id, ask=self._ask)
        if verdict != "granted":
            return None
        if self._handed is None:
            return Granted(state, content_version)
        # Of the hold that was handed over. If that failed, another editor may have held it and not saved since.
        handed_fence, was_saved = self._handed
        return Granted(state, content_version, saved=was_saved and handed_fence == fence)


def _pause(state: LockState) -> float:
    """Until the next try: when the holder's time is over, but no longer than usual."""
    assert state.taking is not None
    assert state.held_until is not None
    left = min(state.taking.save_until, state.held_until) - state.read_at
    return min(left, _POLL_EVERY) if left > 0 else _POLL_EVERY
