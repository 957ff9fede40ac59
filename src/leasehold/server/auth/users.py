"""People with an account."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from leasehold.errors import AlreadyExists
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import UserRow, new_id

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker


class Users:
    """The users in the database. Addresses are given in lower case."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def add(self, *, email: str, display_name: str, password_hash: str) -> UserRow:
        """A new user; `AlreadyExists` if somebody has the address."""
        user = UserRow(
            id=new_id(),
            email=email,
            display_name=display_name,
            password_hash=password_hash,
            created_at=time.time(),
        )
        try:
            async with writing(self._database) as database:
                database.add(user)
        except IntegrityError:
            # Without the cause: it quotes the row.
            raise AlreadyExists("somebody has registered with this address already") from None
        return user

    async def with_email(self, email: str) -> UserRow | None:
        """Who has the address."""
        async with reading(self._database) as database:
            return await database.scalar(select(UserRow).where(UserRow.email == email))

    async def with_id(self, user_id: str) -> UserRow | None:
        """Who has the id."""
        async with reading(self._database) as database:
            return await database.get(UserRow, user_id)

    async def keep_password(self, user: UserRow, password_hash: str) -> None:
        """Replace the hash that the user was found with, unless somebody else has replaced it meanwhile."""
        async with writing(self._database) as database:
            await database.execute(
                update(UserRow)
                .where(UserRow.id == user.id, UserRow.password_hash == user.password_hash)
                .values(password_hash=password_hash)
            )
