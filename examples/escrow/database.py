"""The database: SQLite or PostgreSQL, by URL."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from examples.escrow.models import Account, Base, Report
from sqlalchemy import Connection, event, inspect
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

BUSY_TIMEOUT = 30
"""Seconds that a writer waits for another on SQLite: longer than any pause of a worker that is writing."""

# Classes of SQLSTATE: connection lost, rolled back (deadlock, serialization failure), out of resources, shutting down.
_TRANSIENT = ("08", "40", "53", "57")


def is_transient(error: DBAPIError) -> bool:
    """Whether a retry can succeed, as after "database is locked" or a deadlock."""
    # asyncpg's errors are plain DBAPIErrors with the server's SQLSTATE.
    state = getattr(error.orig, "sqlstate", None) or ""
    return isinstance(error, OperationalError) or error.connection_invalidated or state.startswith(_TRANSIENT)


@asynccontextmanager
async def open_engine(url: str) -> AsyncIterator[AsyncEngine]:
    is_sqlite = url.startswith("sqlite")
    engine = create_async_engine(url, connect_args={"timeout": BUSY_TIMEOUT} if is_sqlite else {})
    if is_sqlite:
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    try:
        yield engine
    finally:
        await engine.dispose()


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin its transactions only at the first write
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")  # readers and the writer do not wait for each other
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # Deferred, so that readers stay readers. A transaction that reads and then writes can get "database is locked"
    # in spite of its timeout; so here transactions that write begin with the write (`load_for_update` does).
    connection.exec_driver_sql("BEGIN")


async def create_tables(engine: AsyncEngine) -> None:
    """Create the missing tables."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)


async def drop_tables(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)


async def has_tables(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return await connection.run_sync(lambda each: inspect(each).has_table(Account.__tablename__))


async def open_accounts(engine: AsyncEngine, openings: Iterable[tuple[str, int]]) -> None:
    """Insert accounts with their opening balances, numbered from 1 (`PLATFORM`)."""
    accounts = [
        {"id": number, "owner": owner, "opening": opening, "balance": opening}
        for number, (owner, opening) in enumerate(openings, 1)
    ]
    async with engine.begin() as connection:
        await connection.execute(Account.__table__.insert(), accounts)  # pyright: ignore[reportAttributeAccessIssue] - a Table
        await connection.execute(Report.__table__.insert(), {"id": 1})  # pyright: ignore[reportAttributeAccessIssue] - a Table
