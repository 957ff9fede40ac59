"""Databases for tests that are written once: SQLite and PostgreSQL, through a Session and an AsyncSession."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.support.eventually import LIMIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import MetaData

DRIVERS = ("sqlite", "sqlite+aiosqlite", "postgresql+psycopg", "postgresql+asyncpg")


async def settle(answer: Any) -> Any:
    """What a Session gives at once and an AsyncSession when awaited."""
    return await answer if inspect.isawaitable(answer) else answer


class Database:
    """One database, and sessions of one kind on it."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.is_async = url.partition(":")[0].endswith(("aiosqlite", "asyncpg"))
        if url.startswith("sqlite"):
            options.setdefault("connect_args", {"timeout": LIMIT})
        self.engine: Any = (create_async_engine if self.is_async else create_engine)(url, **options)

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    @asynccontextmanager
    async def session(self, **options: Any) -> AsyncIterator[Any]:
        """A session that is closed at the end, and rolled back unless it was committed."""
        session: Any = (AsyncSession if self.is_async else Session)(self.engine, **options)
        try:
            yield session
        finally:
            await settle(session.close())

    async def create(self, metadata: MetaData) -> None:
        """Empty tables."""
        if self.is_async:
            async with self.engine.begin() as connection:
                await connection.run_sync(metadata.drop_all)
                await connection.run_sync(metadata.create_all)
        else:
            metadata.drop_all(self.engine)
            metadata.create_all(self.engine)

    async def close(self) -> None:
        await settle(self.engine.dispose())
