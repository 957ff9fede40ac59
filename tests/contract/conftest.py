"""One behaviour suite for every server flavour and every kind of client; after each test, no key without expiry (S13)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.clients import (
    ALL_TOPOLOGIES,
    TOPOLOGIES,
    Locks,
    combinations,
    keys_that_stay,
    open_side,
    sides_of,
    stores,
)
from tests.support.sentinels import Monitored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import redis
    from tests.conftest import Clusters, Servers
    from tests.support.clusters import Cluster
    from tests.support.servers import Server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "combination" in metafunc.fixturenames:
        wanted = combinations(_topologies(metafunc), decoded=_runs("decoded", metafunc))
        metafunc.parametrize("combination", wanted, ids="-".join, indirect=True)
    elif "flavour" in metafunc.fixturenames:
        metafunc.parametrize("flavour", stores(_topologies(metafunc)), indirect=True, scope="function")


def _topologies(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    if metafunc.config.getoption("--full"):
        return ALL_TOPOLOGIES
    return TOPOLOGIES if _runs("topologies", metafunc) else ()


def _runs(marker: str, metafunc: pytest.Metafunc) -> bool:
    """Whether a test runs on what its marker stands for."""
    is_marked = metafunc.definition.get_closest_marker(marker) is not None
    return is_marked or metafunc.config.getoption("--full")


@pytest.fixture
def combination(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A server flavour or a topology, and a side. Those of the markers `decoded` and `topologies` are left out without
    `--full`, if the test is not marked."""
    return request.param


@pytest.fixture
def flavour(request: pytest.FixtureRequest) -> str:
    """A server flavour or a topology, for tests that use every side at once."""
    return request.param


class Topologies:
    """The stores of more than one server, started when first asked for."""

    def __init__(self, made: ExitStack, clusters: Clusters) -> None:
        self._made = made
        self._clusters = clusters
        self._monitored: Monitored | None = None

    def empty(self, name: str) -> Monitored | Cluster:
        """The topology without any data."""
        if name == "cluster":
            return self._clusters.empty("valkey9")
        if name == "cluster_redis62":
            return self._clusters.empty("redis62")
        if self._monitored is None:
            self._monitored = self._made.enter_context(Monitored())
        self._monitored.primary.call("FLUSHALL")
        return self._monitored


@pytest.fixture(scope="session")
def topologies(clusters: Clusters) -> Iterator[Topologies]:
    """One of each for all tests of this process."""
    with ExitStack() as made:
        yield Topologies(made, clusters)


@pytest.fixture
def store(request: pytest.FixtureRequest, servers: Servers) -> Server | Monitored | Cluster:
    """The store under test, emptied."""
    if "combination" in request.fixturenames:
        name = request.getfixturevalue("combination")[0]
    else:
        name = request.getfixturevalue("flavour")
    if name in ALL_TOPOLOGIES:
        return request.getfixturevalue("topologies").empty(name)
    return servers.empty(name)


@pytest.fixture
def server(store: Server | Monitored | Cluster) -> Server | Cluster:
    """The server that has the data; all of those of a cluster."""
    return store.primary if isinstance(store, Monitored) else store


@pytest.fixture
def admin(server: Server | Cluster) -> Iterator[redis.Redis]:
    """A client for the server's own data. At the end of the test, every key must have an expiry."""
    with server.admin() as client:
        yield client
        assert keys_that_stay(client) == {}


@pytest.fixture
async def opened(
    store: Server | Monitored | Cluster, admin: redis.Redis
) -> AsyncIterator[Callable[..., Awaitable[Locks]]]:
    """`await opened("blocking", namespace="x")`: one more client, closed with the test."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    async with AsyncExitStack() as stack:

        async def make(side: str, **options: Any) -> Locks:
            return await stack.enter_async_context(open_side(side, store, **options))

        yield make


@pytest.fixture
async def locks(combination: tuple[str, str], opened: Callable[..., Awaitable[Locks]]) -> Locks:
    """The client under test."""
    return await opened(combination[1])


@pytest.fixture
async def rival(combination: tuple[str, str], opened: Callable[..., Awaitable[Locks]]) -> Locks:
    """Another client of the same kind, with connections of its own."""
    return await opened(combination[1])


@pytest.fixture
async def every_side(flavour: str, opened: Callable[..., Awaitable[Locks]]) -> dict[str, Locks]:
    """Every side at once, by name."""
    return {side: await opened(side) for side in sides_of(flavour)}


@pytest.fixture
def on_every_side(every_side: dict[str, Locks]) -> Callable[..., Awaitable[None]]:
    """`await on_every_side(behaviour)`: `behaviour(locks, name)` on all sides side by side, so that what takes
    a second on one takes a second on all. Each side has a lock of its own."""

    async def run(behaviour: Callable[[Locks, str], Awaitable[None]]) -> None:
        async def one(side: str, locks: Locks) -> None:
            try:
                await behaviour(locks, f"lock of {side}")
            except BaseException as error:
                error.add_note(f"on the side {side!r}")
                raise

        async with asyncio.TaskGroup() as group:
            for side, locks in every_side.items():
                group.create_task(one(side, locks))

    return run
