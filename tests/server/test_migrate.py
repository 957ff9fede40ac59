"""The database is up to date when a worker has started, also after concurrent, killed and failed starts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from tests.server.conftest import ON_SQLITE
from tests.support.eventually import LIMIT

from leasehold import InvalidRequest, StoreUnavailable
from leasehold.server.db import migrate as migrating
from leasehold.server.db.engine import close_engine, open_engine
from leasehold.server.db.migrate import VERSION_TABLE, migrate
from leasehold.server.db.models import Row

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine
    from tests.conftest import Count
    from tests.support.processes import Child

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def engine(empty_database_url: str) -> AsyncIterator[AsyncEngine]:
    made = open_engine(empty_database_url)
    yield made
    await close_engine(made)


async def tables_of(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.run_sync(lambda plain: inspect(plain).get_table_names()))


def differences(connection: Connection) -> list[Any]:
    options = {"version_table": VERSION_TABLE, "compare_type": True}
    return compare_metadata(MigrationContext.configure(connection, opts=options), Row.metadata)


async def test_the_migrations_create_the_schema_of_the_models(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
        checks = {
            table: await connection.run_sync(
                lambda plain, table=table: {
                    check["name"] for check in inspect(plain).get_check_constraints(table)
                }
            )
            for table in Row.metadata.tables
        }
    named = {
        table.name: {c.name for c in table.constraints if type(c).__name__ == "CheckConstraint"}
        for table in Row.metadata.sorted_tables
    }
    assert checks == named


async def test_migrating_again_changes_nothing(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.execute(
            text("INSERT INTO applications (id, name, created_at) VALUES ('an id', 'kept', 1.5)")
        )
    await migrate(engine)
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT name FROM applications"))).scalars().all() == ["kept"]


async def test_a_database_that_is_up_to_date_is_left_alone_without_alembic(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.begin() as connection:
        config = await connection.run_sync(migrating.alembic_config)
    assert ScriptDirectory.from_config(config).get_heads() == [migrating.newest_revision()]
    code = (
        "import asyncio, sys\n"
        "from leasehold.server.db.engine import close_engine, open_engine\n"
        "from leasehold.server.db.migrate import migrate\n"
        "async def main():\n"
        "    engine = open_engine(sys.argv[1])\n"
        "    await migrate(engine)\n"
        "    await close_engine(engine)\n"
        "asyncio.run(main())\n"
        "print('alembic' in sys.modules)"
    )
    url = engine.url.render_as_string(hide_password=False)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out == b"False\n"


async def test_a_database_of_a_newer_version_is_refused_with_a_message(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(InvalidRequest, match=r"a newer Leasehold .*9999"):
        await migrate(engine)


async def _migrate_at_the_same_moment(parent: Any, url: str) -> None:
    import time

    from leasehold.server.db import migrate as migrating
    from leasehold.server.db.engine import close_engine, open_engine

    whole = migrating.upgrade

    def upgrade_slowly(connection: Any) -> None:
        whole(connection)
        time.sleep(1)  # long enough for the others to start, on a busy machine too

    migrating.upgrade = upgrade_slowly
    engine = open_engine(url)
    parent.send(ready=True)
    parent.receive()
    await migrating.migrate(engine)
    await close_engine(engine)
    parent.send(done=True)


async def test_several_processes_may_migrate_at_once(
    engine: AsyncEngine, empty_database_url: str, spawn: Callable[..., Child], count: Count
) -> None:
    children = [spawn(_migrate_at_the_same_moment, empty_database_url) for _ in range(count(full=4, quick=2))]
    for child in children:
        assert await child.aread(LIMIT) == {"ready": True}
    for child in children:
        child.send()
    for child in children:
        assert await child.aread(LIMIT) == {"done": True}
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
        revisions = (await connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}"))).all()
    assert len(revisions) == 1


async def _wait_inside_the_migration(parent: Any, url: str) -> None:
    import asyncio

    from leasehold.server.db import migrate as migrating
    from leasehold.server.db.engine import open_engine

    whole = migrating.upgrade

    def upgrade_and_wait(connection: Any) -> None:
        whole(connection)
        parent.send(nearly=True)
        parent.receive()

    migrating.upgrade = upgrade_and_wait
    engine = open_engine(url)
    await migrating.migrate(engine)
    await asyncio.sleep(60)


async def test_a_process_killed_during_the_migration_leaves_nothing(
    engine: AsyncEngine, empty_database_url: str, spawn: Callable[..., Child]
) -> None:
    child = spawn(_wait_inside_the_migration, empty_database_url)
    assert await child.aread(LIMIT) == {"nearly": True}
    waiting = asyncio.create_task(migrate(engine))
    child.kill()
    await asyncio.wait_for(waiting, LIMIT)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_a_migration_that_fails_leaves_nothing(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = migrating.upgrade

    def fail_at_the_end(connection: Connection) -> None:
        whole(connection)
        connection.execute(text("SELECT nothing FROM nowhere"))

    monkeypatch.setattr(migrating, "upgrade", fail_at_the_end)
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await migrate(engine)
    assert await tables_of(engine) == set()


async def test_a_database_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/missing/directory.sqlite")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await migrate(engine)
    await close_engine(engine)


@ON_SQLITE
async def test_rows_that_would_refer_to_nothing_stop_the_migration(engine: AsyncEngine) -> None:
    await migrate(engine)
    async with engine.connect() as connection:
        raw = await connection.get_raw_connection()
        await raw.driver_connection.execute("PRAGMA foreign_keys=OFF")
        await raw.driver_connection.execute("INSERT INTO projects VALUES ('an id', 'no application', 'x', 1)")
    with pytest.raises(StoreUnavailable, match="1 rows would refer to missing rows"):
        await migrate(engine)


def test_the_wheel_has_the_migrations_in_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=100, env={**os.environ})
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    place = ROOT / "src/leasehold/server/db/migrations"
    ours = {path for suffix in ("py", "mako") for path in place.rglob(f"*.{suffix}")}
    assert len(ours) >= 4
    assert {str(path.relative_to(ROOT / "src")) for path in ours} <= packed
