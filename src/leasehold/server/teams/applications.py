"""Queries of applications."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select

from leasehold.errors import NotFound
from leasehold.server.auth.users import lock_account
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, MemberRow, new_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Role
    from leasehold.server.auth.dependencies import Caller
    from leasehold.server.http.paging import PageQuery


class Applications:
    """Methods raise `NotFound` for an unknown application, and `NotAllowed` if ``by`` has too low a role in it."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def add(self, name: str, *, owner_id: str) -> ApplicationRow:
        """Create an application with one member, its owner. `NotSignedIn` if the account was deleted."""
        now = time.time()
        application = ApplicationRow(id=new_id(), name=name, created_at=now)
        async with writing(self._database) as db:
            await lock_account(db, owner_id)
            db.add(application)
            await db.flush()
            db.add(MemberRow(application_id=application.id, user_id=owner_id, role="owner", created_at=now))
        return application

    async def of_user(self, user_id: str, *, page: PageQuery) -> Sequence[Row[ApplicationRow, Role]]:
        """The user's applications by name, with the user's role in each."""
        wanted = (
            select(ApplicationRow, MemberRow.role)
            .join(MemberRow, MemberRow.application_id == ApplicationRow.id)
            .where(MemberRow.user_id == user_id)
            .order_by(ApplicationRow.name, ApplicationRow.id)
        )
        async with reading(self._database) as db:
            return (await db.execute(page.apply(wanted))).all()

    async def get(self, application_id: str, *, by: Caller) -> tuple[ApplicationRow, Role]:
        """The application, and the caller's role in it."""
        async with reading(self._database) as db:
            role = await require_role(db, application_id, by)
            return await _get(db, application_id), role

    async def rename(self, application_id: str, name: str, *, by: Caller) -> tuple[ApplicationRow, Role]:
        """Give it another name."""
        async with writing(self._database) as db:
            role = await require_role(db, application_id, by)
            application = await _get(db, application_id)
            application.name = name
            return application, role


async def _get(db: AsyncSession, application_id: str) -> ApplicationRow:
    application = await db.get(ApplicationRow, application_id)
    if application is None:
        raise NotFound("application not found")
    return application
