"""The query of the documents that are locked now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from leasehold.server.db.engine import reading
from leasehold.server.db.models import ApplicationRow, DocumentRow, MemberRow, ProjectRow
from leasehold.server.teams.access import SCOPE

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import LockState
    from leasehold.server.http.paging import PageQuery

_BATCH = 200
_MAX_ROWS = 2000


@dataclass(frozen=True, slots=True)
class LockedDocuments:
    """Documents with their locks; ``next_offset`` is None at the end."""

    locked: list[tuple[Row[*tuple[Any, ...]], LockState]]
    next_offset: int | None


async def find_locked_documents(
    database: async_sessionmaker[AsyncSession], locks: DocumentLocks, *, owner_id: str, page: PageQuery
) -> LockedDocuments:
    """At most ``page.limit`` locked documents of the applications that ``owner_id`` owns.

    Offsets count the documents that were ever locked, by their newest grant. One call does not read all of them.
    """
    found: list[tuple[Row[*tuple[Any, ...]], LockState]] = []
    offset = page.offset
    while offset < page.offset + _MAX_ROWS:
        async with reading(database) as db:
            rows = (await db.execute(_candidates(owner_id).limit(_BATCH).offset(offset))).all()
        states = {state.document_id: state for state in await locks.states([row.document_id for row in rows])}
        for row in rows:
            offset += 1
            state = states.get(row.document_id)
            if state is not None and state.is_locked:
                found.append((row, state))
                if len(found) == page.limit:
                    return LockedDocuments(found, offset)
        if len(rows) < _BATCH:
            return LockedDocuments(found, None)
    return LockedDocuments(found, offset)


def _candidates(owner_id: str) -> Any:
    return (
        select(
            DocumentRow.id.label("document_id"),
            DocumentRow.title,
            SCOPE.label("application_id"),
            ApplicationRow.name.label("application_name"),
            DocumentRow.project_id,
        )
        .select_from(DocumentRow)
        .outerjoin(ProjectRow, ProjectRow.id == DocumentRow.project_id)
        .join(ApplicationRow, ApplicationRow.id == SCOPE)
        .join(MemberRow, MemberRow.application_id == ApplicationRow.id)
        .where(MemberRow.user_id == owner_id, MemberRow.role == "owner", DocumentRow.fence > 0)
        # Locked documents tend to have the newest grants.
        .order_by(DocumentRow.fence.desc(), DocumentRow.id)
    )
