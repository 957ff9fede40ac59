"""Migration of the database when a worker starts, safe for any number of concurrent starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.server.db.engine import close_engine, connection_errors, open_engine

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

VERSION_TABLE = "leasehold_schema"
"""The table of the revision. Not Alembic's default name, because other migrations may share the database."""

# An arbitrary number.
_ADVISORY_LOCK = 5_327_346_530
_TIMEOUT = 60
_MIGRATIONS = Path(__file__).with_name("migrations")


async def migrate(engine: AsyncEngine) -> None:
    """Migrate the database to the newest revision, in one transaction.

    Concurrent calls wait for each other. `InvalidRequest` if a newer Leasehold has migrated the database, and
    `StoreUnavailable` if it does not answer, or another process takes too long; nothing is changed then.
    """
    # An engine of its own, because it needs longer timeouts and other connection settings.
    own = open_engine(engine.url, patience=_TIMEOUT, statement=None)
    try:
        async with own.connect() as connection:
            if own.dialect.name == "sqlite":
                await _migrate_sqlite(connection)
            else:
                await _migrate_postgresql(connection)
    except connection_errors() as error:
        raise StoreUnavailable(f"cannot migrate the database: {error}") from error
    finally:
        await close_engine(own)


async def _migrate_sqlite(connection: AsyncConnection) -> None:
    raw = await connection.get_raw_connection()
    assert raw.driver_connection is not None
    # Before the transaction, because it has no effect within one. A table is changed by creating a new one and dropping
    # the old, which would delete every row that refers to it.
    await raw.driver_connection.execute("PRAGMA foreign_keys=OFF")
    await connection.run_sync(upgrade)  # within BEGIN IMMEDIATE, so the others wait
    if orphans := (await connection.execute(text("PRAGMA foreign_key_check"))).all():
        raise StoreUnavailable(f"after the migration {len(orphans)} rows would refer to missing rows")
    await connection.commit()


async def _migrate_postgresql(connection: AsyncConnection) -> None:
    await connection.execute(text(f"SET LOCAL lock_timeout = '{_TIMEOUT}s'"))
    # Released with the transaction, however that ends.
    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
    await connection.run_sync(upgrade)
    await connection.commit()


def upgrade(connection: Connection) -> None:
    """Migrate to the newest revision, within the transaction of the connection."""
    if _revision_of(connection) == newest_revision():
        return
    # Not at the top, because most starts need no migration, and loading Alembic takes as long as migrating.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - see above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    config = alembic_config(connection)
    here = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if unknown := set(here) - known:
        raise InvalidRequest(
            f"a newer Leasehold has migrated the database (to the unknown revision {', '.join(sorted(unknown))}): "
            "install that version, or use another database"
        )
    command.upgrade(config, "head")


def newest_revision() -> str:
    """The newest revision. The names of the migration files start with theirs."""
    return max(path.name for path in (_MIGRATIONS / "versions").glob("[0-9]*.py")).partition("_")[0]


def _revision_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608 - a constant


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for the migrations of this package on ``connection``."""
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    # Doubled, because a single one has a meaning in the configuration's syntax.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
