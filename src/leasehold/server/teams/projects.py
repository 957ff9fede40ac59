"""Queries of projects. The permissions in a project are those in its application."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from leasehold.errors import NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import MemberRow, ProjectRow, new_id
from leasehold.server.http.fields import is_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.auth.dependencies import Caller
    from leasehold.server.http.paging import PageQuery


class Projects:
    """Methods raise `NotFound` for an unknown object, and `NotAllowed` if ``by`` has too low a role."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def add(self, name: str, *, application_id: str, by: Caller) -> ProjectRow:
        """Create a project."""
        project = ProjectRow(id=new_id(), application_id=application_id, name=name, created_at=time.time())
        try:
            async with writing(self._database) as db:
                await require_role(db, application_id, by)
                db.add(project)
        except IntegrityError:  # the application has just been deleted
            raise NotFound("application not found") from None
        return project

    async def of_user(
        self, user_id: str, *, application_id: str | None, page: PageQuery
    ) -> Sequence[ProjectRow]:
        """The projects of the user's applications, or of one of them, by name."""
        wanted = (
            select(ProjectRow)
            .join(MemberRow, MemberRow.application_id == ProjectRow.application_id)
            .where(MemberRow.user_id == user_id)
            .order_by(ProjectRow.name, ProjectRow.id)
        )
        if application_id is not None:
            wanted = wanted.where(ProjectRow.application_id == application_id)
        async with reading(self._database) as db:
            return [row[0] for row in await db.execute(page.apply(wanted))]

    async def get(self, project_id: str, *, by: Caller) -> ProjectRow:
        """The project."""
        async with reading(self._database) as db:
            return await require_project(db, project_id, by)


async def require_project(db: AsyncSession, project_id: str, by: Caller) -> ProjectRow:
    """The project; `NotAllowed` if the caller's role in its application is too low."""
    project = await db.get(ProjectRow, project_id) if is_id(project_id) else None
    if project is None:
        raise NotFound("project not found")
    await require_role(db, project.application_id, by)
    return project
