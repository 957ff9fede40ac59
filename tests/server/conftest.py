"""The document service: in this process over a real database and a real Valkey, or as `leasehold serve`."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import httpx
import pytest
from tests.server.api import Api
from tests.server.serving import Served

from leasehold.server import Settings, create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from fastapi import FastAPI
    from tests.support.postgres import Postgres
    from tests.support.servers import Server

ADDRESS = "http://127.0.0.1:8000"
"""Where the application in this process believes to be."""

ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For tests in which the database plays no part."""

QUICK: dict[str, Any] = {
    "secret_key": "a secret of the tests, which has to be long",
    "argon2_time_cost": 1,
    "argon2_memory_kib": 8,
    "rate_acquire": "off",
    "rate_keep": "off",
    "rate_sign_in": "off",
    "rate_other": "off",
}
"""Passwords that cost nothing, and no limits: a test that is about those sets them."""


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


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of the test's own, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/documents.sqlite"
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    name = f"test_{uuid4().hex}"
    with postgres.connect() as connection:
        # From the template that nobody ever connects to, so that it is not in use.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        yield f"postgresql://postgres@127.0.0.1:{postgres.port}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def make_settings(tmp_path: Path, valkey: Server, database_url: str) -> MakeSettings:
    """`make_settings(document_ttl=10)`: those of the tests, with changes."""

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
    """`await make_app(settings)`: a started application, ended with the test, and before the database is."""
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


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Asks the application, as nobody in particular."""
    async with client_of(app) as made:
        yield made


@pytest.fixture
async def api(client: httpx.AsyncClient) -> AsyncIterator[Api]:
    """People, applications, projects and documents, made through the application's own routes."""
    async with Api(client) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path, valkey: Server) -> Iterator[MakeServed]:
    """`served("--workers", "2", document_ttl=10)`: a running `leasehold serve`, ended with the test.

    On the session's Valkey and SQLite in the test's directory, unless `store_url` and `database_url` say otherwise;
    `store_url=None` is the embedded one.
    """
    with ExitStack() as running:

        def make(*arguments: str, **settings: Any) -> Served:
            usual = QUICK | {"data_dir": tmp_path / "data", "store_url": valkey.url}
            return running.enter_context(Served(arguments, usual | settings))

        yield make


def client_of(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """Asks an application in this process."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, **options), base_url=ADDRESS)
