"""Whoever signs out, or is signed out, has no socket any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from sqlalchemy import select

from leasehold.errors import StoreError
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.server.db.engine import reading
from leasehold.server.db.models import SessionRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.fastapi import LockRouter
    from leasehold.server.auth.revocations import Revocations

_log = logging.getLogger(__name__)


class SignOuts:
    """Tells the sockets of every session that ends, and the tickets that it was given. Use it as a context manager."""

    def __init__(
        self, database: async_sessionmaker[AsyncSession], revocations: Revocations, live: LockRouter
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._live = live
        self._tasks = AsyncioConcurrency()

    async def __aenter__(self) -> Self:
        self._forget = self._revocations.listen(lambda session_id: self._tasks.spawn(self._end(session_id)))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._forget()
        await self._tasks.close()

    async def _end(self, session_id: str) -> None:
        try:
            async with reading(self._database) as database:
                user_id = await database.scalar(select(SessionRow.user_id).where(SessionRow.id == session_id))
            if user_id is not None:
                await self._live.sessions_ended(user_id, session_id)
        except StoreError as error:
            # Every worker hears of it and closes its own sockets, so it is only tickets that may be good for longer.
            _log.warning("not every worker knows that session %s has ended: %s", session_id, error)
