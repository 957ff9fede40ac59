"""Queries of documents, without their locks, versions and drafts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, or_, select, update
from sqlalchemy.exc import IntegrityError

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.ports import Access, AccessPolicy
from leasehold.errors import NotFound
from leasehold.server.auth.users import lock_account
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import DocumentRow, MemberRow, ProjectRow, UserRow, new_id
from leasehold.server.documents.content import encode_content
from leasehold.server.documents.quota import check_document_count
from leasehold.server.http.fields import is_id
from leasehold.server.teams.access import SCOPE, access_of, require_role, select_documents
from leasehold.server.teams.projects import require_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row, Select
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.auth.dependencies import Caller
    from leasehold.server.http.paging import PageQuery

_SHOWN = (
    DocumentRow.id,
    DocumentRow.title,
    DocumentRow.application_id,
    DocumentRow.project_id,
    DocumentRow.version,
    DocumentRow.created_at,
    DocumentRow.updated_at,
    DocumentRow.updated_by,
    UserRow.display_name.label("updated_by_name"),
)
_ONE = (
    select_documents(*_SHOWN, DocumentRow.content)
    .join(UserRow, UserRow.id == DocumentRow.updated_by)
    .where(DocumentRow.id == bindparam("document_id"))
)


class Documents:
    """Documents. Reads check the permission in their query; before other changes callers check it."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def add(
        self,
        title: str,
        *,
        by: Caller,
        application_id: str | None,
        project_id: str | None,
        max_per_owner: float,
    ) -> str:
        """Create an empty document; its id. `NotFound` or `NotAllowed` without the role in its application.

        `QuotaExceeded` if the caller has ``max_per_owner`` documents, and `NotSignedIn` if their account was deleted.
        """
        now = time.time()
        document = DocumentRow(
            id=new_id(),
            title=title,
            owner_id=by.user_id,
            application_id=application_id,
            project_id=project_id,
            content=encode_content(""),
            created_at=now,
            updated_at=now,
            updated_by=by.user_id,
        )
        try:
            async with writing(self._database) as db:
                if application_id is not None:
                    await require_role(db, application_id, by)
                if project_id is not None:
                    await require_project(db, project_id, by)
                await lock_account(db, by.user_id)
                await check_document_count(db, by.user_id, at_most=max_per_owner)
                db.add(document)
        except IntegrityError:  # its application or project has just been deleted
            raise NotFound("application or project not found") from None
        return document.id

    async def of_user(
        self,
        user_id: str,
        *,
        page: PageQuery,
        application_id: str | None = None,
        project_id: str | None = None,
        personal: bool | None = None,
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """The documents that the user may see, newest change first."""
        wanted = _seen_by_user(select_documents(*_SHOWN))
        if application_id is not None:
            wanted = wanted.where(SCOPE == application_id)  # noqa: SIM300 - the column comes first
        if project_id is not None:
            wanted = wanted.where(DocumentRow.project_id == project_id)
        if personal is not None:
            wanted = wanted.where(SCOPE.is_(None) if personal else SCOPE.is_not(None))
        wanted = wanted.order_by(DocumentRow.updated_at.desc(), DocumentRow.id)
        async with reading(self._database) as db:
            return (await db.execute(page.apply(wanted), {"user_id": user_id})).all()

    async def get(self, document_id: str, *, by: Caller) -> Row[*tuple[Any, ...]]:
        """The document, with the caller's role in it."""
        policy = _ReadingPolicy(self._database)
        await PermissionCheck(policy).check(by.user_id, document_id, by.needs)
        return policy.row

    async def rename(self, document_id: str, title: str, *, user_id: str) -> None:
        """Change the title. This makes no new version."""
        changed = {"title": title, "updated_at": time.time(), "updated_by": user_id}
        async with writing(self._database) as db:
            await db.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(changed))


class _ReadingPolicy(AccessPolicy):
    """Reads a document together with the user's access: in one query, so that they are consistent."""

    row: Row[*tuple[Any, ...]]

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def access(self, user_id: str, document_id: str) -> Access | None:
        if not is_id(document_id):
            return None
        parameters = {"document_id": document_id, "user_id": user_id}
        async with reading(self._database) as db:
            row = (await db.execute(_ONE, parameters)).one_or_none()
        if row is None:
            return None
        self.row = row
        return access_of(row, user_id)


def _seen_by_user(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    # By lists of ids, because each has an index: by the joined membership, every document would be read.
    applications = select(MemberRow.application_id).where(MemberRow.user_id == bindparam("user_id"))
    projects = select(ProjectRow.id).where(ProjectRow.application_id.in_(applications))
    is_personal = and_(DocumentRow.application_id.is_(None), DocumentRow.project_id.is_(None))
    return query.join(UserRow, UserRow.id == DocumentRow.updated_by).where(
        or_(
            DocumentRow.application_id.in_(applications),
            DocumentRow.project_id.in_(projects),
            and_(DocumentRow.owner_id == bindparam("user_id"), is_personal),
        )
    )
