"""The demo data: a team of an owner, two editors and a viewer with an application."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, update
from sqlalchemy.exc import IntegrityError

from leasehold.server.app.demo_team import TEAM
from leasehold.server.auth.passwords import DEMO_MARK
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import (
    ApplicationRow,
    DocumentRow,
    LoginRow,
    MemberRow,
    ProjectRow,
    UserRow,
    VersionRow,
    new_id,
)
from leasehold.server.documents.content import encode_content

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.auth.passwords import Passwords
    from leasehold.server.db.models import Row


@dataclass(frozen=True, slots=True)
class _Text:
    title: str
    lines: tuple[str, ...]


_WELCOME = _Text(
    "Welcome",
    (
        "Welcome to Leasehold. One person edits a document at a time, and all others see who.",
        "Open this document as Ana in one window and as Ben in another: the first to type gets the lock.",
        "Olga is the owner. She may take over the editing; what Ana has written is saved first.",
        "Vera may look, and never gets the lock.",
    ),
)
_PLAN = _Text(
    "Launch plan", ("This one belongs to the project Launch.", "Its members are those of the application.")
)
_NOTES = _Text("Olga's notes", ("Only Olga sees this one.",))


async def create_demo(database: async_sessionmaker[AsyncSession], passwords: Passwords) -> bool:
    """Create the demo data if there are no users; True if this call did. Several workers may call it at once."""
    if await _has_users(database):
        return False
    rows = await _rows(passwords)
    try:
        async with writing(database) as db:
            if await db.scalar(_USERS):
                return False
            for row in rows:
                db.add(row)
                await db.flush()
    except IntegrityError:  # another worker was faster
        return False
    return True


async def end_demo(database: async_sessionmaker[AsyncSession]) -> None:
    """End the logins of demo users, whose passwords do not work outside the demo."""
    members = select(UserRow.id).where(UserRow.password_hash.startswith(DEMO_MARK, autoescape=True))
    async with reading(database) as db:
        if not (await db.scalar(select(func.count()).select_from(members.subquery()))):
            return
    async with writing(database) as db:
        await db.execute(
            update(LoginRow)
            .where(LoginRow.user_id.in_(members), LoginRow.ended_at.is_(None))
            .values(ended_at=time.time())
        )


_USERS = select(func.count()).select_from(UserRow)


async def _has_users(database: async_sessionmaker[AsyncSession]) -> bool:
    async with reading(database) as db:
        return bool(await db.scalar(_USERS))


async def _rows(passwords: Passwords) -> list[Row]:
    """The rows, each after those that it refers to."""
    now = time.time()
    users = [
        UserRow(
            id=new_id(),
            email=person.email,
            display_name=person.name,
            password_hash=DEMO_MARK + await passwords.hash(person.password),
            created_at=now,
        )
        for person in TEAM
    ]
    olga = next(user for user, person in zip(users, TEAM, strict=True) if person.role == "owner")
    application = ApplicationRow(id=new_id(), name="Demo team", created_at=now)
    members = [
        MemberRow(application_id=application.id, user_id=user.id, role=person.role, created_at=now)
        for user, person in zip(users, TEAM, strict=True)
    ]
    project = ProjectRow(id=new_id(), application_id=application.id, name="Launch", created_at=now)
    texts = [
        *_document(_WELCOME, olga, now, application_id=application.id),
        *_document(_PLAN, olga, now, project_id=project.id),
        *_document(_NOTES, olga, now),
    ]
    return [*users, application, *members, project, *texts]


def _document(text: _Text, author: UserRow, now: float, **scope: str) -> list[Row]:
    content = encode_content(_editor_document(text))
    document = DocumentRow(
        id=new_id(),
        title=text.title,
        owner_id=author.id,
        version=1,
        content=content,
        fence=0,
        created_at=now,
        updated_at=now,
        updated_by=author.id,
        **scope,
    )
    version = VersionRow(
        document_id=document.id, number=1, content=content, author_id=author.id, fence=0, created_at=now
    )
    return [document, version]


def _editor_document(text: _Text) -> dict[str, Any]:
    paragraphs = [{"type": "paragraph", "content": [{"type": "text", "text": line}]} for line in text.lines]
    return {"type": "doc", "content": paragraphs}
