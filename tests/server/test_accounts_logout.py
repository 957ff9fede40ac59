"""Logout: at this worker, at other workers, and after a restart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.pages import LOGIN, assert_problem, bearer, csrf, page, refresh, register
from tests.support.eventually import eventually_async

from leasehold.server.auth.cookies import DEVICE

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI
    from tests.server.conftest import MakeApp
    from tests.server.served import Served

    from leasehold.server import Settings


async def test_logout_ends_the_login_and_deletes_the_cookies(client: httpx.AsyncClient) -> None:
    token = (await register(client))["access_token"]
    kept = dict(client.cookies)
    answer = await client.post("/api/auth/logout", headers=csrf(client))
    assert answer.status_code == 204
    assert answer.content == b""
    assert set(client.cookies) == {DEVICE}
    assert_problem(await client.get("/api/auth/me", headers=bearer(token)), 401, "not_signed_in")
    client.cookies.update(kept)
    assert_problem(await refresh(client), 401, "not_signed_in")


async def test_logout_twice_is_harmless(client: httpx.AsyncClient) -> None:
    token = (await register(client))["access_token"]
    for _ in range(2):
        async with page(client, client.cookies) as leaving:
            answer = await leaving.post("/api/auth/logout", headers=csrf(client) | bearer(token))
        assert answer.status_code == 204


async def test_an_access_token_alone_ends_its_login(client: httpx.AsyncClient) -> None:
    token = (await register(client))["access_token"]
    async with page(client) as other:
        answer = await other.post("/api/auth/logout", headers=bearer(token))
    assert answer.status_code == 204
    assert_problem(await refresh(client), 401, "not_signed_in")


@pytest.mark.parametrize("shown", ["the cookie as well", "the access token alone"])
async def test_an_expired_access_token_is_enough_for_logout(
    client: httpx.AsyncClient, app: FastAPI, shown: str
) -> None:
    """As from a page that was left open overnight."""
    await register(client)
    auth = app.state.services.auth
    login_id = await auth.logins.login_of(client.cookies["leasehold_refresh"])
    long_ago = time.time() - 86_400
    expired = auth.tokens.issue(user_id="1", user_name="Ana", login_id=login_id, at=long_ago).text
    assert_problem(await client.get("/api/auth/me", headers=bearer(expired)), 401, "not_signed_in")
    kept = dict(client.cookies)
    if shown == "the cookie as well":
        answer = await client.post("/api/auth/logout", headers=bearer(expired) | csrf(client))
        assert set(client.cookies) == {DEVICE}
        client.cookies.update(kept)
    else:
        async with page(app) as other:
            answer = await other.post("/api/auth/logout", headers=bearer(expired))
    assert answer.status_code == 204, answer.text
    assert_problem(await refresh(client), 401, "not_signed_in")


@ON_SQLITE
async def test_a_foreign_token_does_not_prevent_logout_by_the_cookie(
    client: httpx.AsyncClient,
) -> None:
    await register(client)
    answer = await client.post("/api/auth/logout", headers=csrf(client) | bearer("made.up.token"))
    assert answer.status_code == 204
    assert set(client.cookies) == {DEVICE}


async def test_other_logins_of_the_same_user_continue(client: httpx.AsyncClient) -> None:
    await register(client)
    async with page(client) as other:
        token = (await other.post("/api/auth/login", json=LOGIN)).json()["access_token"]
        await client.post("/api/auth/logout", headers=csrf(client))
        assert (await other.get("/api/auth/me", headers=bearer(token))).status_code == 200
        assert (await refresh(other)).status_code == 200


@ON_SQLITE
async def test_logout_without_a_login_is_refused(client: httpx.AsyncClient) -> None:
    assert_problem(await client.post("/api/auth/logout"), 401, "not_signed_in")
    answer = await client.post("/api/auth/logout", headers=bearer("made.up.token"))
    assert_problem(answer, 401, "not_signed_in")


async def test_logout_applies_at_another_worker(make_app: MakeApp, settings: Settings) -> None:
    here, there = await make_app(settings), await make_app(settings)
    async with page(here) as one, page(there) as other:
        token = (await register(one))["access_token"]
        assert (await other.get("/api/auth/me", headers=bearer(token))).status_code == 200
        await one.post("/api/auth/logout", headers=csrf(one))

        async def is_out() -> bool:
            answer = await other.get("/api/auth/me", headers=bearer(token))
            return answer.status_code == 401

        await eventually_async(is_out)


async def test_logout_survives_a_restart(make_app: MakeApp, settings: Settings) -> None:
    async with page(await make_app(settings)) as client:
        token = (await register(client))["access_token"]
        await client.post("/api/auth/logout", headers=csrf(client))
    async with page(await make_app(settings)) as client:
        assert_problem(await client.get("/api/auth/me", headers=bearer(token)), 401, "not_signed_in")


async def test_logout_applies_at_every_worker_process(service: Served) -> None:
    async with service.client() as client:
        token = (await register(client, email=f"{uuid4().hex}@example.com"))["access_token"]
        answer = await client.post("/api/auth/logout", headers=csrf(client))
        assert answer.status_code == 204

    async def all_refuse() -> bool:
        found: set[int] = set()
        for _ in range(10):
            async with service.client(headers=bearer(token)) as client:  # may meet another worker each time
                found.add((await client.get("/api/auth/me")).status_code)
        return found == {401}

    await eventually_async(all_refuse)
