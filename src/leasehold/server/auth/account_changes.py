"""Changes of an account that concern its other logins: a new password, and the account's deletion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, select, update

from leasehold.errors import AlreadyExists, InProgress
from leasehold.server.auth.logins import end_logins
from leasehold.server.auth.users import lock_account, replace_hash
from leasehold.server.db.engine import writing
from leasehold.server.db.models import ApplicationRow, DocumentRow, MemberRow, UserRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

_DELETED_NAME = "Deleted account"


async def change_password(
    database: async_sessionmaker[AsyncSession], user: UserRow, password_hash: str, *, but: str
) -> list[str]:
    """Replace the hash of the password and end all logins ``but`` one, together; the ids of the ended ones.

    `InProgress` if another request has replaced the hash since ``user`` was read.
    """
    async with writing(database) as db:
        if not await replace_hash(db, user, password_hash):
            raise InProgress("another request is changing this account: try again", retry_after=1)
        return await end_logins(db, user.id, time.time(), but=but)


async def delete_account(database: async_sessionmaker[AsyncSession], user: UserRow) -> list[str]:
    """Delete the account, in one transaction; the ids of its logins, which end.

    Its personal documents are deleted, and the applications that have no other member. Everything else that it wrote
    stays with the applications, under the name "Deleted account": others work with it. `AlreadyExists`, without a change,
    while it is the only owner of an application with other members, which must always have an owner.
    """
    async with writing(database) as db:
        await lock_account(db, user.id)
        alone = await _applications_without_others(db, user.id)
        is_personal = and_(DocumentRow.application_id.is_(None), DocumentRow.project_id.is_(None))
        await db.execute(delete(DocumentRow).where(DocumentRow.owner_id == user.id, is_personal))
        await db.execute(delete(ApplicationRow).where(ApplicationRow.id.in_(alone)))
        await db.execute(delete(MemberRow).where(MemberRow.user_id == user.id))
        # The row stays, because versions name their author. Neither the address nor the hash can be signed in with.
        emptied = {"email": f"deleted:{user.id}", "display_name": _DELETED_NAME, "password_hash": ""}
        now = time.time()
        await db.execute(update(UserRow).where(UserRow.id == user.id).values(**emptied, deleted_at=now))
        return await end_logins(db, user.id, now)


async def _applications_without_others(db: AsyncSession, user_id: str) -> list[str]:
    """The applications whose only member is the user; `AlreadyExists` if another one would be left without an owner."""
    mine = select(MemberRow.application_id).where(MemberRow.user_id == user_id)
    # Locked, as `Members` does before it changes who is an owner.
    applications = (
        select(ApplicationRow)
        .where(ApplicationRow.id.in_(mine))
        .order_by(ApplicationRow.id)
        .with_for_update()
    )
    names = {row.id: row.name for row in await db.scalars(applications)}
    others = select(MemberRow.application_id, func.count()).where(
        MemberRow.application_id.in_(names), MemberRow.user_id != user_id
    )
    others = others.group_by(MemberRow.application_id)
    with_others = {row[0] for row in await db.execute(others)}
    with_owners = {row[0] for row in await db.execute(others.where(MemberRow.role == "owner"))}
    if without := with_others - with_owners:
        named = ", ".join(sorted(repr(names[each]) for each in without))
        raise AlreadyExists(
            f"this account is the only owner of {named}: make another member an owner, or delete it first"
        )
    return [each for each in names if each not in with_others]
