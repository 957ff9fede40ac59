"""Who may do what: by membership in an application, or as the owner of a personal document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, func, select

from leasehold.documents import audit
from leasehold.documents.access_control import may
from leasehold.documents.ports import Access, AccessPolicy, Role
from leasehold.documents.state import Person
from leasehold.errors import NotAllowed, NotFound
from leasehold.server.db.engine import reading_rows
from leasehold.server.db.models import ApplicationRow, DocumentRow, MemberRow, ProjectRow
from leasehold.server.ids import is_id

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker


class SqlAccessPolicy(AccessPolicy):
    """Asks the database every time, in one query: a right that has ended is over at once, in every worker."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def access(self, user_id: str, document_id: str) -> Access | None:
        """What the user may do with the document; None if there is no such document."""
        if not is_id(document_id):
            return None
        asked = {"user_id": user_id, "document_id": document_id}
        async with reading_rows(self._sessions) as connection:
            found = (await connection.execute(_DOCUMENT, asked)).one_or_none()
        return None if found is None else access_of(found, user_id)


def access_of(found: Any, user_id: str) -> Access:
    """What the user may do, by the ``owner_id``, ``scope`` and ``role`` of what was found."""
    if found.scope is None:
        return Access("owner" if found.owner_id == user_id else None, is_personal=True)
    return Access(found.role)


async def require_role(session: AsyncSession, user_id: str, application_id: str, needs: Role) -> Role:
    """The user's role in the application. `NotFound` without such an application, `NotAllowed` if it is too little."""
    found = None
    if is_id(application_id):
        asked = {"user_id": user_id, "application_id": application_id}
        found = (await session.execute(_APPLICATION, asked)).one_or_none()
    if found is None:
        raise NotFound("there is no such application")
    role: Role | None = found.role
    if role is None or not may(Access(role), needs):
        facts = {"application_id": application_id, "needs": needs, "why": f"role {role}"}
        audit.note("access_refused", person=Person(user_id, ""), **facts)
        raise NotAllowed(f"this needs the role {needs} in this application")
    return role


SCOPE: ColumnElement[str | None] = func.coalesce(DocumentRow.application_id, ProjectRow.application_id)
"""A document's application, its own or its project's; null for a personal one."""


def select_documents(*columns: Any) -> Select[*tuple[Any, ...]]:
    """Of documents, joined with their projects and with the membership of the parameter ``user_id``, if any.

    Always with ``owner_id``, ``scope`` and ``role``, for `access_of`.
    """
    mine = and_(MemberRow.application_id == SCOPE, MemberRow.user_id == bindparam("user_id"))
    return (
        select(DocumentRow.owner_id, SCOPE.label("scope"), MemberRow.role, *columns)
        .select_from(DocumentRow)
        .outerjoin(ProjectRow, ProjectRow.id == DocumentRow.project_id)
        .outerjoin(MemberRow, mine)
    )


_DOCUMENT = select_documents().where(DocumentRow.id == bindparam("document_id"))

_APPLICATION = (
    select(MemberRow.role)
    .select_from(ApplicationRow)
    .outerjoin(
        MemberRow,
        and_(MemberRow.application_id == ApplicationRow.id, MemberRow.user_id == bindparam("user_id")),
    )
    .where(ApplicationRow.id == bindparam("application_id"))
)
