"""Deleting a document, or all of a project or an application, unless somebody else edits one of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, or_, select

from leasehold.errors import LockBusy, NotFound, StoreError, StoreUnavailable
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, DocumentRow, ProjectRow
from leasehold.server.teams.access import require_role
from leasehold.server.teams.projects import require_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import Editor, LockState

_BATCH = 200
_TRIES = 5


class Deleting:
    """Each method answers with the lock of a document that somebody else edits, and has deleted nothing then.

    Nobody's work is lost in between: the locks are looked at after the fences were read, a grant is registered before
    it is told, and nothing is deleted if there is a fence that was not there before.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession], locks: DocumentLocks) -> None:
        self._sessions = sessions
        self._locks = locks

    async def document(self, document_id: str, *, by: Editor) -> LockState | None:
        """Whether ``by`` may is asked before."""
        return await self._delete(DocumentRow, document_id, [DocumentRow.id == document_id], by)

    async def project(self, project_id: str, *, by: Editor) -> LockState | None:
        """For owners of its application: the project with its documents."""
        async with reading(self._sessions) as session:
            await require_project(session, by.user_id, project_id, "owner")
        return await self._delete(ProjectRow, project_id, [DocumentRow.project_id == project_id], by)

    async def application(self, application_id: str, *, by: Editor) -> LockState | None:
        """For owners: the application with its members, projects and documents."""
        async with reading(self._sessions) as session:
            await require_role(session, by.user_id, application_id, "owner")
        projects = select(ProjectRow.id).where(ProjectRow.application_id == application_id)
        inside = or_(DocumentRow.application_id == application_id, DocumentRow.project_id.in_(projects))
        return await self._delete(ApplicationRow, application_id, [inside], by)

    async def _delete(
        self, table: type[Any], row_id: str, inside: Sequence[ColumnElement[bool]], by: Editor
    ) -> LockState | None:
        fences = select(DocumentRow.id, DocumentRow.fence).where(*inside)
        for _ in range(_TRIES):
            async with reading(self._sessions) as session:
                seen = set(await session.execute(fences))
            states = await self._states([row.id for row in seen])
            for state in states:
                if state.holder is not None and state.holder.editor.user_id != by.user_id:
                    return state
            async with writing(self._sessions) as session:
                await _lock(session, table, row_id)
                if set(await session.execute(fences.with_for_update())) == seen:
                    await session.execute(delete(table).where(table.id == row_id))
                    break
        else:
            raise LockBusy(row_id)
        await self._give_back(states, by)
        return None

    async def _states(self, document_ids: list[str]) -> list[LockState]:
        batches = [document_ids[start : start + _BATCH] for start in range(0, len(document_ids), _BATCH)]
        states = [state for batch in batches for state in await self._locks.states(batch)]
        if len(states) < len(document_ids):
            raise StoreUnavailable("whether somebody edits is not known of every document")
        return states

    async def _give_back(self, states: list[LockState], editor: Editor) -> None:
        """What is held of it here; what another tab holds runs out."""
        with suppress(StoreError):
            for state in states:
                if state.is_held_by(editor):
                    await self._locks.release(state.document_id, editor)


async def _lock(session: AsyncSession, table: type[Any], row_id: str) -> None:
    """Keep anything from being added to it, and to its parts."""
    if await session.scalar(select(table.id).where(table.id == row_id).with_for_update()) is None:
        raise NotFound("it has been deleted already")
    if table is ApplicationRow:
        parts = select(ProjectRow.id).where(ProjectRow.application_id == row_id).with_for_update()
        await session.execute(parts)
