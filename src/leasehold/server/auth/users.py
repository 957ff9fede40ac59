"""Queries of user accounts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from leasehold.errors import AlreadyExists, NotSignedIn
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import UserRow, new_id

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker


class Users:
    """User accounts. Email addresses are passed in lower case."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def add(self, *, email: str, display_name: str, password_hash: str) -> UserRow:
        """Create a user; `AlreadyExists` if the address is taken."""
        user = UserRow(
            id=new_id(),
            email=email,
            display_name=display_name,
            password_hash=password_hash,
            created_at=time.time(),
        )
        try:
            async with writing(self._database) as db:
                db.add(user)
        except IntegrityError:
            # Without the cause: it quotes the row.
            raise AlreadyExists("an account with this address already exists") from None
        return user

    async def with_email(self, email: str) -> UserRow | None:
        """The user with the address."""
        async with reading(self._database) as db:
            return await db.scalar(select(UserRow).where(UserRow.email == email))

    async def get(self, user_id: str) -> UserRow:
        """The user with the id; `NotSignedIn` if the account was deleted."""
        async with reading(self._database) as db:
            user = await db.scalar(select(UserRow).where(*_is_account(user_id)))
        if user is None:
            raise _account_is_gone()
        return user

    async def replace_hash(self, user: UserRow, password_hash: str) -> bool:
        """Replace the user's password hash; False if another request has replaced it by now."""
        async with writing(self._database) as db:
            return await replace_hash(db, user, password_hash)


async def replace_hash(db: AsyncSession, user: UserRow, password_hash: str) -> bool:
    """Replace the user's password hash; False if another request has replaced it by now."""
    replaced = await db.scalar(
        update(UserRow)
        .where(*_is_account(user.id), UserRow.password_hash == user.password_hash)
        .values(password_hash=password_hash)
        .returning(UserRow.id)
    )
    return replaced is not None


async def lock_account(db: AsyncSession, user_id: str) -> str:
    """The account's password hash. It is not changed, nor the account deleted, until the transaction ends.

    `NotSignedIn` if it was deleted.
    """
    # NO KEY UPDATE, which does not block the adding of rows that refer to this one.
    wanted = select(UserRow.password_hash).where(*_is_account(user_id)).with_for_update(key_share=True)
    password_hash = await db.scalar(wanted)
    if password_hash is None:
        raise _account_is_gone()
    return password_hash


def _is_account(user_id: str) -> tuple[ColumnElement[bool], ...]:
    return UserRow.id == user_id, UserRow.deleted_at.is_(None)


def _account_is_gone() -> NotSignedIn:
    return NotSignedIn("the account no longer exists")
