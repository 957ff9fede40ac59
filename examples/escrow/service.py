"""The core of the service: locks by purpose, idempotent work, and transactions."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from examples.escrow.database import open_engine
from examples.escrow.rows import GuardedRows, Rows, UnguardedRows
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

import leasehold
from leasehold.operations import Operations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from examples.escrow.settings import Settings

    from leasehold import Lease, StaleFence

T = TypeVar("T")


class WriteObserver:
    """Called at the moments that matter to a load test. This one does nothing."""

    def between_read_and_write(self, accounts: Iterable[int]) -> None:
        """The rows have been read, and nothing has been written yet."""

    def written(self, accounts: Iterable[int]) -> None:
        """The transaction has been committed."""

    def refused(self, error: StaleFence) -> None:
        """The database refused to write because of an old fence."""


class Escrow:
    def __init__(
        self,
        ops: Operations,
        sessions: async_sessionmaker[AsyncSession],
        rows: Rows,
        observer: WriteObserver,
    ) -> None:
        self.ops = ops
        self.sessions = sessions
        self.rows = rows
        self._observer = observer

    async def once(
        self, operation: str, key: str | int, work: Callable[[], Awaitable[T]], *, purpose: str | None = None
    ) -> T:
        """Do ``work`` unless it has been done, under the key ``idempotency:{operation:key}``, and return its result.

        If the process dies or is paused in the middle, another one starts again: after registering its fences, the
        work must read its progress from the database. It ends with one transaction, so it is either done or not.
        """
        times = self.ops.purposes[purpose or operation]
        return await self.ops.locks.once(f"{operation}:{key}", work, lease_ttl=times.ttl, wait=times.wait)

    @asynccontextmanager
    async def balances(self, accounts: Iterable[int]) -> AsyncIterator[dict[int, Lease]]:
        """Hold the balances of these accounts, always acquired in the same order, so that there are no deadlocks."""
        async with AsyncExitStack() as held:
            yield {
                account_id: await held.enter_async_context(self.ops.purpose("balance", account_id=account_id))
                for account_id in sorted(accounts)
            }

    async def write(
        self, work: Callable[[AsyncSession], Awaitable[object]], *, accounts: Iterable[int] = ()
    ) -> None:
        """Run ``work`` in one transaction."""
        self._observer.between_read_and_write(accounts)
        await shielded(self._transact(work, accounts))

    async def _transact(
        self, work: Callable[[AsyncSession], Awaitable[object]], accounts: Iterable[int]
    ) -> None:
        try:
            async with self.sessions.begin() as session:
                await work(session)
        except leasehold.StaleFence as error:
            self._observer.refused(error)
            raise
        self._observer.written(accounts)


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end even if the caller is cancelled, as happens when its lease is lost.

    An interrupted commit has an unknown outcome; this one is done or refused when the function returns. So a worker
    whose lease has ended may still write, which is why the fences are needed.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


@asynccontextmanager
async def open_escrow(settings: Settings, observer: WriteObserver | None = None) -> AsyncIterator[Escrow]:
    """The service with its connections, which are closed on exit."""
    rows = GuardedRows() if settings.has_guards else UnguardedRows()
    async with (
        leasehold.connect(settings.store_url, namespace=settings.namespace, timeout=10) as locks,
        open_engine(settings.database_url) as engine,
    ):
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        yield Escrow(Operations(locks, settings.purposes), sessions, rows, observer or WriteObserver())
