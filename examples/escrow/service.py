"""What every operation of the service works with: locks by purpose, work that is done once, and transactions."""

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


class Witness:
    """Is told of the moments that matter to a test. This one lets them pass."""

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
        witness: Witness,
    ) -> None:
        self.ops = ops
        self.sessions = sessions
        self.rows = rows
        self._witness = witness

    async def once(
        self, operation: str, key: str | int, work: Callable[[], Awaitable[T]], *, purpose: str | None = None
    ) -> T:
        """Do ``work`` unless it has been done, under the key ``idempotency:{operation:key}``; what came of it.

        If the process dies or is paused in the middle, another one begins again: the work itself must see from
        the database, with its fences shown, how far it has got. It ends with one transaction, so: done or not.
        """
        times = self.ops.purposes[purpose or operation]
        return await self.ops.locks.once(f"{operation}:{key}", work, lease_ttl=times.ttl, wait=times.wait)

    @asynccontextmanager
    async def balances(self, accounts: Iterable[int]) -> AsyncIterator[dict[int, Lease]]:
        """Hold the balances of these accounts, got in one order by everybody, so that nobody waits in a circle."""
        async with AsyncExitStack() as held:
            yield {
                account_id: await held.enter_async_context(self.ops.purpose("balance", account_id=account_id))
                for account_id in sorted(accounts)
            }

    async def write(
        self, work: Callable[[AsyncSession], Awaitable[object]], *, accounts: Iterable[int] = ()
    ) -> None:
        """Everything that ``work`` does with the session, in one transaction, or nothing of it."""
        self._witness.between_read_and_write(accounts)
        await to_the_end(self._transact(work, accounts))

    async def _transact(
        self, work: Callable[[AsyncSession], Awaitable[object]], accounts: Iterable[int]
    ) -> None:
        try:
            async with self.sessions.begin() as session:
                await work(session)
        except leasehold.StaleFence as error:
            self._witness.refused(error)
            raise
        self._witness.written(accounts)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """``work``, to its end also if the caller is cancelled meanwhile, as happens when its lease is lost.

    A commit that is cut off has an unknown outcome; this one is done or refused when the caller hears of it. So
    a worker whose lease has ended may still write. That is what fences are for.
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
async def open_escrow(settings: Settings, witness: Witness | None = None) -> AsyncIterator[Escrow]:
    """The service with its connections, closed in the end."""
    rows = GuardedRows() if settings.has_guards else UnguardedRows()
    async with (
        leasehold.connect(settings.store_url, namespace=settings.namespace, timeout=10) as locks,
        open_engine(settings.database_url) as engine,
    ):
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        yield Escrow(Operations(locks, settings.purposes), sessions, rows, witness or Witness())
