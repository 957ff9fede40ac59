"""Bringing the database up to date when a worker starts, however many start at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.server.db.engine import close_engine, open_engine, unreachable

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

VERSION_TABLE = "leasehold_schema"
"""Where the revision is kept. Not Alembic's usual name: somebody else's migrations may be in the same database."""

# Any number that nobody else takes.
_ADVISORY_LOCK = 5_327_346_530
_PATIENCE = 60
_MIGRATIONS = Path(__file__).with_name("migrations")


async def migrate(engine: AsyncEngine) -> None:
    """Bring the database to the newest revision, in one transaction: on return it is there.

    Whoever comes meanwhile waits. `InvalidRequest` if the database was made by a newer Leasehold, and
    `StoreUnavailable` if it does not answer, or somebody else is at it for too long; nothing is changed then.
    """
    # An engine of its own: it has more time, and settings that nobody else should meet.
    own = open_engine(engine.url, patience=_PATIENCE, statement=None)
    try:
        async with own.connect() as connection:
            if own.dialect.name == "sqlite":
                await _migrate_sqlite(connection)
            else:
                await _migrate_postgresql(connection)
    except unreachable() as error:
        raise StoreUnavailable(f"the database cannot be brought up to date: {error}") from error
    finally:
        await close_engine(own)


async def _migrate_sqlite(connection: AsyncConnection) -> None:
    raw = await connection.get_raw_connection()
    assert raw.driver_connection is not None
    # Before the transaction, where it still counts. A table is changed by making a new one and dropping the old, which
    # would take along every row that refers to it.
    await raw.driver_connection.execute("PRAGMA foreign_keys=OFF")
    await connection.run_sync(upgrade)  # within BEGIN IMMEDIATE: the others wait for our end
    if astray := (await connection.execute(text("PRAGMA foreign_key_check"))).all():
        raise StoreUnavailable(f"after the migration {len(astray)} rows would refer to nothing")
    await connection.commit()


async def _migrate_postgresql(connection: AsyncConnection) -> None:
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE}s'"))
    # Given back with the transaction, however that ends.
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
    await connection.run_sync(upgrade)
    await connection.commit()


def upgrade(connection: Connection) -> None:
    """Bring the database to the newest revision, within the transaction of the connection."""
    if _revision_of(connection) == newest_revision():
        return
    # Not at the top: most starts find the database up to date, and Alembic takes as long to load as it does to work.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - see above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    config = configuration(connection)
    here = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if unknown := set(here) - known:
        raise InvalidRequest(
            f"the database was made by a newer Leasehold (its revision {', '.join(sorted(unknown))} is not known "
            "here): install that one, or use another database"
        )
    command.upgrade(config, "head")


def newest_revision() -> str:
    """The last one that there is a migration to; their files begin with it."""
    return max(path.name for path in (_MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def _revision_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - a constant


def configuration(connection: Connection) -> Config:
    """Where the migrations are, and what to run them on. They are part of the package."""
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    # Doubled: the configuration's own syntax has a meaning for a single one.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
