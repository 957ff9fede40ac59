"""Fixtures of the document tests: editors, and workers that serve them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import redis.asyncio
from tests.documents.host import DictStore
from tests.support.eventually import LIMIT, eventually_async
from tests.support.matrix import BORROWED, OURS, note_collected, ways_in

import leasehold
from leasehold.documents import DocumentLocks, Editor, Times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

TIMES = Times(ttl=60, heartbeat=10, idle=30, save_within=30)
"""Nothing runs out during a test, however slow the machine."""

HASTY = Times(ttl=60, heartbeat=10, idle=30, save_within=0.3)
"""A silent holder does not keep a test waiting."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "how" in metafunc.fixturenames:
        metafunc.parametrize("how", ways_in(metafunc), indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    note_collected(item)


async def passed(server: Server, moment: float) -> None:
    """Wait until the server's clock shows more than this."""

    def is_past() -> bool:
        seconds, microseconds = map(int, server.call("TIME"))
        return seconds + microseconds / 1e6 > moment

    await eventually_async(is_past)


class Desk:
    """A store of locks, a host with the document "doc", and as many workers over both as a test needs."""

    def __init__(self, server: Server, how: str, opened: AsyncExitStack) -> None:
        self.server = server
        self.how = how
        self.host = DictStore("doc")
        self.clients: list[leasehold.Client] = []
        self._opened = opened

    async def worker(self, *, times: Times = TIMES, url: str | None = None) -> DocumentLocks:
        """One more process's view, over a connection of its own."""
        url = url or self.server.url
        if self.how == OURS:
            client = await self._opened.enter_async_context(leasehold.connect(url))
        else:
            lent = redis.asyncio.Redis.from_url(url)
            self._opened.push_async_callback(lent.aclose)
            client = await self._opened.enter_async_context(leasehold.from_client(lent))
        self.clients.append(client)
        return DocumentLocks(client, self.host, times=times)


@pytest.fixture
def patient_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is given up has undone everything when it ends, however slow the machine."""
    monkeypatch.setattr("leasehold.documents.store.fence_registration._UNDO_WITHIN", LIMIT)


@pytest.fixture
def how(request: pytest.FixtureRequest) -> str:
    """A way in, see `ways_in`."""
    return request.param


@pytest.fixture
async def desk(any_server: Server, how: str) -> AsyncIterator[Desk]:
    """On every server, over every way in."""
    async with AsyncExitStack() as opened:
        yield Desk(any_server, how, opened)


@pytest.fixture
async def own_desk(any_server: Server) -> AsyncIterator[Desk]:
    """On every server, over our own connection."""
    async with AsyncExitStack() as opened:
        yield Desk(any_server, OURS, opened)


@pytest.fixture
async def lent_desk(valkey: Server) -> AsyncIterator[Desk]:
    """On Valkey, over redis-py: for what does not depend on the server."""
    async with AsyncExitStack() as opened:
        yield Desk(valkey, BORROWED, opened)


@pytest.fixture
async def valkey_desk(valkey: Server, how: str) -> AsyncIterator[Desk]:
    """On Valkey, over every way in: for what does not depend on the server."""
    async with AsyncExitStack() as opened:
        yield Desk(valkey, how, opened)


@pytest.fixture
async def own_valkey_desk(valkey: Server) -> AsyncIterator[Desk]:
    """On Valkey, over our own connection."""
    async with AsyncExitStack() as opened:
        yield Desk(valkey, OURS, opened)


@pytest.fixture
async def locks(desk: Desk) -> DocumentLocks:
    return await desk.worker()


@pytest.fixture
async def valkey_locks(valkey_desk: Desk) -> DocumentLocks:
    return await valkey_desk.worker()


@pytest.fixture
def ana() -> Editor:
    return Editor("user-ana", "Ana", "tab-1")


@pytest.fixture
def ana_elsewhere() -> Editor:
    """Another tab of the same person."""
    return Editor("user-ana", "Ana", "tab-2")


@pytest.fixture
def bob() -> Editor:
    return Editor("user-bob", "Bob", "tab-1")


@pytest.fixture
def olga() -> Editor:
    """An owner, who may take."""
    return Editor("user-olga", "Olga", "tab-1")
