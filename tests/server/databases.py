"""New databases for tests: copies of one that is migrated once, because migrating takes longer than most tests."""

from __future__ import annotations

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from leasehold.server.db.engine import close_engine, open_engine
from leasehold.server.db.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import PostgresAddress

_EMPTY = "template0"
"""PostgreSQL's own template, which has no connections and so can always be copied."""


class MigratedFile:
    """A migrated SQLite database, created on the first copy."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "migrated.sqlite"

    def copy(self, path: Path) -> None:
        if not self._path.exists():
            _migrate(f"sqlite:///{self._path}")
            # Everything must be in the one file that is copied.
            assert not Path(f"{self._path}-wal").exists()
        shutil.copyfile(self._path, path)


class PostgresDatabases:
    """Creates databases on one server, empty or migrated; the migrated template is created on first use."""

    def __init__(self, postgres: PostgresAddress) -> None:
        self._postgres = postgres
        self._migrated: str | None = None

    @contextmanager
    def make(self, *, migrated: bool) -> Iterator[str]:
        """Creates a database that is dropped at the end, and returns its URL."""
        template = self._template() if migrated else _EMPTY
        name = f"test_{uuid4().hex}"
        with self._postgres.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            try:
                yield self._url(name)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _template(self) -> str:
        if self._migrated is None:
            name = f"migrated_{uuid4().hex}"  # each process of the run has its own on the same server
            with self._postgres.connect() as connection:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE {_EMPTY}")
                _migrate(self._url(name))
                # A template that is in use cannot be copied.
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            self._migrated = name
        return self._migrated

    def _url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._postgres.port}/{name}"


def _migrate(url: str) -> None:
    async def work() -> None:
        engine = open_engine(url)
        await migrate(engine)
        await close_engine(engine)

    # In another thread: the test's own may have an event loop already.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, work()).result()
