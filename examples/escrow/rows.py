"""Reads and writes rows under a lock, with fence checks in the database or, for comparison, without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import inspect, update

from leasehold.operations.guards.sql import guarded_update, load_for_update

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease

M = TypeVar("M")


class Rows(Protocol):
    async def load(self, session: AsyncSession, model: type[M], ident: int, lease: Lease) -> M: ...

    async def write(
        self, session: AsyncSession, model: type[Any], ident: int, lease: Lease, values: Mapping[str, Any]
    ) -> None: ...


class GuardedRows:
    """The safe way: a row that has seen a newer fence refuses an older one with `StaleFence`."""

    async def load(self, session: AsyncSession, model: type[M], ident: int, lease: Lease) -> M:
        return await load_for_update(session, model, ident, lease)

    async def write(
        self, session: AsyncSession, model: type[Any], ident: int, lease: Lease, values: Mapping[str, Any]
    ) -> None:
        # The number and not the lease: the row decides, not this process's belief that it holds its lease.
        await guarded_update(session, model, ident, lease.fence, values)


class UnguardedRows:
    """The usual unsafe way: every former holder of the lock may write. `--guards off` shows the consequences."""

    async def load(self, session: AsyncSession, model: type[M], ident: int, lease: Lease) -> M:
        lease.check()
        return await session.get_one(model, ident)

    async def write(
        self, session: AsyncSession, model: type[Any], ident: int, lease: Lease, values: Mapping[str, Any]
    ) -> None:
        del lease
        key = inspect(model).primary_key[0]
        await session.execute(update(model).where(key == ident).values(dict(values)))
