"""The document service: in this process over a real database and a real Valkey, or as `leasehold serve`."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import pytest
from tests.server.api import Api
from tests.server.databases import MigratedFile, PostgresDatabases
from tests.server.served import QUICK, Served
from tests.server.shared_app import SharedApp
from tests.support.eventually import LIMIT

from leasehold.server import Settings, create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from fastapi import FastAPI
    from tests.support.postgres import PostgresAddress
    from tests.support.servers import Server

ADDRESS = "http://127.0.0.1:8000"
"""The base URL of the application in this process."""

ON_SQLITE = pytest.mark.parametrize("database_kind", ["sqlite"])
"""For tests in which the database plays no part."""

ON_POSTGRESQL = pytest.mark.parametrize("database_kind", ["postgresql"])
"""For tests of features that SQLite does not have."""


class MakeSettings(Protocol):
    def __call__(self, **changes: Any) -> Settings: ...


class MakeApp(Protocol):
    async def __call__(self, **changes: Any) -> FastAPI: ...


class MakeServed(Protocol):
    def __call__(self, *arguments: str, **settings: Any) -> Served: ...


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("LEASEHOLD_", "REDIS_")):
            monkeypatch.delenv(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `both_databases` run on each kind; the others on SQLite, and on both with `--full`."""
    if "database_kind" not in metafunc.fixturenames:
        return
    if any("database_kind" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")):
        return
    is_wanted = metafunc.config.getoption("--full") or metafunc.definition.get_closest_marker(
        "both_databases"
    )
    metafunc.parametrize("database_kind", ["sqlite", "postgresql"] if is_wanted else ["sqlite"])


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> MigratedFile:
    """A migrated SQLite database, as a template."""
    return MigratedFile(tmp_path_factory.mktemp("migrated"))


@pytest.fixture(scope="session")
def postgres_databases(postgres: PostgresAddress) -> PostgresDatabases:
    """Makes databases on the session's PostgreSQL."""
    return PostgresDatabases(postgres)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path, database_kind: str) -> Iterator[str]:
    """A new migrated database without rows."""
    if database_kind == "sqlite":
        path = tmp_path / "documents.sqlite"
        request.getfixturevalue("migrated_file").copy(path)
        yield f"sqlite:///{path}"
    else:
        with request.getfixturevalue("postgres_databases").make(migrated=True) as url:
            yield url


@pytest.fixture
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path, database_kind: str) -> Iterator[str]:
    """A new database that is not migrated."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.sqlite"
    else:
        with request.getfixturevalue("postgres_databases").make(migrated=False) as url:
            yield url


@pytest.fixture
def make_settings(tmp_path: Path, valkey: Server, database_url: str) -> MakeSettings:
    """`make_settings(document_ttl=10)`: the settings of the tests, with changes."""

    def make(**changes: Any) -> Settings:
        usual = QUICK | {
            "data_dir": tmp_path / "data",
            "database_url": database_url,
            "store_url": valkey.url,
        }
        return Settings(**(usual | changes))

    return make


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings()


@pytest.fixture
async def make_app(database_url: str) -> AsyncIterator[MakeApp]:
    """`await make_app(settings)`: a started application. It is stopped at the end of the test, before its database is dropped."""
    async with AsyncExitStack() as started:

        async def make(settings: Settings) -> FastAPI:
            app = create_app(settings)
            await started.enter_async_context(app.router.lifespan_context(app))
            return app

        yield make


@pytest.fixture
async def app(make_app: MakeApp, settings: Settings) -> FastAPI:
    """The application, started."""
    return await make_app(settings)


def _shared_app(database_url: str, store: Server, directory: Path) -> SharedApp:
    return SharedApp(
        Settings(**QUICK, database_url=database_url, store_url=store.url, data_dir=directory / "data")
    )


@pytest.fixture(scope="session")
def shared_sqlite_app(
    migrated_file: MigratedFile, service_store: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedApp]:
    """The application that tests share, with the usual settings."""
    directory = tmp_path_factory.mktemp("shared")
    migrated_file.copy(directory / "documents.sqlite")
    with _shared_app(f"sqlite:///{directory}/documents.sqlite", service_store, directory) as app:
        yield app


@pytest.fixture(scope="session")
def shared_postgresql_app(
    postgres_databases: PostgresDatabases, service_store: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedApp]:
    """The same on PostgreSQL."""
    with (
        postgres_databases.make(migrated=True) as url,
        _shared_app(url, service_store, tmp_path_factory.mktemp("shared")) as app,
    ):
        yield app


@pytest.fixture
def app_under_test(request: pytest.FixtureRequest, database_kind: str) -> httpx.AsyncBaseTransport:
    """The application behind `client` and `api`: the shared one without rows, or the test's own if the test uses `app`.

    A test needs its own to read its state, to patch its parts, and to read `valkey`.
    """
    if "app" in request.fixturenames:
        return httpx.ASGITransport(request.getfixturevalue("app"))
    shared: SharedApp = request.getfixturevalue(f"shared_{database_kind}_app")
    shared.empty()
    return shared


@pytest.fixture
async def client(app_under_test: httpx.AsyncBaseTransport) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of the application that is not signed in."""
    async with httpx.AsyncClient(transport=app_under_test, base_url=ADDRESS, timeout=LIMIT) as made:
        yield made


@pytest.fixture
async def api(client: httpx.AsyncClient) -> AsyncIterator[Api]:
    """Creates users, applications, projects and documents through the application's own routes."""
    async with Api(client) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path, valkey: Server) -> Iterator[MakeServed]:
    """`served("--workers", "2", document_ttl=10)`: a running `leasehold serve`, stopped at the end of the test.

    On the session's Valkey and SQLite in the test's directory, unless `store_url` and `database_url` say otherwise;
    `store_url=None` is the embedded one.
    """
    with ExitStack() as running:

        def make(*arguments: str, **settings: Any) -> Served:
            usual = QUICK | {"data_dir": tmp_path / "data", "store_url": valkey.url}
            return running.enter_context(Served(arguments, usual | settings))

        yield make


def client_of(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """An HTTP client of an application in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, **options), base_url=ADDRESS)
