"""Registers the fence of a grant with the document before the grant is reported."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.documents.ports import Grant
from leasehold.errors import StaleFence, StoreError

if TYPE_CHECKING:
    from leasehold.documents.ports import DocumentStore
    from leasehold.documents.state import Editor, LockState
    from leasehold.documents.store.lock_store import DocumentLockStore

_log = logging.getLogger("leasehold.documents")

# How long a cancelled caller waits until its call is undone; the undoing goes on without it.
_UNDO_WITHIN = 2.0


class FenceRegistration:
    """Registers grants, and undoes calls that failed."""

    def __init__(self, lock_store: DocumentLockStore, store: DocumentStore) -> None:
        self._lock_store = lock_store
        self._store = store
        self._undoing: set[asyncio.Task[None]] = set()

    async def register(self, state: LockState, editor: Editor) -> int:
        """The document's version, after which no save under an older fence becomes one.

        Releases the hold and raises `StaleFence` if the document has seen a newer fence.
        """
        fence = state.version.fence
        try:
            return await self._store.register(Grant(state.document_id, editor, fence))
        except StaleFence:
            await self._lock_store.release(state.document_id, editor, reason="released", fence=fence)
            raise

    async def undo(self, document_id: str, ask: str) -> None:
        """Undo every effect of the call ``ask``. Waits for that, but not for long."""
        task = asyncio.get_running_loop().create_task(self._undo(document_id, ask))
        self._undoing.add(task)
        task.add_done_callback(self._undoing.discard)
        await asyncio.wait({task}, timeout=_UNDO_WITHIN)

    async def _undo(self, document_id: str, ask: str) -> None:
        try:
            await self._lock_store.withdraw(document_id, ask=ask)
        except StoreError as error:
            _log.warning(
                "a failed call for the lock of %r was not undone; it expires: %s", document_id, error
            )


def floor_after(stale: StaleFence, floor: int) -> int:
    """The floor for another try, after a grant of at least ``floor`` was too old for the document.

    That happens if another grant came between, and if the lock store has lost its data while its clock was set back.
    """
    if stale.seen < floor:
        raise stale  # a fence above everything it has seen is refused as well: retries would never end
    return stale.seen + 1
