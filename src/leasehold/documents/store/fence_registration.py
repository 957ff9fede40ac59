"""From a grant in the store of locks to one that can be reported: its fence is registered with the document."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.documents.ports import Grant
from leasehold.errors import StaleFence, StoreError

if TYPE_CHECKING:
    from leasehold.documents.ports import DocumentStore
    from leasehold.documents.state import Editor, LockState
    from leasehold.documents.store.lock_store import Ledger

_log = logging.getLogger("leasehold")

# How long somebody who has been cancelled waits until what they asked for is undone; it goes on without them.
_UNDO_WITHIN = 2.0


class Registrar:
    """Registers grants, and undoes those that come to nothing."""

    def __init__(self, ledger: Ledger, store: DocumentStore) -> None:
        self._ledger = ledger
        self._store = store
        self._undoing: set[asyncio.Task[None]] = set()

    async def register(self, state: LockState, editor: Editor) -> int:
        """The document's version, now that no save under an older fence becomes one.

        `StaleFence` if the document has seen a newer one; the hold has been given back then.
        """
        fence = state.version.fence
        try:
            return await self._store.register(Grant(state.document_id, editor, fence))
        except StaleFence:
            await self._ledger.release(state.document_id, editor, reason="released", fence=fence)
            raise

    async def undo(self, document_id: str, ask: str) -> None:
        """Undo whatever the call ``ask`` may have brought about. It is waited for, but not for long."""
        task = asyncio.get_running_loop().create_task(self._undo(document_id, ask))
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)
        await asyncio.wait({task}, timeout=_UNDO_WITHIN)

    async def _undo(self, document_id: str, ask: str) -> None:
        try:
            await self._ledger.withdraw(document_id, ask=ask)
        except StoreError as error:
            _log.warning(
                "what was asked for %r could not be undone, so it will run out: %s", document_id, error
            )


def above(stale: StaleFence, floor: int) -> int:
    """The floor for another try, after a grant of at least ``floor`` was too old for the document.

    That happens if somebody came between, and if the store of locks has lost its data while its clock was set back.
    """
    if stale.seen < floor:
        raise stale  # what is above everything it has seen is refused as well: it would never end
    return stale.seen + 1
