"""The demo: a team on an empty database, whose passwords are refused outside the demo."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select
from tests.server.api import PASSWORD, Api
from tests.server.conftest import ON_SQLITE, MakeApp, MakeServed, MakeSettings, client_of

from leasehold.server.app.demo import create_demo
from leasehold.server.app.demo_team import TEAM
from leasehold.server.auth.passwords import DEMO_MARK
from leasehold.server.db.engine import reading
from leasehold.server.db.models import ApplicationRow, DocumentRow, MemberRow, ProjectRow, UserRow, VersionRow

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI

TABLES = (UserRow, ApplicationRow, MemberRow, ProjectRow, DocumentRow, VersionRow)


async def rows(app: FastAPI) -> dict[str, int]:
    async with reading(app.state.services.database) as session:
        return {table.__tablename__: len((await session.scalars(select(table))).all()) for table in TABLES}


async def sign_in(client: httpx.AsyncClient, email: str, password: str) -> httpx.Response:
    return await client.post("/api/auth/login", json={"email": email, "password": password})


@pytest.mark.both_databases
async def test_every_demo_user_can_sign_in_and_see_their_documents(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings(demo=True))
    assert await rows(app) == {
        "users": 4,
        "applications": 1,
        "members": 4,
        "projects": 1,
        "documents": 3,
        "versions": 3,
    }
    assert sorted(person.role for person in TEAM) == ["editor", "editor", "owner", "viewer"]
    async with client_of(app) as client, Api(client) as api:
        seen: dict[str, set[str]] = {}
        for person in TEAM:
            signed_in = await api.sign_in(person.email, person.password)
            answer = await signed_in.http.get("/api/documents")
            assert answer.status_code == 200, answer.text
            seen[person.name] = {document["title"] for document in _items(answer.json())}
        assert seen["Olga"] == {"Welcome", "Launch plan", "Olga's notes"}
        assert seen["Ana"] == seen["Ben"] == seen["Vera"] == {"Welcome", "Launch plan"}


def _items(listed: Any) -> list[dict[str, Any]]:
    return listed if isinstance(listed, list) else next(v for v in listed.values() if isinstance(v, list))


async def test_the_demo_can_be_edited_by_its_editors_only(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings(demo=True))
    async with client_of(app) as client, Api(client) as api:
        people = {p.name: await api.sign_in(p.email, p.password, tab="t") for p in TEAM}
        listed = _items((await people["Ana"].http.get("/api/documents")).json())
        welcome = next(document["id"] for document in listed if document["title"] == "Welcome")
        codes = {}
        for name in ("Vera", "Ana", "Ben"):
            codes[name] = (await people[name].http.post(f"/api/documents/{welcome}/lock")).status_code
        assert codes == {"Vera": 403, "Ana": 200, "Ben": 409}


async def test_starting_again_changes_nothing(make_app: MakeApp, make_settings: MakeSettings) -> None:
    settings = make_settings(demo=True)
    first = await rows(await make_app(settings))
    assert await rows(await make_app(settings)) == first


@pytest.mark.both_databases
async def test_workers_that_start_at_once_create_one_team(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    settings = make_settings(demo=True)
    apps = await asyncio.gather(*(make_app(settings) for _ in range(4)))
    assert (await rows(apps[0]))["users"] == 4
    assert (await rows(apps[0]))["documents"] == 3


@pytest.mark.both_databases
async def test_concurrent_workers_that_saw_no_users_create_one_team(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings())
    services = app.state.services
    made = await asyncio.gather(*(create_demo(services.database, services.auth.passwords) for _ in range(8)))
    assert sum(made) == 1
    assert (await rows(app))["users"] == 4


@ON_SQLITE
async def test_a_database_with_users_gets_no_demo_team(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings())
    async with client_of(app) as client, Api(client) as api:
        await api.register("Ana")
    app = await make_app(make_settings(demo=True))
    assert (await rows(app))["users"] == 1


@ON_SQLITE
async def test_without_the_demo_there_are_no_users(app: FastAPI) -> None:
    assert set((await rows(app)).values()) == {0}


@pytest.mark.both_databases
async def test_outside_the_demo_its_passwords_are_refused(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    olga = TEAM[0]
    demo = await make_app(make_settings(demo=True))
    async with client_of(demo) as client:
        signed_in = await sign_in(client, olga.email, olga.password)
        assert signed_in.status_code == 200
        cookies = dict(client.cookies)
    serious = await make_app(make_settings())
    async with client_of(serious) as client:
        refused = await sign_in(client, olga.email, olga.password)
        assert (refused.status_code, refused.json()["code"]) == (401, "not_signed_in")
        # Logins from the demo are refused, too.
        token = {"Authorization": f"Bearer {signed_in.json()['access_token']}"}
        assert (await client.get("/api/auth/me", headers=token)).status_code == 401
        csrf = {"X-CSRF-Token": signed_in.json()["csrf_token"]}
        client.cookies.update(cookies)
        assert (await client.post("/api/auth/refresh", headers=csrf)).status_code == 401


@ON_SQLITE
async def test_a_demo_password_that_was_changed_works_in_the_demo_only(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    someone = TEAM[0]
    app = await make_app(make_settings(demo=True))
    async with client_of(app) as client, Api(client) as api:
        person = await api.sign_in(someone.email, someone.password)
        body = {"current_password": someone.password, "new_password": "another password"}
        assert (await person.http.post("/api/auth/password", json=body)).status_code == 204
        assert (await sign_in(client, someone.email, "another password")).status_code == 200
    app = await make_app(make_settings())
    async with client_of(app) as client:
        assert (await sign_in(client, someone.email, "another password")).status_code == 401


async def test_a_demo_password_stays_marked_when_hashing_costs_rise(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    await make_app(make_settings(demo=True))
    app = await make_app(make_settings(demo=True, argon2_time_cost=2))
    async with client_of(app) as client:
        assert (await sign_in(client, TEAM[0].email, TEAM[0].password)).status_code == 200
    async with reading(app.state.services.database) as session:
        hashes = (await session.scalars(select(UserRow.password_hash))).all()
    assert all(each.startswith(DEMO_MARK) for each in hashes)


@ON_SQLITE
async def test_users_who_register_in_the_demo_stay(make_app: MakeApp, make_settings: MakeSettings) -> None:
    demo = await make_app(make_settings(demo=True))
    async with client_of(demo) as client, Api(client) as api:
        ida = await api.register("Ida")
    serious = await make_app(make_settings())
    async with client_of(serious) as client:
        assert (await sign_in(client, ida.email, PASSWORD)).status_code == 200
        token = {"Authorization": f"Bearer {ida.token}"}
        assert (await client.get("/api/auth/me", headers=token)).status_code == 200


async def test_serve_demo_says_how_to_sign_in_as_each(served: MakeServed) -> None:
    server = served("--demo", "--workers", "2")
    assert [person["role"] for person in server.told["demo"]] == ["owner", "editor", "editor", "viewer"]
    async with server.client() as client:
        for person in server.told["demo"]:
            assert (await sign_in(client, person["email"], person["password"])).status_code == 200
        assert (await client.get("/openapi.json")).status_code == 200
        assert (await client.get("/docs")).status_code == 200
