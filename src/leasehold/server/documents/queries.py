"""The documents that somebody can see, and what is true of them besides their content's history."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, or_, select, update
from sqlalchemy.exc import IntegrityError

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.ports import Access, AccessPolicy
from leasehold.errors import NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import DocumentRow, MemberRow, ProjectRow, UserRow, new_id
from leasehold.server.documents.content import encode_content
from leasehold.server.ids import is_id
from leasehold.server.teams.access import SCOPE, access_of, require_role, select_documents
from leasehold.server.teams.projects import require_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row, Select
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.http.paging import Slice

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
    """What somebody may change is asked before; what they read here they may see."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def add(
        self, title: str, *, owner_id: str, application_id: str | None, project_id: str | None
    ) -> str:
        """The id of a new, empty document. `NotFound` and `NotAllowed` if the owner cannot edit where it belongs."""
        now = time.time()
        document = DocumentRow(
            id=new_id(),
            title=title,
            owner_id=owner_id,
            application_id=application_id,
            project_id=project_id,
            content=encode_content(""),
            created_at=now,
            updated_at=now,
            updated_by=owner_id,
        )
        try:
            async with writing(self._sessions) as session:
                if application_id is not None:
                    await require_role(session, owner_id, application_id, "editor")
                if project_id is not None:
                    await require_project(session, owner_id, project_id, "editor")
                session.add(document)
        except IntegrityError:  # it was deleted meanwhile
            raise NotFound("there is no such application or project") from None
        return document.id

    async def of_user(
        self,
        user_id: str,
        *,
        which: Slice,
        application_id: str | None = None,
        project_id: str | None = None,
        personal: bool | None = None,
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Those that the user may see, newest change first."""
        wanted = _seen_by_user(select_documents(*_SHOWN))
        if application_id is not None:
            wanted = wanted.where(SCOPE == application_id)  # noqa: SIM300 - the column comes first
        if project_id is not None:
            wanted = wanted.where(DocumentRow.project_id == project_id)
        if personal is not None:
            wanted = wanted.where(SCOPE.is_(None) if personal else SCOPE.is_not(None))
        wanted = wanted.order_by(DocumentRow.updated_at.desc(), DocumentRow.id)
        async with reading(self._sessions) as session:
            return (await session.execute(which.of(wanted), {"user_id": user_id})).all()

    async def get(self, document_id: str, *, user_id: str) -> Row[*tuple[Any, ...]]:
        """For viewers: the document as it is, with the user's role in it."""
        found = _Found(self._sessions)
        await PermissionCheck(found).check(user_id, document_id, "viewer")
        return found.row

    async def rename(self, document_id: str, title: str, *, user_id: str) -> None:
        """Another title. That is a change of the document, but no new version."""
        changed = {"title": title, "updated_at": time.time(), "updated_by": user_id}
        async with writing(self._sessions) as session:
            await session.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(changed))


class _Found(AccessPolicy):
    """A document that is read together with what the reader may do: in one query, so that both are true at once."""

    row: Row[*tuple[Any, ...]]

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def access(self, user_id: str, document_id: str) -> Access | None:
        if not is_id(document_id):
            return None
        asked = {"document_id": document_id, "user_id": user_id}
        async with reading(self._sessions) as session:
            row = (await session.execute(_ONE, asked)).one_or_none()
        if row is None:
            return None
        self.row = row
        return access_of(row, user_id)


def _seen_by_user(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    # As lists of ids, which have an index each: by the joined membership every document of everybody would be read.
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
