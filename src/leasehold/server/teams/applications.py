"""Applications in the database, and what their members may do with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select

from leasehold.errors import NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, MemberRow, new_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Role
    from leasehold.server.http.paging import Slice


class Applications:
    """Each method raises `NotFound` if there is no such application and `NotAllowed` if the role is too little."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def add(self, name: str, *, owner_id: str) -> ApplicationRow:
        """A new application with one member, its owner."""
        now = time.time()
        application = ApplicationRow(id=new_id(), name=name, created_at=now)
        async with writing(self._sessions) as session:
            session.add(application)
            await session.flush()
            session.add(
                MemberRow(application_id=application.id, user_id=owner_id, role="owner", created_at=now)
            )
        return application

    async def of_user(self, user_id: str, *, which: Slice) -> Sequence[Row[ApplicationRow, Role]]:
        """Those that the user is a member of, with the role, by name."""
        wanted = (
            select(ApplicationRow, MemberRow.role)
            .join(MemberRow, MemberRow.application_id == ApplicationRow.id)
            .where(MemberRow.user_id == user_id)
            .order_by(ApplicationRow.name, ApplicationRow.id)
        )
        async with reading(self._sessions) as session:
            return (await session.execute(which.of(wanted))).all()

    async def get(self, application_id: str, *, user_id: str) -> tuple[ApplicationRow, Role]:
        """For members: the application, and the user's role in it."""
        async with reading(self._sessions) as session:
            role = await require_role(session, user_id, application_id, "viewer")
            return await _get(session, application_id), role

    async def rename(self, application_id: str, name: str, *, user_id: str) -> tuple[ApplicationRow, Role]:
        """For owners."""
        async with writing(self._sessions) as session:
            role = await require_role(session, user_id, application_id, "owner")
            application = await _get(session, application_id)
            application.name = name
            return application, role


async def _get(session: AsyncSession, application_id: str) -> ApplicationRow:
    application = await session.get(ApplicationRow, application_id)
    if application is None:
        raise NotFound("there is no such application")
    return application
