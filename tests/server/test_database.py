"""The database: the meaning of URLs, and the promises of a transaction on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from tests.server.conftest import ON_POSTGRESQL, ON_SQLITE
from tests.support.eventually import LIMIT
from tests.support.servers import reserve_port

from leasehold import InvalidRequest, StoreUnavailable
from leasehold.server.db.engine import async_url, close_engine, open_engine, reading, session_factory, writing
from leasehold.server.db.models import LoginRow, UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.postgres import PostgresAddress
    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy

Sessions = async_sessionmaker[AsyncSession]

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Sessions]:
    engine = open_engine(database_url)
    yield session_factory(engine)
    await close_engine(engine)


def make_user(name: str = "ana", **columns: object) -> UserRow:
    usual = {"email": f"{name}@example.com", "display_name": name, "password_hash": "none", "created_at": 0.0}
    return UserRow(**({"id": new_id()} | usual | columns))


async def add(database: Sessions, *rows: object) -> None:
    async with writing(database) as session:
        session.add_all(rows)


async def count(database: Sessions) -> int:
    async with reading(database) as session:
        return await session.scalar(select(func.count()).select_from(UserRow)) or 0


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:////srv/a.sqlite", "sqlite+aiosqlite:////srv/a.sqlite"),
        ("sqlite+aiosqlite:///a.sqlite", "sqlite+aiosqlite:///a.sqlite"),
        ("postgresql://ana:s3cret@db/docs", "postgresql+asyncpg://ana:s3cret@db/docs"),
        ("postgres://db/docs", "postgresql+asyncpg://db/docs"),
        ("postgresql+asyncpg://db/docs", "postgresql+asyncpg://db/docs"),
        ("postgresql://db/docs?sslmode=require", "postgresql+asyncpg://db/docs?ssl=require"),
    ],
)
def test_a_plain_url_gets_the_driver_that_is_used_here(given: str, meant: str) -> None:
    assert async_url(given).render_as_string(hide_password=False) == meant


@pytest.mark.parametrize(
    "url",
    ["", "no url with s3cret", "mysql://ana:s3cret@db/docs", "postgresql+psycopg://ana:s3cret@db/docs", "sqlite://", "sqlite:///:memory:"],
)  # fmt: skip
def test_any_other_url_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        async_url(url)
    assert "s3cret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


async def test_committed_rows_can_be_read(database: Sessions) -> None:
    await add(database, make_user())
    assert await count(database) == 1


async def test_an_exception_rolls_back_the_transaction(database: Sessions) -> None:
    async def fail() -> None:
        async with writing(database) as session:
            session.add(make_user())
            await session.flush()
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await count(database) == 0


async def test_a_row_that_refers_to_nothing_is_refused(database: Sessions) -> None:
    with pytest.raises(IntegrityError):
        await add(database, LoginRow(id=new_id(), user_id=new_id(), created_at=0.0, expires_at=1.0))


async def test_rows_are_deleted_with_the_row_that_they_refer_to(database: Sessions) -> None:
    user = make_user()
    await add(database, user)
    await add(database, LoginRow(id=new_id(), user_id=user.id, created_at=0.0, expires_at=1.0))
    async with writing(database) as session:
        await session.delete(await session.get(UserRow, user.id))
    async with reading(database) as session:
        assert await session.scalar(select(func.count()).select_from(LoginRow)) == 0


async def test_no_update_is_lost_among_writers_that_read_first(database: Sessions) -> None:
    user = make_user(created_at=0.0)
    await add(database, user)

    async def increase() -> None:
        async with writing(database) as session:
            before = await session.scalar(
                select(UserRow.created_at).where(UserRow.id == user.id).with_for_update()
            )
            await session.execute(
                update(UserRow).where(UserRow.id == user.id).values(created_at=(before or 0) + 1)
            )

    await asyncio.gather(*(increase() for _ in range(40)))
    async with reading(database) as session:
        assert await session.scalar(select(UserRow.created_at)) == 40


async def _write_in_another_process(parent: object, url: str, rounds: int) -> None:
    from sqlalchemy import select, update

    from leasehold.server.db.engine import close_engine, open_engine, session_factory, writing
    from leasehold.server.db.models import UserRow

    engine = open_engine(url)
    sessions = session_factory(engine)
    parent.send(ready=True)
    parent.receive()
    for _ in range(rounds):
        async with writing(sessions) as session:
            before = await session.scalar(select(UserRow.created_at).with_for_update())
            await session.execute(update(UserRow).values(created_at=before + 1))
    await close_engine(engine)
    parent.send(done=True)


async def test_no_update_is_lost_among_processes(
    database: Sessions, database_url: str, spawn: Callable[..., Child], full: bool
) -> None:
    await add(database, make_user(created_at=0.0))
    processes = 3 if full else 2
    children = [spawn(_write_in_another_process, database_url, 20) for _ in range(processes)]
    for child in children:
        assert await child.aread(LIMIT) == {"ready": True}
    for child in children:
        child.send()
    for child in children:
        assert await child.aread(LIMIT) == {"done": True}
    async with reading(database) as session:
        assert await session.scalar(select(UserRow.created_at)) == 20 * processes


async def test_readers_do_not_wait_for_a_writer(database: Sessions) -> None:
    async with writing(database) as session:
        session.add(make_user())
        await session.flush()
        assert await asyncio.wait_for(count(database), LIMIT) == 0
    assert await count(database) == 1


async def test_a_reader_sees_what_was_committed_since_its_last_statement(database: Sessions) -> None:
    query = select(func.count()).select_from(UserRow)
    async with reading(database) as session:
        assert await session.scalar(query) == 0
        await add(database, make_user())
        assert await session.scalar(query) == 1


async def test_cancelled_writers_leave_the_database_to_others(database: Sessions) -> None:
    async def write(name: str) -> None:
        async with writing(database) as session:
            await session.execute(select(UserRow))
            session.add(make_user(name))
            await session.flush()
            await session.execute(select(UserRow))

    chance = random.Random(4)
    # Kept as a log would keep them: their tracebacks keep the frames alive.
    cancelled: list[object] = []
    for number in range(60):
        task = asyncio.create_task(write(f"cancelled{number}"))
        await asyncio.sleep(chance.random() * 0.01)
        task.cancel()
        cancelled += await asyncio.gather(task, return_exceptions=True)
        await write(f"done{number}")
    async with reading(database) as session:
        found = await session.scalar(
            select(func.count()).select_from(UserRow).where(UserRow.display_name.startswith("done"))
        )
    assert found == 60


async def test_a_password_hash_is_not_in_an_error(database: Sessions) -> None:
    await add(database, make_user())
    with pytest.raises(IntegrityError) as refusal:
        await add(database, make_user(password_hash="canary-7f3a"))
    assert "canary-7f3a" not in str(refusal.value)


async def test_a_wrong_statement_is_not_unavailable(database: Sessions) -> None:
    """A caller should not retry a statement that can never succeed."""
    with pytest.raises(IntegrityError):
        await add(database, make_user(), make_user())


async def test_a_missing_database_is_unavailable(tmp_path: Path) -> None:
    port = reserve_port()
    for url in (
        f"postgresql://nobody@127.0.0.1:{port.getsockname()[1]}/nothing",
        f"sqlite:///{tmp_path}/missing/directory.sqlite",
    ):
        engine = open_engine(url)
        with pytest.raises(StoreUnavailable):
            async with reading(session_factory(engine)) as session:
                await session.execute(text("SELECT 1"))
        await close_engine(engine)
    port.close()


@ON_POSTGRESQL
async def test_an_ended_connection_is_unavailable_once_and_then_replaced(
    database: Sessions, postgres: PostgresAddress
) -> None:
    async def be_ended() -> None:
        async with writing(database) as session:
            me = await session.scalar(text("SELECT pg_backend_pid()"))
            with postgres.connect() as other:
                other.execute("SELECT pg_terminate_backend(%s)", (me,))
            session.add(make_user())

    with pytest.raises(StoreUnavailable):
        await be_ended()
    assert await count(database) == 0


@ON_SQLITE
async def test_sqlite_syncs_every_commit(database: Sessions) -> None:
    async with writing(database) as session:
        pragmas = [
            await session.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


@ON_SQLITE
async def test_a_busy_sqlite_is_unavailable_after_a_while(
    database: Sessions, database_url: str, tmp_path: Path
) -> None:
    hasty = open_engine(database_url, patience=0.2)
    with closing(sqlite3.connect(tmp_path / "documents.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await add(session_factory(hasty), make_user())
    await close_engine(hasty)
    await add(database, make_user())


@ON_POSTGRESQL
async def test_a_silent_postgresql_is_unavailable_after_a_while(
    database: Sessions, database_url: str, postgres: PostgresAddress, proxy: Callable[[int], FaultProxy]
) -> None:
    between = proxy(postgres.port)
    engine = open_engine(
        database_url.replace(f":{postgres.port}/", f":{between.port}/"), patience=10, statement=2
    )

    async def be_ignored() -> None:
        async with writing(session_factory(engine)) as session:
            await session.execute(text("SELECT 1"))
            between.stall()
            session.add(make_user())

    with pytest.raises(StoreUnavailable):
        await be_ignored()
    between.flow()
    assert await count(session_factory(engine)) == await count(database)
    await close_engine(engine)


@ON_POSTGRESQL
async def test_a_paused_writer_does_not_lock_its_rows_forever(database: Sessions, database_url: str) -> None:
    await add(database, make_user())
    engine = open_engine(database_url, patience=4)
    has_it, go_on = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        async with writing(session_factory(engine)) as session:
            await session.execute(update(UserRow).values(created_at=1.0))
            has_it.set()
            await go_on.wait()

    paused = asyncio.create_task(pause())
    await asyncio.wait_for(has_it.wait(), LIMIT)
    async with writing(database) as session:
        await session.execute(
            update(UserRow).values(created_at=2.0)
        )  # waits until the server ends the other transaction
    go_on.set()
    with pytest.raises(StoreUnavailable):
        await paused
    async with reading(database) as session:
        assert await session.scalar(select(UserRow.created_at)) == 2.0
    await close_engine(engine)
