"""Projects in the database. What somebody may do with one, they may in its application."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from leasehold.errors import NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import MemberRow, ProjectRow, new_id
from leasehold.server.ids import is_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Role
    from leasehold.server.http.paging import Slice


class Projects:
    """Each method raises `NotFound` if there is no such thing, and `NotAllowed` if the user's role is too little."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def add(self, name: str, *, application_id: str, user_id: str) -> ProjectRow:
        """For editors: a new project."""
        project = ProjectRow(id=new_id(), application_id=application_id, name=name, created_at=time.time())
        try:
            async with writing(self._sessions) as session:
                await require_role(session, user_id, application_id, "editor")
                session.add(project)
        except IntegrityError:  # it was deleted meanwhile
            raise NotFound("there is no such application") from None
        return project

    async def of_user(
        self, user_id: str, *, application_id: str | None, which: Slice
    ) -> Sequence[ProjectRow]:
        """Those that the user may see, by name; of one application, if it is given."""
        wanted = (
            select(ProjectRow)
            .join(MemberRow, MemberRow.application_id == ProjectRow.application_id)
            .where(MemberRow.user_id == user_id)
            .order_by(ProjectRow.name, ProjectRow.id)
        )
        if application_id is not None:
            wanted = wanted.where(ProjectRow.application_id == application_id)
        async with reading(self._sessions) as session:
            return [row[0] for row in await session.execute(which.of(wanted))]

    async def get(self, project_id: str, *, user_id: str) -> ProjectRow:
        """For members."""
        async with reading(self._sessions) as session:
            return await require_project(session, user_id, project_id, "viewer")


async def require_project(session: AsyncSession, user_id: str, project_id: str, needs: Role) -> ProjectRow:
    """The project, if the user's role is enough."""
    project = await session.get(ProjectRow, project_id) if is_id(project_id) else None
    if project is None:
        raise NotFound("there is no such project")
    await require_role(session, user_id, project.application_id, needs)
    return project
