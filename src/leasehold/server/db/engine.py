"""The database: SQLite or PostgreSQL, and transactions that mean the same on both."""

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
    """``sqlite:///…`` or ``postgresql://…`` with the driver that is used here; `InvalidRequest` for anything else."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not quoted, and without the cause: there may be a password in it.
        raise InvalidRequest(
            "the database URL cannot be read: sqlite:///path or postgresql://user:password@host/name"
        ) from None
    kind, _, driver = parsed.drivername.partition("+")
    mapped = _KINDS.get(kind)
    if mapped is None or (driver and mapped != f"{kind}+{driver}"):
        raise InvalidRequest(
            f"a database URL begins with sqlite:/// or postgresql://, not with {parsed.drivername}:"
        )
    if kind == "sqlite" and (parsed.database or ":memory:") == ":memory:":
        raise InvalidRequest("the database must be a file, for several connections use it: sqlite:///path")
    if "sslmode" in parsed.query:  # libpq's name for what asyncpg calls ssl
        mode = {"ssl": str(parsed.query["sslmode"])}
        parsed = parsed.difference_update_query(["sslmode"]).update_query_dict(mode)
    return parsed.set(drivername=mapped)


def unreachable() -> tuple[type[Exception], ...]:
    """What connecting may raise. The driver's own errors too: there SQLAlchemy does not wrap them."""
    asyncpg = sys.modules.get("asyncpg")  # not loaded for SQLite, since it takes its time
    drivers = () if asyncpg is None else (asyncpg.PostgresError, asyncpg.InterfaceError)
    return (DBAPIError, NoConnectionFree, OSError, *drivers)


def open_engine(url: str | URL, *, patience: float = 10, statement: float | None = 15) -> AsyncEngine:
    """An engine for the database at ``url``. Nothing is sent before the first use; `close_engine` it in the end.

    ``patience`` is how many seconds to wait for a connection and, on SQLite, for other writers; ``statement`` how
    many a statement may take on PostgreSQL.
    """
    where = async_url(url)
    # Parameters hold password hashes and people's texts, so they never get into an error's message.
    options: dict[str, Any] = {"hide_parameters": True, "pool_timeout": patience, "max_overflow": 10}
    if where.get_backend_name() == "sqlite":
        logging.getLogger("aiosqlite").setLevel(logging.INFO)  # below that it writes every parameter
        connections = SqliteConnections(patience=patience)
        options["execution_options"] = {_CONNECTIONS: connections}
        engine = create_async_engine(where, pool_size=5, **options)
        event.listen(engine.sync_engine, "do_connect", connections.instead)
        event.listen(engine.sync_engine, "begin", _begin)
        event.listen(engine.sync_engine, "invalidate", _undo)
        return engine
    settings = {
        "application_name": "leasehold",
        "statement_timeout": _milliseconds(statement),
        # A worker that is paused within a transaction lets go of its rows: nobody else waits for longer.
        "idle_in_transaction_session_timeout": _milliseconds(patience),
    }
    driver = {
        "timeout": patience,
        # For a server that does not answer at all. Later than its own limit, which says what was wrong.
        "command_timeout": statement and statement + 5,
        "server_settings": settings,
    }
    return create_async_engine(
        where, pool_size=10, pool_pre_ping=True, pool_recycle=1800, connect_args=driver, **options
    )


async def close_engine(engine: AsyncEngine) -> None:
    """Close its connections. On return nothing of it is at work any more, or has not ended for five seconds."""
    await engine.dispose()
    connections: SqliteConnections | None = engine.sync_engine.get_execution_options().get(_CONNECTIONS)
    if connections is not None:
        await connections.end()


def sessions_of(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    """Makes sessions on the engine, for `reading` and `writing`."""
    # Writers of one process queue here: SQLite itself lets them poll, at last every 100 ms and in no order.
    turn = asyncio.Lock() if engine.dialect.name == "sqlite" else nullcontext()
    reader = engine.execution_options(**_reads(engine))
    return async_sessionmaker(engine, expire_on_commit=False, info={_TURN: turn, _READER: reader})


@asynccontextmanager
async def writing(sessions: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncSession]:
    """A transaction that writes: committed on leaving, undone by an exception. On return it is durable.

    On SQLite it is the only one that writes from its beginning on; on PostgreSQL rows are locked as they are written
    or selected for update. `StoreUnavailable` if the database does not answer: then it may or may not be committed.
    """
    turn: AbstractAsyncContextManager[None] = sessions.kw["info"][_TURN]
    async with turn, sessions() as session:
        await _connect(session)
        with _Translating():
            yield session
            await session.commit()


@asynccontextmanager
async def reading(sessions: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncSession]:
    """For statements that only read. Each sees what is committed when it begins, and none waits for a writer."""
    async with sessions() as session:
        await _connect(session, **_reads(session.get_bind()))
        with _Translating():
            yield session


@asynccontextmanager
async def writing_rows(sessions: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncConnection]:
    """As `writing`, for statements about tables. A session would take as long again as they do."""
    turn: AbstractAsyncContextManager[None] = sessions.kw["info"][_TURN]
    async with turn, _connected(sessions.kw["bind"]) as connection:
        with _Translating():
            yield connection
            await connection.commit()


@asynccontextmanager
async def reading_rows(sessions: async_sessionmaker[AsyncSession]) -> AsyncGenerator[AsyncConnection]:
    """As `reading`, for statements about tables."""
    async with _connected(sessions.kw["info"][_READER]) as connection:
        with _Translating():
            yield connection


@asynccontextmanager
async def _connected(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
    async with AsyncExitStack() as opened:
        try:
            connection = await opened.enter_async_context(engine.connect())
        except unreachable() as error:
            raise _silence(error) from error
        yield connection


def _reads(engine: AsyncEngine | Engine | Connection) -> dict[str, Any]:
    """The options of a connection that only reads."""
    if engine.dialect.name == "sqlite":
        return {_READS: True}
    return {_READS: True, "isolation_level": "AUTOCOMMIT"}  # saves asking for a transaction's begin and end


async def _connect(session: AsyncSession, **options: Any) -> None:
    """Have a connection, in a transaction that has begun."""
    try:
        await session.connection(execution_options=options)
    except unreachable() as error:
        raise _silence(error) from error


class _Translating:
    """Driver errors of the body come out as `StoreUnavailable`, but for those that are an answer."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DBAPIError):
            is_silence = type(error) in {DBAPIError, OperationalError, InterfaceError}
            is_silence = is_silence or error.connection_invalidated
        else:
            is_silence = isinstance(error, TimeoutError)  # the driver's, which SQLAlchemy does not wrap
        if is_silence:
            raise _silence(error) from error


def _silence(error: BaseException | None) -> StoreUnavailable:
    return StoreUnavailable(f"the database does not answer: {type(error).__name__}")


def _begin(connection: Connection) -> None:
    # Whoever only reads has a transaction for each statement, without asking. Whoever does not say so is a writer from
    # its beginning on: one that reads first and writes later would be refused if another one wrote in between.
    if not connection.get_execution_options().get(_READS):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _undo(connection: Any, _record: object, _error: BaseException | None) -> None:
    # A cancelled statement leaves its cursor to the traceback, and while there is a cursor SQLite does not close: the
    # transaction would keep every other writer waiting until somebody collects the garbage.
    with suppress(Exception):
        connection.rollback()


def _milliseconds(seconds: float | None) -> str:
    return str(int((seconds or 0) * 1000))  # 0: without a limit
