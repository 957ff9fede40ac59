"""The application as a whole: what it needs to start, what it shows to which caller, and that it leaves nothing behind."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.api import Api
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of
from tests.support.eventually import eventually_async
from tests.support.servers import reserve_port

from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.server import create_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx
    from fastapi import FastAPI
    from tests.support.servers import Server


OPEN = {
    "/healthz",
    "/readyz",
    "/api/auth/register",
    "/api/auth/login",
    "/api/auth/refresh",
    "/api/auth/logout",
}
"""Routes without an access token."""


@ON_SQLITE
def test_creating_it_opens_no_connection(
    make_settings: MakeSettings, empty_database_url: str, tmp_path: Path, valkey: Server
) -> None:
    connections = valkey.info("stats")["total_connections_received"]
    create_app(make_settings(database_url=empty_database_url))
    assert not (tmp_path / "empty.sqlite").exists()
    assert not (tmp_path / "data").exists()
    assert valkey.info("stats")["total_connections_received"] - connections <= 1  # the test's own connection


@ON_SQLITE
async def test_files_in_the_data_directory_are_private(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    data = make_settings().data_dir
    data.mkdir(mode=0o755)
    app = await make_app(make_settings(database_url=f"sqlite:///{data}/documents.sqlite", secret_key=None))
    async with client_of(app) as client, Api(client) as api:
        await api.register("Ana")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"documents.sqlite", "secret.key"} <= set(modes)


@ON_SQLITE
async def test_with_external_store_and_database_no_directory_is_created(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    settings = make_settings()
    await make_app(settings)
    assert not settings.data_dir.exists()


@ON_SQLITE
async def test_it_starts_without_the_store_and_serves_locks_once_the_store_is_up(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Callable[..., Server]
) -> None:
    store = own_server("valkey9")
    store.kill()
    app = await make_app(make_settings(store_url=store.url, store_timeout=0.5))
    async with client_of(app) as client, Api(client) as api:
        ana = await api.register("Ana")
        document = await ana.create_document()
        refused = await ana.http.post(f"/api/documents/{document}/lock")
        assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
        store.start()

        async def is_granted() -> bool:
            return (await ana.http.post(f"/api/documents/{document}/lock")).status_code == 200

        await eventually_async(is_granted)


@ON_SQLITE
async def test_it_does_not_start_without_a_database(make_settings: MakeSettings) -> None:
    with reserve_port() as unused_port:
        url = f"postgresql://me:canary@127.0.0.1:{unused_port.getsockname()[1]}/x"
        app = create_app(make_settings(database_url=url))
        with pytest.raises(StoreUnavailable) as told:
            async with app.router.lifespan_context(app):
                pass
    assert "canary" not in str(told.value)


@ON_SQLITE
async def test_it_does_not_start_with_a_secret_file_that_others_can_read(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    settings = make_settings(secret_key=None)
    await make_app(settings)
    (settings.data_dir / "secret.key").chmod(0o640)
    with pytest.raises(InvalidRequest, match="chmod 600"):
        await make_app(settings)


@ON_SQLITE
async def test_two_applications_with_one_secret_accept_each_others_tokens(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    one, two = await make_app(make_settings()), await make_app(make_settings())
    stranger = await make_app(make_settings(secret_key="another secret, which is as long as it must be"))
    async with client_of(one) as client, Api(client) as api:
        token = {"Authorization": f"Bearer {(await api.register('Ana')).token}"}
    async with client_of(two) as client:
        assert (await client.get("/api/auth/me", headers=token)).status_code == 200
    async with client_of(stranger) as client:
        assert (await client.get("/api/auth/me", headers=token)).status_code == 401


@ON_SQLITE
@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc", "/docs/oauth2-redirect", "/metrics"])
async def test_the_documentation_is_closed_by_default(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


@ON_SQLITE
async def test_the_documentation_can_be_opened(make_app: MakeApp, make_settings: MakeSettings) -> None:
    app = await make_app(make_settings(expose_docs=True))
    async with client_of(app) as client:
        assert (await client.get("/openapi.json")).json()["info"]["title"] == "Leasehold"
        assert "swagger" in (await client.get("/docs")).text


@ON_SQLITE
async def test_every_route_but_the_open_ones_needs_an_access_token(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    asked = 0
    for path, method in _routes(app):
        if path in OPEN:
            continue
        answer = await client.request(method, path.replace("{", "").replace("}", ""), json={})
        assert (answer.status_code, answer.json().get("code")) == (401, "not_signed_in"), (method, path)
        asked += 1
    assert asked > 10


@ON_SQLITE
async def test_a_budget_that_is_used_up_answers_429_on_every_route(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    rates = {"rate_acquire": "1/hour", "rate_keep": "1/hour", "rate_other": "20/hour"}
    app = await make_app(make_settings(**rates))
    async with client_of(app) as client, Api(client) as api:
        ana = await api.register("Ana")
        for path, method in _routes(app):
            if path in OPEN or path.startswith("/api/auth"):
                continue
            answers = [
                await ana.http.request(method, path.replace("{", "").replace("}", ""), json={})
                for _ in range(22)
            ]
            assert answers[-1].status_code == 429, (method, path)
            assert answers[-1].headers["retry-after"]


@ON_SQLITE
async def test_a_caller_over_the_lock_budget_can_still_renew_save_and_release(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings(rate_acquire="2/hour"))
    async with client_of(app) as client, Api(client) as api:
        ana = await api.register("Ana", tab="t")
        document = await ana.create_document()
        lock = f"/api/documents/{document}/lock"
        granted = (await ana.http.post(lock)).json()
        await ana.http.post(lock)
        refused = await ana.http.post(lock)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert (await ana.http.post(f"{lock}/force-take")).status_code == 429
        for _ in range(5):
            assert (await ana.http.post(f"{lock}/heartbeat")).json()["extended"] is True
        saved = await ana.http.put(
            f"/api/documents/{document}/content",
            json={"content": "text", "base_version": granted["content_version"], "fence": granted["fence"]},
        )
        assert saved.status_code == 200, saved.text
        assert (await ana.http.delete(lock)).json()["locked"] is False


@ON_SQLITE
async def test_rates_are_per_user(make_app: MakeApp, make_settings: MakeSettings) -> None:
    app = await make_app(make_settings(rate_acquire="1/hour"))
    async with client_of(app) as client, Api(client) as api:
        for person in [await api.register(name) for name in ("Ana", "Ben")]:
            document = await person.create_document()
            codes = [
                (await person.http.post(f"/api/documents/{document}/lock")).status_code for _ in range(2)
            ]
            assert codes == [200, 429]


@ON_SQLITE
async def test_an_ended_login_has_no_socket_and_no_ticket(app: FastAPI) -> None:
    """Other tests cover the socket itself; this one that logout reaches it."""
    async with client_of(app) as client, Api(client) as api:
        ana = await api.register("Ana")
        live = app.state.services.live
        principal = app.state.services.auth.principal_of(ana.token)
        assert await live._notices.have_ended([_admission(principal)]) == [False]
        assert (await ana.http.post("/api/auth/logout")).status_code == 204

        async def has_ended() -> bool:
            return await live._notices.have_ended([_admission(principal)]) == [True]

        await eventually_async(has_ended)


def _admission(principal: Any) -> Any:
    from leasehold.documents.store.tickets import Admission

    return Admission(principal, 0)


def _routes(app: FastAPI) -> list[tuple[str, str]]:
    document = app.openapi()
    return [
        (path, method.upper())
        for path, methods in document["paths"].items()
        for method in methods
        if method in {"get", "post", "put", "patch", "delete"}
    ]
