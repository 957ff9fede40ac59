"""The recently ended logins, known to every worker without a query per request."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from sqlalchemy import select

from leasehold.errors import StoreError
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.runtime.subscription import keep_subscribed
from leasehold.server.db.engine import reading
from leasehold.server.db.models import LoginRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.valkey.transport.protocols import PubSubTransport

# Under the prefix of the document locks, so that one ACL rule covers the channels of both.
CHANNEL = "doc_lock:sessions"

# Clocks of two workers differ, and a transaction commits a little after the instant that it records.
_MARGIN = 60.0

# For a database query; then it is repeated on another connection.
_TIMEOUT = 10.0

_log = logging.getLogger("leasehold.server")


class Revocations:
    """The logins that ended within the life of an access token; older ones have no valid token.

    The source is the database, so a restart changes nothing. It is read every ``every`` seconds, and at once after a
    notification of another worker through the lock store; if that is lost, a login that ended at another worker is
    refused here ``every`` seconds later. A context manager.
    """

    def __init__(
        self,
        database: async_sessionmaker[AsyncSession],
        wire: PubSubTransport,
        *,
        seconds: float,
        every: float = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._wire = wire
        self._kept = seconds + _MARGIN
        self._every = every
        self._clock = clock
        self._ended: dict[str, float] = {}
        self._known_since = 0.0
        self._reload = asyncio.Event()
        self._listeners: list[Callable[[list[str]], None]] = []
        self._tasks = AsyncioConcurrency()

    async def __aenter__(self) -> Self:
        await self._load()
        self._tasks.spawn(self._follow())
        # Without pub/sub the reading every ``every`` seconds is all there is.
        self._tasks.spawn(
            keep_subscribed(self._subscribe, self._reload.set, deaf_every=self._every, to="ended logins")
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()

    def is_ended(self, login_id: str) -> bool:
        """True if the login is known to have ended."""
        return login_id in self._ended

    async def add(self, *login_ids: str) -> None:
        """Record logins that have ended in the database, and notify the other workers."""
        self._record(dict.fromkeys(login_ids, self._clock()))
        if (connection := self._wire.connection) is not None:
            with suppress(StoreError):
                await connection.call("PUBLISH", CHANNEL, "ended")

    def listen(self, listener: Callable[[list[str]], None]) -> Callable[[], None]:
        """Call ``listener`` with the ids of logins that end, here or elsewhere. Returns the unsubscribe function."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _record(self, ended: dict[str, float]) -> None:
        if new := [login_id for login_id in ended if login_id not in self._ended]:
            self._ended = ended | self._ended
            for listener in tuple(self._listeners):
                listener(new)

    async def _load(self) -> None:
        now = self._clock()
        oldest = now - self._kept
        # Not after now, because the clock may have been set back.
        since = max(oldest, min(self._known_since, now) - _MARGIN)
        query = select(LoginRow.id, LoginRow.ended_at).where(LoginRow.ended_at > since)
        async with reading(self._database) as db:
            self._record({login_id: ended_at or now for login_id, ended_at in await db.execute(query)})
        self._known_since = now
        self._ended = {name: ended_at for name, ended_at in self._ended.items() if ended_at > oldest}

    async def _subscribe(self) -> bool:
        return await self._wire.subscribe(CHANNEL, lambda _: self._reload.set(), self._reload.set)

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    await self._load()
            except Exception as error:  # noqa: BLE001 - after any error, ended logins must be known again soon
                _log.warning(
                    "logouts at other workers are not known at once: %s", str(error) or type(error).__name__
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._reload.wait()
            self._reload.clear()
