"""Queries of user accounts."""

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

    async def with_id(self, user_id: str) -> UserRow | None:
        """The user with the id."""
        async with reading(self._database) as db:
            return await db.get(UserRow, user_id)

    async def replace_password(self, user: UserRow, password_hash: str) -> None:
        """Replace the user's password hash, unless another request has replaced it by now."""
        async with writing(self._database) as db:
            await db.execute(
                update(UserRow)
                .where(UserRow.id == user.id, UserRow.password_hash == user.password_hash)
                .values(password_hash=password_hash)
            )
