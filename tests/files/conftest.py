"""Fixtures of the file tests: a root, and clients as of several processes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from tests.contract.clients import keys_that_stay
from tests.files.both_sides import SIDES, file_locks
from tests.support.eventually import LIMIT
from tests.support.matrix import OURS, note_collected, ways_in

import leasehold
from leasehold.files import FileSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers import Server

PATIENT = FileSettings(ttl=60, wait=LIMIT)
"""Nothing runs out during a test, however slow the machine."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way_in" in metafunc.fixturenames:
        ways = [(side, how) for side in SIDES for how in ways_in(metafunc)]
        metafunc.parametrize("way_in", ways, ids=["-".join(way) for way in ways], indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    note_collected(item)


class Shop:
    """A store of locks, a root, and clients of one kind; each has a connection of its own."""

    def __init__(self, server: Server, root: Path, side: str, how: str, opened: AsyncExitStack) -> None:
        self.server = server
        self.root = root
        self.side = side
        self.how = how
        self._opened = opened

    async def client(self, url: str | None = None, **options: Any) -> Any:
        """One more client."""
        url = url or self.server.url
        if self.how == OURS and self.side == "async":
            return await self._opened.enter_async_context(leasehold.connect(url, **options))
        if self.side == "async":
            lent = redis.asyncio.Redis.from_url(url)
            self._opened.push_async_callback(lent.aclose)
            return await self._opened.enter_async_context(leasehold.from_client(lent, **options))
        if self.how == OURS:
            client = leasehold.blocking.connect(url, **options)
        else:
            existing = redis.Redis.from_url(url)
            self._opened.callback(existing.close)
            client = leasehold.from_client(existing, **options)
        self._opened.push_async_callback(asyncio.to_thread, client.close)
        return client

    async def files(self, url: str | None = None, *, settings: FileSettings = PATIENT, **options: Any) -> Any:
        """One more process's view."""
        return file_locks(await self.client(url), self.root, settings=settings, **options)

    async def session(self, session_id: str, **options: Any) -> Any:
        """A session in a process of its own."""
        secret, purpose = options.pop("secret", None), options.pop("purpose", None)
        return await (await self.files(**options)).session(session_id, secret=secret, purpose=purpose)

    def stored(self, pattern: str = "*") -> list[bytes]:
        """The keys in the store."""
        with self.server.admin() as admin:
            return sorted(admin.scan_iter(pattern))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


async def _shop(server: Server, root: Path, side: str, how: str) -> AsyncIterator[Shop]:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    async with AsyncExitStack() as opened:
        yield Shop(server, root, side, how, opened)
    with server.admin() as admin:
        assert keys_that_stay(admin) == {}  # S13


@pytest.fixture
def way_in(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A side (asyncio or threads) and a way in, see `ways_in`."""
    return request.param


@pytest.fixture
async def shop(any_server: Server, root: Path, way_in: tuple[str, str]) -> AsyncIterator[Shop]:
    """On every server, for asyncio and threads, over every way in."""
    async for made in _shop(any_server, root, *way_in):
        yield made


@pytest.fixture
async def valkey_shop(valkey: Server, root: Path, way_in: tuple[str, str]) -> AsyncIterator[Shop]:
    """On Valkey, for asyncio and threads, over every way in: for behaviour that does not depend on the server."""
    async for made in _shop(valkey, root, *way_in):
        yield made


@pytest.fixture
async def async_shop(any_server: Server, root: Path) -> AsyncIterator[Shop]:
    """On every server, for asyncio."""
    async for made in _shop(any_server, root, "async", OURS):
        yield made


@pytest.fixture
async def own_shop(valkey: Server, root: Path) -> AsyncIterator[Shop]:
    """On Valkey, for asyncio: for behaviour that does not depend on the server."""
    async for made in _shop(valkey, root, "async", OURS):
        yield made
