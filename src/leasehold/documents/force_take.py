"""Taking a lock by force: the holder is asked to save, and has a few seconds for that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.documents.outcomes import Busy, Granted
from leasehold.documents.store.fence_registration import above
from leasehold.errors import StaleFence
from leasehold.runtime import clock

if TYPE_CHECKING:
    from leasehold.documents.state import Editor, LockState
    from leasehold.documents.store.fence_registration import Registrar
    from leasehold.documents.store.lock_store import Ledger, Verdict
    from leasehold.documents.timings import Times

# How often to look although nothing was heard: what is told may get lost, and with some stores nothing is heard.
_LOOK_EVERY = 0.1


class ForceTake:
    """One force-take: looks, with one script, until it is decided.

    That script also marks what somebody holds and takes it when the time has come, so a look whose answer was lost
    is simply followed by another. What is in force stays in the store: whoever dies here leaves a mark that runs out.
    """

    def __init__(
        self, ledger: Ledger, registrar: Registrar, document_id: str, taker: Editor, *, ask: str, times: Times
    ) -> None:
        self._ledger = ledger
        self._registrar = registrar
        self._document_id = document_id
        self._taker = taker
        self._ask = ask
        self._floor = 0
        self._expect_fence: int | None = None
        self._handed: tuple[int, bool] | None = None
        # Others may take and give up, one after another; nobody waits for all of them.
        self._give_up_at = clock.now() + 3 * (times.save_within + 1)

    async def run(self, news: asyncio.Event) -> Granted | Busy:
        """The outcome. ``news`` is set whenever the document's lock may have changed."""
        while True:
            news.clear()
            verdict, state = await self._look()
            if verdict == "busy" or (verdict == "asked" and clock.now() > self._give_up_at):
                return Busy(state)
            # From the first look on it is about this hold: whoever gets the lock after it was faster.
            self._expect_fence = state.version.fence
            if verdict == "asked":
                # Not `wait_for`: in Python 3.11 that swallows a cancellation that comes with the news.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_pause(state)):
                        await news.wait()
            elif granted := await self._accept(verdict, state):
                return granted

    async def _look(self) -> tuple[Verdict, LockState]:
        return await self._ledger.take(
            self._document_id, self._taker, ask=self._ask, floor=self._floor, expect_fence=self._expect_fence
        )

    async def _accept(self, verdict: Verdict, state: LockState) -> Granted | None:
        """The grant, registered and claimed; None if it came to nothing and must be looked at again."""
        fence = state.version.fence
        if verdict != "granted":
            self._handed = fence, verdict == "saved"
        try:
            content_version = await self._registrar.register(state, self._taker)
        except StaleFence as stale:
            self._floor = above(stale, self._floor)
            return None
        if verdict != "granted":
            verdict, state = await self._ledger.claim(self._document_id, ask=self._ask)
        if verdict != "granted":
            return None
        if self._handed is None:
            return Granted(state, content_version)
        # Of the hold that was handed over. Where that came to nothing, somebody may have held it and not saved since.
        handed_fence, was_saved = self._handed
        return Granted(state, content_version, saved=was_saved and handed_fence == fence)


def _pause(state: LockState) -> float:
    """Until the next look: when the holder's time is over, but no longer than usual."""
    assert state.taking is not None
    assert state.held_until is not None
    left = min(state.taking.save_until, state.held_until) - state.read_at
    return min(left, _LOOK_EVERY) if left > 0 else _LOOK_EVERY
