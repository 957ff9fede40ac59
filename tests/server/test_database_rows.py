"""Transactions on plain rows promise the same as those with an ORM session."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from tests.server.conftest import ON_POSTGRESQL, ON_SQLITE
from tests.support.eventually import LIMIT
from tests.support.servers import reserve_port

from leasehold import StoreUnavailable
from leasehold.server.db.engine import close_engine, open_engine, reading_rows, session_factory, writing_rows
from leasehold.server.db.models import UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.postgres import PostgresAddress
    from tests.support.proxy import FaultProxy

Database = async_sessionmaker[AsyncSession]

pytestmark = pytest.mark.both_databases

USERS = UserRow.__table__
COUNT = select(func.count()).select_from(USERS)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    engine = open_engine(database_url)
    yield session_factory(engine)
    await close_engine(engine)


def user(name: str = "ana") -> dict[str, object]:
    usual = {"email": f"{name}@example.com", "display_name": name, "password_hash": "none"}
    return {"id": new_id(), "created_at": 0.0} | usual


async def add(database: Database, name: str = "ana") -> None:
    async with writing_rows(database) as connection:
        await connection.execute(insert(USERS), user(name))


async def count(database: Database) -> int:
    async with reading_rows(database) as connection:
        return await connection.scalar(COUNT)


async def test_committed_rows_can_be_read(database: Database) -> None:
    await add(database)
    assert await count(database) == 1


async def test_an_exception_rolls_back_the_transaction(database: Database) -> None:
    async def fail() -> None:
        async with writing_rows(database) as connection:
            await connection.execute(insert(USERS), user())
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await count(database) == 0


async def test_a_wrong_row_statement_is_not_unavailable(database: Database) -> None:
    await add(database)
    with pytest.raises(IntegrityError):
        await add(database)


async def test_no_update_is_lost_among_writers_that_read_first(database: Database) -> None:
    await add(database)

    async def increase() -> None:
        async with writing_rows(database) as connection:
            before = await connection.scalar(select(USERS.c.created_at).with_for_update())
            await connection.execute(update(USERS).values(created_at=before + 1))

    await asyncio.gather(*(increase() for _ in range(40)))
    async with reading_rows(database) as connection:
        assert await connection.scalar(select(USERS.c.created_at)) == 40


async def test_a_reader_waits_for_no_writer_and_sees_each_commit(database: Database) -> None:
    async with reading_rows(database) as reader:
        async with writing_rows(database) as writer:
            await writer.execute(insert(USERS), user())
            assert await asyncio.wait_for(reader.scalar(COUNT), LIMIT) == 0
        assert await reader.scalar(COUNT) == 1


async def test_cancelled_writers_leave_the_database_to_others(database: Database) -> None:
    async def write(name: str) -> None:
        async with writing_rows(database) as connection:
            await connection.execute(select(USERS))
            await connection.execute(insert(USERS), user(name))
            await connection.execute(select(USERS))

    chance = random.Random(4)
    # Kept as a log would keep them: their tracebacks keep the frames alive.
    cancelled: list[object] = []
    for number in range(60):
        task = asyncio.create_task(write(f"cancelled{number}"))
        await asyncio.sleep(chance.random() * 0.01)
        task.cancel()
        cancelled += await asyncio.gather(task, return_exceptions=True)
        await write(f"done{number}")
    async with reading_rows(database) as connection:
        done = await connection.scalar(COUNT.where(USERS.c.display_name.startswith("done")))
    assert done == 60


async def test_a_missing_database_is_unavailable(tmp_path: Path) -> None:
    with closing(reserve_port()) as port:
        for url in (
            f"postgresql://nobody@127.0.0.1:{port.getsockname()[1]}/nothing",
            f"sqlite:///{tmp_path}/missing/directory.sqlite",
        ):
            engine = open_engine(url)
            for opening in (reading_rows, writing_rows):
                with pytest.raises(StoreUnavailable):
                    async with opening(session_factory(engine)) as connection:
                        await connection.execute(text("SELECT 1"))
            await close_engine(engine)


@ON_SQLITE
async def test_a_busy_sqlite_is_unavailable_after_a_while(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    hasty = open_engine(database_url, patience=0.2)
    with closing(sqlite3.connect(tmp_path / "documents.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await add(session_factory(hasty))
    await close_engine(hasty)
    await add(database)


@ON_POSTGRESQL
async def test_an_ended_connection_is_unavailable_once_and_then_replaced(
    database: Database, postgres: PostgresAddress
) -> None:
    async def be_ended() -> None:
        async with writing_rows(database) as connection:
            me = await connection.scalar(text("SELECT pg_backend_pid()"))
            with postgres.connect() as other:
                other.execute("SELECT pg_terminate_backend(%s)", (me,))
            await connection.execute(insert(USERS), user())

    with pytest.raises(StoreUnavailable):
        await be_ended()
    assert await count(database) == 0


@ON_POSTGRESQL
async def test_a_silent_postgresql_is_unavailable_after_a_while(
    database: Database, database_url: str, postgres: PostgresAddress, proxy: Callable[[int], FaultProxy]
) -> None:
    between = proxy(postgres.port)
    engine = open_engine(
        database_url.replace(f":{postgres.port}/", f":{between.port}/"), patience=10, statement=2
    )

    async def be_ignored() -> None:
        async with writing_rows(session_factory(engine)) as connection:
            await connection.execute(text("SELECT 1"))
            between.stall()
            await connection.execute(insert(USERS), user())

    with pytest.raises(StoreUnavailable):
        await be_ignored()
    between.flow()
    assert await count(session_factory(engine)) == await count(database)
    await close_engine(engine)
