"""The database engine for SQLite and PostgreSQL, with transactions that mean the same on both."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.server.db.sqlite_pool import SqliteConnections

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from sqlalchemy import URL, Connection, Engine

_KINDS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}

_READS = "leasehold_reads"
_TURN = "turn"
_READER = "reader"
_CONNECTIONS = "leasehold_connections"


def async_url(url: str | URL) -> URL:
    """The URL with our driver for SQLite or PostgreSQL; `InvalidRequest` for anything else."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not quoted, and without the cause, because it may contain a password.
        raise InvalidRequest(
            "cannot parse the database URL: use sqlite:///path or postgresql://user:password@host/name"
        ) from None
    kind, _, driver = parsed.drivername.partition("+")
    mapped = _KINDS.get(kind)
    if mapped is None or (driver and mapped != f"{kind}+{driver}"):
        raise InvalidRequest(
            f"a database URL begins with sqlite:/// or postgresql://, not with {parsed.drivername}:"
        )
    if kind == "sqlite" and (parsed.database or ":memory:") == ":memory:":
        raise InvalidRequest(
            "the database must be a file, because several connections use it: sqlite:///path"
        )
    if "sslmode" in parsed.query:  # libpq's name for what asyncpg calls ssl
        mode = {"ssl": str(parsed.query["sslmode"])}
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict(mode)
    return parsed.set(drivername=mapped)


def connection_errors() -> tuple[type[Exception], ...]:
    """The errors of connecting. They include the driver's, which SQLAlchemy does not wrap there."""
    asyncpg = sys.modules.get("asyncpg")  # not loaded for SQLite, because that takes long
    drivers = () if asyncpg is None else (asyncpg.PostgresError, asyncpg.InterfaceError)
    return (DBAPIError, NoConnectionFree, OSError, *drivers)


def open_engine(url: str | URL, *, patience: float = 10, statement: float | None = 15) -> AsyncEngine:
    """An engine for the database at ``url``. It connects on first use; close it with `close_engine`.

    ``patience`` is the timeout in seconds for a connection and, on SQLite, for other writers; ``statement`` that of
    a statement on PostgreSQL.
    """
    parsed = async_url(url)
    # Parameters contain password hashes and documents, so they must not get into error messages.
    options: dict[str, Any] = {"hide_parameters": True, "pool_timeout": patience, "max_overflow": 10}
    if parsed.get_backend_name() == "sqlite":
        logging.getLogger("aiosqlite").setLevel(logging.INFO)  # at debug it logs every parameter
        connections = SqliteConnections(timeout=patience)
        options["execution_options"] = {_CONNECTIONS: connections}
        engine = create_async_engine(parsed, pool_size=5, **options)
        event.listen(engine.sync_engine, "do_connect", connections.on_connect)
        event.listen(engine.sync_engine, "begin", _begin)
        event.listen(engine.sync_engine, "invalidate", _roll_back)
        return engine
    settings = {
        "application_name": "leasehold",
        "statement_timeout": _milliseconds(statement),
        # A worker that is paused within a transaction loses its rows, so that others do not wait for longer.
        "idle_in_transaction_session_timeout": _milliseconds(patience),
    }
    driver = {
        "timeout": patience,
        # For a server that does not answer at all. Later than its own timeout, which reports the reason.
        "command_timeout": statement and statement + 5,
        "server_settings": settings,
    }
    return create_async_engine(
        parsed, pool_size=10, pool_pre_ping=True, pool_recycle=1800, connect_args=driver, **options
    )


async def close_engine(engine: AsyncEngine) -> None:
    """Close its connections. Returns when their threads have ended, or after five seconds."""
    await engine.dispose()
    connections: SqliteConnections | None = engine.sync_engine.get_execution_options().get(_CONNECTIONS)
    if connections is not None:
        await connections.close()


def session_factory(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    """A session factory for `reading` and `writing`."""
    # Writers of one process queue here, because SQLite lets them poll, eventually every 100 ms and in no order.
    turn = asyncio.Lock() if engine.dialect.name == "sqlite" else nullcontext()
    reader = engine.execution_options(**_read_options(engine))
    return async_sessionmaker(engine, expire_on_commit=False, info={_TURN: turn, _READER: reader})


@asynccontextmanager
async def writing(database: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncSession]:
    """A write transaction: committed on exit, rolled back by an exception. On return it is durable.

    On SQLite it is the only writer from its start on; on PostgreSQL rows are locked when they are written or selected
    for update. `StoreUnavailable` if the database does not answer: then it may or may not be committed.
    """
    turn: AbstractAsyncContextManager[None] = database.kw["info"][_TURN]
    async with turn, database() as db:
        await _connect(db)
        with _TranslatingErrors():
            yield db
            await db.commit()


@asynccontextmanager
async def reading(database: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncSession]:
    """A session for reads. Each statement sees what is committed when it starts, and none waits for a writer."""
    async with database() as db:
        await _connect(db, **_read_options(db.get_bind()))
        with _TranslatingErrors():
            yield db


@asynccontextmanager
async def writing_rows(database: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncConnection]:
    """As `writing`, for statements on tables, where a session would double the time."""
    turn: AbstractAsyncContextManager[None] = database.kw["info"][_TURN]
    async with turn, _connected(database.kw["bind"]) as connection:
        with _TranslatingErrors():
            yield connection
            await connection.commit()


@asynccontextmanager
async def reading_rows(database: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncConnection]:
    """As `reading`, for statements on tables."""
    async with _connected(database.kw["info"][_READER]) as connection:
        with _TranslatingErrors():
            yield connection


@asynccontextmanager
async def _connected(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    async with AsyncExitStack() as opened:
        try:
            connection = await opened.enter_async_context(engine.connect())
        except connection_errors() as error:
            raise _unavailable(error) from error
        yield connection


def _read_options(engine: AsyncEngine | Engine | Connection) -> dict[str, Any]:
    """The execution options of a read-only connection."""
    if engine.dialect.name == "sqlite":
        return {_READS: True}
    return {
        _READS: True,
        "isolation_level": "AUTOCOMMIT",
    }  # saves the round trips for begin and end of a transaction


async def _connect(db: AsyncSession, **options: Any) -> None:
    """Connect, and start the transaction."""
    try:
        await db.connection(execution_options=options)
    except connection_errors() as error:
        raise _unavailable(error) from error


class _TranslatingErrors:
    """Turns driver errors into `StoreUnavailable`, except for those that are an answer of the database."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DBAPIError):
            is_unavailable = type(error) in {DBAPIError, OperationalError, InterfaceError}
            is_unavailable = is_unavailable or error.connection_invalidated
        else:
            is_unavailable = isinstance(error, TimeoutError)  # the driver's, which SQLAlchemy does not wrap
        if is_unavailable:
            raise _unavailable(error) from error


def _unavailable(error: BaseException | None) -> StoreUnavailable:
    return StoreUnavailable(f"the database does not answer: {type(error).__name__}")


def _begin(connection: Connection) -> None:
    # Readers have a transaction per statement. All others write from their start on, because SQLite refuses a transaction
    # that reads first and writes later if another one wrote in between.
    if not connection.get_execution_options().get(_READS):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _roll_back(connection: Any, _record: object, _error: BaseException | None) -> None:
    # The traceback keeps the cursor of a cancelled statement alive, and with a cursor SQLite does not close: until the
    # next garbage collection, the transaction would keep every other writer waiting.
    with suppress(Exception):
        connection.rollback()


def _milliseconds(seconds: float | None) -> str:
    return str(int((seconds or 0) * 1000))  # 0 means no timeout
