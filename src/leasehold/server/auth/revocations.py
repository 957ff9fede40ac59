"""Which sessions have been ended lately, known to every worker without asking the database at every request."""

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
from leasehold.server.db.models import SessionRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.valkey.transport.protocols import PubSubTransport

# Under the prefix of the document locks, so that one ACL rule for channels does for both.
CHANNEL = "doc_lock:sessions"

# Clocks of two workers differ, and a transaction is committed a little later than the instant that it notes.
_MARGIN = 60.0

# For the database's answer; then it is asked anew, on another connection.
_PATIENCE = 10.0

_log = logging.getLogger(__name__)


class Revocations:
    """The sessions that were ended within the life of an access token: older ones have no token any more.

    The truth is in the database, so a restart changes nothing. It is read every ``every`` seconds, and at once when
    another worker says so through the store of locks; if that word is lost, a session that was ended at another
    worker is refused here ``every`` seconds later. Use it as a context manager.
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
        self._hint = asyncio.Event()
        self._listeners: list[Callable[[str], None]] = []
        self._tasks = AsyncioConcurrency()

    async def __aenter__(self) -> Self:
        await self._load()
        self._tasks.spawn(self._follow())
        # Without pub/sub the reading every ``every`` seconds is all there is.
        self._tasks.spawn(
            keep_subscribed(self._subscribe, self._hint.set, deaf_every=self._every, to="ended sessions")
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()

    def is_ended(self, session_id: str) -> bool:
        """Whether the session has been ended, as far as is known here."""
        return session_id in self._ended

    async def add(self, session_id: str) -> None:
        """It has been ended, in the database already: known here at once, and others are told to look."""
        self._note(session_id, self._clock())
        if (connection := self._wire.connection) is not None:
            with suppress(StoreError):
                await connection.call("PUBLISH", CHANNEL, "ended")

    def listen(self, hear: Callable[[str], None]) -> Callable[[], None]:
        """Have ``hear`` called with each session that ends, here or elsewhere. Returns what ends it."""
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear)

    def _note(self, session_id: str, ended_at: float) -> None:
        if session_id not in self._ended:
            self._ended[session_id] = ended_at
            for hear in tuple(self._listeners):
                hear(session_id)

    async def _load(self) -> None:
        now = self._clock()
        oldest = now - self._kept
        # Not later than now: the clock may have been set back.
        since = max(oldest, min(self._known_since, now) - _MARGIN)
        query = select(SessionRow.id, SessionRow.ended_at).where(SessionRow.ended_at > since)
        async with reading(self._database) as database:
            for session_id, ended_at in (await database.execute(query)).all():
                self._note(session_id, ended_at or now)
        self._known_since = now
        self._ended = {name: ended_at for name, ended_at in self._ended.items() if ended_at > oldest}

    async def _subscribe(self) -> bool:
        return await self._wire.subscribe(CHANNEL, lambda _: self._hint.set(), self._hint.set)

    async def _follow(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await self._load()
            except Exception as error:  # noqa: BLE001 - whatever it is, who is signed out must be known again soon
                _log.warning(
                    "who signs out elsewhere is not known at once: %s", error or type(error).__name__
                )
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._hint.wait()
            self._hint.clear()
