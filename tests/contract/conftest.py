"""One behaviour suite for every server flavour and every kind of client; after each test, no key without expiry (S13)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.clients import CLUSTER, Locks, combinations, flavours, keys_that_stay, open_side, sides_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    import redis
    from tests.conftest import Clusters, Servers
    from tests.support.clusters import Cluster
    from tests.support.servers import Server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    def is_wanted(marker: str) -> bool:
        is_marked = metafunc.definition.get_closest_marker(marker) is not None
        return is_marked or metafunc.config.getoption("--full")

    if "combination" in metafunc.fixturenames:
        wanted = combinations(decoded=is_wanted("decoded"), clustered=is_wanted("clustered"))
        metafunc.parametrize("combination", wanted, ids="-".join, indirect=True)
    elif "flavour" in metafunc.fixturenames:
        metafunc.parametrize("flavour", flavours(clustered=is_wanted("clustered")), indirect=True)


@pytest.fixture
def combination(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A server flavour and a side. Tests marked `decoded` have the decoded sides also without `--full`, and those marked
    `clustered` the clusters."""
    return request.param


@pytest.fixture
def flavour(request: pytest.FixtureRequest) -> str:
    """A server flavour, for tests that use every side at once."""
    return request.param


@pytest.fixture
def server(request: pytest.FixtureRequest, servers: Servers, clusters: Clusters) -> Server | Cluster:
    """The flavour's server or cluster, emptied."""
    if "combination" in request.fixturenames:
        name = request.getfixturevalue("combination")[0]
    else:
        name = request.getfixturevalue("flavour")
    if name.startswith(CLUSTER):
        return clusters.empty(name.removeprefix(CLUSTER))
    return servers.empty(name)


@pytest.fixture
def admin(server: Server | Cluster) -> Iterator[redis.Redis]:
    """A client for the server's own data. At the end of the test, every key must have an expiry."""
    with server.admin() as client:
        yield client
        assert keys_that_stay(client) == {}


@pytest.fixture
async def opened(
    server: Server | Cluster, admin: redis.Redis
) -> AsyncIterator[Callable[..., Awaitable[Locks]]]:
    """`await opened("blocking", namespace="x")`: one more client, closed with the test."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    async with AsyncExitStack() as stack:

        async def make(side: str, **options: Any) -> Locks:
            return await stack.enter_async_context(open_side(side, server, **options))

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
