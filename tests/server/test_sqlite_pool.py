"""Concurrent opening of SQLite, and closing it while its driver still works."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from tests.support.eventually import eventually_async

from leasehold.server.db.engine import close_engine, open_engine
from leasehold.server.db.sqlite_pool import SqliteConnections

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.ext.asyncio import AsyncEngine

# A query of some tenths of a second.
LONG = text(
    "WITH RECURSIVE n(i) AS (SELECT begin() UNION ALL SELECT i + 1 FROM n WHERE i < 500000) SELECT sum(i) FROM n"
)


def working() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "_connection_worker" in thread.name}


async def compute(engine: AsyncEngine, has_begun: threading.Event) -> None:
    def begin() -> int:
        has_begun.set()
        return 1

    async with engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.create_function("begin", 0, begin)
        await connection.execute(LONG)


@pytest.mark.parametrize("when", ["while connecting", "soon", "while computing"])
async def test_nothing_is_at_work_after_closing(tmp_path: Path, when: str) -> None:
    before = working()
    engine = open_engine(f"sqlite:///{tmp_path / 'documents.sqlite'}")
    has_begun = threading.Event()
    task = asyncio.create_task(compute(engine, has_begun))
    if when == "while connecting":
        await asyncio.sleep(0)
    else:
        await eventually_async(has_begun.is_set if when == "while computing" else lambda: working() - before)
        assert working() - before
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    del task
    await close_engine(engine)
    assert working() - before == set()


async def test_a_connection_that_is_in_no_pool_is_closed_too(tmp_path: Path) -> None:
    """As when opening is cancelled after the driver has finished."""
    before = working()
    connections = SqliteConnections(timeout=5)
    options: dict[str, Any] = {}
    connections.on_connect(None, None, None, options)
    await options["async_creator_fn"](str(tmp_path / "documents.sqlite"))
    assert working() - before
    await connections.close()
    assert working() - before == set()


async def test_many_engines_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    """As workers do that start together. Without a busy timeout this fails in most rounds."""
    for number in range(10):
        engines = [open_engine(f"sqlite:///{tmp_path / f'{number}.sqlite'}") for _ in range(6)]
        answers = await asyncio.gather(*(ask(engine, "PRAGMA journal_mode") for engine in engines))
        assert answers == ["wal"] * 6
        for engine in engines:
            await close_engine(engine)


async def ask(engine: AsyncEngine, pragma: str) -> object:
    async with engine.connect() as connection:
        return await connection.scalar(text(pragma))
