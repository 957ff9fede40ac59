"""`/healthz` and `/readyz`: open without a login, and free of internal details."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of
from tests.support.clusters import Cluster
from tests.support.eventually import eventually_async

from leasehold.server.app.health import _check_part

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx
    from tests.support.postgres import PostgresAddress
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server


async def test_it_lives_and_is_ready(client: httpx.AsyncClient) -> None:
    alive = await client.get("/healthz")
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "database": "ok", "store": "ok"})


@ON_SQLITE
async def test_without_the_store_it_lives_and_is_not_ready(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Callable[..., Server]
) -> None:
    store = own_server("valkey9")
    app = await make_app(make_settings(store_url=store.url, store_timeout=0.5))
    async with client_of(app) as client:
        store.pause()
        answer = await _not_ready(client)
        assert (answer["database"], answer["store"]) == ("ok", "unavailable")
        assert answer["message"] == "no answer from: store"
        assert (await client.get("/healthz")).status_code == 200
        store.resume()
        await _ready(client)


@ON_SQLITE
async def test_a_store_that_answers_with_an_error_is_not_ready(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Callable[..., Server]
) -> None:
    store = own_server("valkey9")
    app = await make_app(make_settings(store_url=store.url))
    async with client_of(app) as client:
        await _ready(client)
        store.call("ACL", "SETUSER", "default", "-ping")
        assert (await _not_ready(client))["store"] == "unavailable"


@ON_SQLITE
async def test_a_cluster_is_ready_when_every_slot_is_served(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    with Cluster(primaries=2, cluster_require_full_coverage=False) as cluster:
        app = await make_app(make_settings(store_url=cluster.url, store_timeout=0.5))
        async with client_of(app) as client:
            await _ready(client)
            cluster.call_all("CLUSTER", "DELSLOTS", 17)
            assert (await _not_ready(client))["store"] == "unavailable"
            cluster.primaries[0].call("CLUSTER", "ADDSLOTS", 17)
            await _ready(client)
            cluster.primaries[1].pause()
            assert (await _not_ready(client))["store"] == "unavailable"
            cluster.primaries[1].resume()
            await _ready(client)


@pytest.mark.both_databases
async def test_without_the_database_it_lives_and_is_not_ready(
    make_app: MakeApp,
    make_settings: MakeSettings,
    proxy: Callable[[int], FaultProxy],
    request: pytest.FixtureRequest,
    database_url: str,
    tmp_path: Path,
) -> None:
    if database_url.startswith("sqlite"):
        directory = tmp_path / "here"
        directory.mkdir()
        app = await make_app(make_settings(database_url=f"sqlite:///{directory}/documents.sqlite"))
        async with client_of(app) as client:
            await app.state.services.engine.dispose()  # so that it has to be opened again
            away = directory.rename(tmp_path / "away")
            answer = await _not_ready(client)
            away.rename(directory)
            await _ready(client)
    else:
        postgres: PostgresAddress = request.getfixturevalue("postgres")
        between = proxy(postgres.port)
        url = database_url.replace(f":{postgres.port}/", f":{between.port}/")
        app = await make_app(make_settings(database_url=url))
        async with client_of(app) as client:
            between.refuse()
            between.cut()
            answer = await _not_ready(client)
            between.refuse(False)
            await _ready(client)
    assert (answer["database"], answer["store"]) == ("unavailable", "ok")


@ON_SQLITE
async def test_a_missing_dependency_is_named_without_its_address(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Callable[..., Server]
) -> None:
    store = own_server("valkey9")
    app = await make_app(make_settings(store_url=store.url))
    store.kill()
    async with client_of(app) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "store_unavailable"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "127.0.0.1" not in answer.text
    assert str(store.port) not in answer.text


@ON_SQLITE
@pytest.mark.usefixtures("app")
async def test_concurrent_checks_ask_the_store_once(client: httpx.AsyncClient, valkey: Server) -> None:
    await client.get("/readyz")
    before = valkey.info("commandstats")["cmdstat_ping"]["calls"]
    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert valkey.info("commandstats")["cmdstat_ping"]["calls"] - before < 10


async def test_a_part_that_is_too_slow_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def too_slow() -> None:
        raise TimeoutError

    assert await _check_part("store", too_slow()) == "unavailable"
    assert caplog.messages == ["the store does not answer: TimeoutError"]


async def _not_ready(client: httpx.AsyncClient) -> dict[str, str]:
    async def ask() -> dict[str, str] | None:
        answer = await client.get("/readyz")
        return answer.json() if answer.status_code == 503 else None

    return await eventually_async(ask) or {}


async def _ready(client: httpx.AsyncClient) -> None:
    async def ask() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await eventually_async(ask)
