"""Closes the sockets of a login when it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from sqlalchemy import select

from leasehold.errors import StoreError
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.server.db.engine import reading
from leasehold.server.db.models import LoginRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.fastapi import LockRouter
    from leasehold.server.auth.revocations import Revocations

_BATCH = 200

_log = logging.getLogger("leasehold.server")


class SocketLogout:
    """Ends the sockets and tickets of every login that ends. A context manager."""

    def __init__(
        self, database: async_sessionmaker[AsyncSession], revocations: Revocations, live: LockRouter
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._live = live
        self._tasks = AsyncioConcurrency()

    async def __aenter__(self) -> Self:
        self._unsubscribe = self._revocations.listen(lambda ended: self._tasks.spawn(self._end(ended)))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unsubscribe()
        await self._tasks.close()

    async def _end(self, login_ids: list[str]) -> None:
        # One after the other: a user may have thousands, and others need the database and the store too.
        for start in range(0, len(login_ids), _BATCH):
            query = select(LoginRow.user_id, LoginRow.id)
            query = query.where(LoginRow.id.in_(login_ids[start : start + _BATCH]))
            try:
                async with reading(self._database) as db:
                    users = (await db.execute(query)).all()
                for user_id, login_id in users:
                    await self._live.sessions_ended(user_id, login_id)
            except StoreError as error:
                # Every worker follows the revocations and closes its own sockets, so only tickets may stay valid for longer.
                _log.warning("the end of some logins was not announced to every worker: %s", error)
