"""Fixtures of the tests of operations."""

from __future__ import annotations

import threading
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import redis.asyncio
import uvicorn
from fastapi import FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase
from tests.support.brokers import nats_url, rabbit_url
from tests.support.eventually import LIMIT, eventually
from tests.support.servers import reserve_port
from tests.support.shared_services import port_of

import leasehold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.support.servers import Server


@pytest.fixture
async def locks(valkey: Server) -> AsyncIterator[leasehold.Client]:
    """A client of the session's Valkey, emptied."""
    async with leasehold.connect(valkey.url, timeout=LIMIT) as client:
        yield client


@pytest.fixture
async def impatient() -> AsyncIterator[Callable[[Server, float], leasehold.Client]]:
    """`impatient(server, 2)`: a client that waits that long for an answer, for tests whose store goes away. It connects with
    its first request."""
    async with AsyncExitStack() as made:

        def make(server: Server, timeout: float) -> leasehold.Client:
            client = leasehold.connect(server.url, timeout=timeout)
            made.push_async_callback(client.close)
            return client

        yield make


@pytest.fixture
def listening() -> Iterator[Callable[[FastAPI], str]]:
    """`listening(app)`: the URL of an application behind a real socket."""
    with ExitStack() as started:
        yield lambda app: started.enter_context(served(app))


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    with reserve_port() as reservation:
        port = reservation.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            eventually(lambda: server.started)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(LIMIT)


@pytest.fixture
async def names(valkey: Server, locks: leasehold.Client, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """What examples leave to the reader: clients, an application, and a database with one deal of 100."""

    class Base(DeclarativeBase):
        pass

    app = FastAPI()
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/deals.db")
    async with engine.begin() as connection:
        columns = "id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, fence BIGINT DEFAULT 0 NOT NULL"
        await connection.execute(text(f"CREATE TABLE deals ({columns})"))
        await connection.execute(text("INSERT INTO deals (id, amount) VALUES (42, 100)"))
    async with (
        redis.asyncio.Redis.from_url(valkey.url) as client,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://deals") as web,
    ):
        yield {
            "url": valkey.url,
            "locks": locks,
            "client": client,
            "Base": Base,
            "sessions": async_sessionmaker(engine),
            "app": app,
            "web": web,
        }
    await engine.dispose()


@pytest.fixture(scope="session")
def rabbit() -> str:
    """The URL of the run's RabbitMQ; `make system` installs it."""
    return rabbit_url(port_of("rabbit"))


@pytest.fixture(scope="session")
def nats() -> str:
    """The URL of the run's NATS with JetStream; `make system` installs it."""
    return nats_url(port_of("nats"))
