"""Databases with users and documents, without the application."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from leasehold.documents.state import Editor
from leasehold.server.db.engine import close_engine, open_engine, reading, session_factory, writing
from leasehold.server.db.models import (
    ApplicationRow,
    DocumentRow,
    DraftRow,
    MemberRow,
    ProjectRow,
    UserRow,
    VersionRow,
    new_id,
)
from leasehold.server.documents.content import decode_content, encode_content

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasehold.server.db.models import Row

Database = async_sessionmaker[AsyncSession]

NOW = time.time()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """Opens sessions on the migrated database at ``url``."""
    engine = open_engine(url)
    try:
        yield session_factory(engine)
    finally:
        await close_engine(engine)


async def add_user(sessions: Database, name: str, tab: str = "") -> Editor:
    user = UserRow(
        id=new_id(), email=f"{new_id()}@example.com", display_name=name, password_hash="none", created_at=NOW
    )
    async with writing(sessions) as session:
        session.add(user)
    return Editor(user.id, name, tab)


async def add_application(sessions: Database, **roles: list[Editor]) -> str:
    """`add_application(sessions, owner=[ana], viewer=[ben, cem])`."""
    application = ApplicationRow(id=new_id(), name="Maps", created_at=NOW)
    async with writing(sessions) as session:
        session.add(application)
        await session.flush()
        for role, people in roles.items():
            for person in people:
                session.add(
                    MemberRow(
                        application_id=application.id, user_id=person.user_id, role=role, created_at=NOW
                    )
                )
    return application.id


async def add_project(sessions: Database, application_id: str) -> str:
    project = ProjectRow(id=new_id(), application_id=application_id, name="Coast", created_at=NOW)
    async with writing(sessions) as session:
        session.add(project)
    return project.id


async def add_document(
    sessions: Database, owner: Editor, *, application_id: str | None = None, project_id: str | None = None
) -> str:
    document = DocumentRow(
        id=new_id(),
        title="Plan",
        owner_id=owner.user_id,
        application_id=application_id,
        project_id=project_id,
        content=encode_content(""),
        created_at=NOW,
        updated_at=NOW,
        updated_by=owner.user_id,
    )
    async with writing(sessions) as session:
        session.add(document)
    return document.id


async def document_of(sessions: Database, document_id: str) -> DocumentRow:
    async with reading(sessions) as session:
        found = await session.get(DocumentRow, document_id)
    assert found is not None
    return found


async def versions_of(sessions: Database, document_id: str) -> list[VersionRow]:
    """Oldest first."""
    wanted = select(VersionRow).where(VersionRow.document_id == document_id).order_by(VersionRow.number)
    async with reading(sessions) as session:
        return list(await session.scalars(wanted))


async def drafts_of(sessions: Database, document_id: str) -> list[DraftRow]:
    async with reading(sessions) as session:
        return list(await session.scalars(select(DraftRow).where(DraftRow.document_id == document_id)))


async def texts_of(sessions: Database, document_id: str) -> list[object]:
    return [decode_content(version.content) for version in await versions_of(sessions, document_id)]


async def count_of(sessions: Database, table: type[Row]) -> int:
    async with reading(sessions) as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0
