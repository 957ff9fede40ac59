"""Deletion of a document, a project or an application, unless another user is editing one of its documents."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, or_, select

from leasehold.errors import LockBusy, NotFound, StoreError, StoreUnavailable
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, DocumentRow, ProjectRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import Editor, LockState

_BATCH = 200
_TRIES = 5


class Deletion:
    """The caller checks the permission. Methods return the lock that another user holds, having deleted nothing, or None.

    No work is lost in between: the locks are read after the fences, a grant is registered before it is reported, and
    nothing is deleted if there is a new fence by then.
    """

    def __init__(self, database: async_sessionmaker[AsyncSession], locks: DocumentLocks) -> None:
        self._database = database
        self._locks = locks

    async def document(self, document_id: str, *, by: Editor) -> LockState | None:
        """The document with its versions and drafts."""
        return await self._delete(DocumentRow, document_id, [DocumentRow.id == document_id], by)

    async def project(self, project_id: str, *, by: Editor) -> LockState | None:
        """The project with its documents."""
        return await self._delete(ProjectRow, project_id, [DocumentRow.project_id == project_id], by)

    async def application(self, application_id: str, *, by: Editor) -> LockState | None:
        """The application with its members, projects and documents."""
        projects = select(ProjectRow.id).where(ProjectRow.application_id == application_id)
        inside = or_(DocumentRow.application_id == application_id, DocumentRow.project_id.in_(projects))
        return await self._delete(ApplicationRow, application_id, [inside], by)

    async def _delete(
        self, table: type[Any], row_id: str, inside: Sequence[ColumnElement[bool]], by: Editor
    ) -> LockState | None:
        fences = select(DocumentRow.id, DocumentRow.fence).where(*inside)
        for _ in range(_TRIES):
            async with reading(self._database) as db:
                seen = set(await db.execute(fences))
            states = await self._states([row.id for row in seen])
            for state in states:
                if state.holder is not None and state.holder.editor.user_id != by.user_id:
                    return state
            async with writing(self._database) as db:
                await _lock(db, table, row_id)
                if set(await db.execute(fences.with_for_update())) == seen:
                    await db.execute(delete(table).where(table.id == row_id))
                    break
        else:
            raise LockBusy(row_id)
        await self._release(states, by)
        return None

    async def _states(self, document_ids: list[str]) -> list[LockState]:
        batches = [document_ids[start : start + _BATCH] for start in range(0, len(document_ids), _BATCH)]
        states = [state for batch in batches for state in await self._locks.states(batch)]
        if len(states) < len(document_ids):
            raise StoreUnavailable("the locks of some documents cannot be read")
        return states

    async def _release(self, states: list[LockState], editor: Editor) -> None:
        """Release the locks of this tab. Those of the user's other tabs expire."""
        with suppress(StoreError):
            for state in states:
                if state.is_held_by(editor):
                    await self._locks.release(state.document_id, editor)


async def _lock(db: AsyncSession, table: type[Any], row_id: str) -> None:
    """Keep rows from being added to it and to its parts."""
    if await db.scalar(select(table.id).where(table.id == row_id).with_for_update()) is None:
        raise NotFound("already deleted")
    if table is ApplicationRow:
        parts = select(ProjectRow.id).where(ProjectRow.application_id == row_id).with_for_update()
        await db.execute(parts)
