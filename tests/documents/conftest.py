"""What the tests of documents share: people, and workers that serve them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import redis.asyncio
from tests.documents.host import DictStore

import leasehold
from leasehold.documents import DocumentLocks, Editor, Times

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

TIMES = Times(ttl=60, heartbeat=10, idle=30, save_within=30)
"""Nothing runs out during a test, however slow the machine."""

HASTY = Times(ttl=60, heartbeat=10, idle=30, save_within=0.3)
"""A silent holder does not keep a test waiting."""


class Desk:
    """A store of locks, a host with the document "doc", and as many workers over both as a test wants."""

    def __init__(self, server: Server, how: str, opened: AsyncExitStack) -> None:
        self.server = server
        self.how = how
        self.host = DictStore("doc")
        self.clients: list[leasehold.Client] = []
        self._opened = opened

    async def worker(self, *, times: Times = TIMES, url: str | None = None) -> DocumentLocks:
        """One more process's view, over a connection of its own."""
        url = url or self.server.url
        if self.how == "connect":
            client = await self._opened.enter_async_context(leasehold.connect(url))
        else:
            lent = redis.asyncio.Redis.from_url(url)
            self._opened.push_async_callback(lent.aclose)
            client = await self._opened.enter_async_context(leasehold.from_client(lent))
        self.clients.append(client)
        return DocumentLocks(client, self.host, times=times)


@pytest.fixture(params=["connect", "from_client"])
async def desk(any_server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    """On every server, over our own connection and over somebody else's client."""
    async with AsyncExitStack() as opened:
        yield Desk(any_server, request.param, opened)


@pytest.fixture
async def own_desk(any_server: Server) -> AsyncIterator[Desk]:
    """On every server, over our own connection."""
    async with AsyncExitStack() as opened:
        yield Desk(any_server, "connect", opened)


@pytest.fixture
async def lent_desk(any_server: Server) -> AsyncIterator[Desk]:
    """On every server, over somebody else's client."""
    async with AsyncExitStack() as opened:
        yield Desk(any_server, "from_client", opened)


@pytest.fixture
async def locks(desk: Desk) -> DocumentLocks:
    return await desk.worker()


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
