"""Permissions: by membership in an application, or as the owner of a personal document."""

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
from leasehold.server.http.fields import is_id

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.auth.dependencies import Caller


class SqlAccessPolicy(AccessPolicy):
    """Reads permissions in one query each time, so that a change takes effect at once in every worker."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def access(self, user_id: str, document_id: str) -> Access | None:
        """What the user may do with the document; None if there is no such document."""
        if not is_id(document_id):
            return None
        parameters = {"user_id": user_id, "document_id": document_id}
        async with reading_rows(self._database) as connection:
            row = (await connection.execute(_DOCUMENT, parameters)).one_or_none()
        return None if row is None else access_of(row, user_id)


def access_of(row: Any, user_id: str) -> Access:
    """The user's access, by the ``owner_id``, ``scope`` and ``role`` of a row."""
    if row.scope is None:
        return Access("owner" if row.owner_id == user_id else None, is_personal=True)
    return Access(row.role)


async def require_role(db: AsyncSession, application_id: str, by: Caller) -> Role:
    """The caller's role in the application. `NotFound` if there is none, `NotAllowed` for a role below the needed one."""
    row = None
    if is_id(application_id):
        parameters = {"user_id": by.user_id, "application_id": application_id}
        row = (await db.execute(_APPLICATION, parameters)).one_or_none()
    if row is None:
        raise NotFound("application not found")
    role: Role | None = row.role
    if role is None or not may(Access(role), by.needs):
        facts = {"application_id": application_id, "needs": by.needs, "why": f"role {role}"}
        audit.note("access_refused", person=Person(by.user_id, ""), **facts)
        raise NotAllowed(f"this needs the role {by.needs} in this application")
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
