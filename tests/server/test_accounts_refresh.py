"""Refresh, with rotating cookies and a CSRF token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.pages import assert_problem, bearer, csrf, make_older, page, refresh, register

from leasehold.server.auth.logins import GRACE

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI


PAGES = {
    "nothing": {},
    "an empty one": {"X-CSRF-Token": ""},
    "a guess": {"X-CSRF-Token": "0" * 64},
    "not ASCII": {"X-CSRF-Token": "é".encode("latin-1")},
}


async def test_refreshing_rotates_the_cookie_and_gives_an_access_token(client: httpx.AsyncClient) -> None:
    user = await register(client)
    seen = {client.cookies["leasehold_refresh"]}
    for _ in range(3):
        answer = await refresh(client)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["id"] == user["id"]
        assert client.cookies["leasehold_refresh"] not in seen
        seen.add(client.cookies["leasehold_refresh"])
        me = await client.get("/api/auth/me", headers=bearer(told["access_token"]))
        assert me.status_code == 200


@pytest.mark.both_databases
async def test_a_used_cookie_ends_the_login_for_all_its_holders(
    client: httpx.AsyncClient, app: FastAPI
) -> None:
    token = (await register(client))["access_token"]
    stolen = dict(client.cookies)
    token = (await refresh(client)).json()["access_token"]
    await make_older(app, GRACE)
    async with page(app, stolen) as thief:
        answer = await thief.post("/api/auth/refresh", headers={"X-CSRF-Token": stolen["leasehold_csrf"]})
    assert_problem(answer, 401, "not_signed_in")
    assert_problem(await refresh(client), 401, "not_signed_in")
    assert_problem(await client.get("/api/auth/me", headers=bearer(token)), 401, "not_signed_in")


@pytest.mark.both_databases
async def test_two_tabs_may_refresh_at_once(client: httpx.AsyncClient) -> None:
    await register(client)
    shared = dict(client.cookies)
    async with page(client, shared) as one, page(client, shared) as other:
        answers = await asyncio.gather(refresh(one), refresh(other))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert (await refresh(client)).status_code == 200


async def test_a_tab_with_an_older_cookie_must_retry_and_gets_no_new_cookie(
    client: httpx.AsyncClient,
) -> None:
    await register(client)
    old = dict(client.cookies)
    await refresh(client)
    await refresh(client)
    async with page(client, old) as behind:
        answer = await refresh(behind)
    assert_problem(answer, 409, "in_progress")
    assert answer.headers["retry-after"] == "1"
    assert "set-cookie" not in answer.headers


@ON_SQLITE
async def test_a_refresh_without_a_cookie_is_refused(client: httpx.AsyncClient) -> None:
    assert_problem(await client.post("/api/auth/refresh"), 401, "not_signed_in")


@ON_SQLITE
async def test_an_unknown_cookie_is_refused(client: httpx.AsyncClient) -> None:
    await register(client)
    session_id = client.cookies["leasehold_refresh"].partition(".")[0]
    made_up = {
        "leasehold_csrf": client.cookies["leasehold_csrf"],
        "leasehold_refresh": f"{session_id}.guess",
    }
    async with page(client, made_up) as guessing:
        assert_problem(await refresh(guessing), 401, "not_signed_in")
    assert (await refresh(client)).status_code == 200


@pytest.mark.parametrize("sent", PAGES)
@pytest.mark.parametrize("verb", ["refresh", "logout"])
@ON_SQLITE
async def test_a_request_without_our_csrf_header_is_refused(
    client: httpx.AsyncClient, verb: str, sent: str
) -> None:
    await register(client)
    answer = await client.post(f"/api/auth/{verb}", headers=PAGES[sent])
    assert_problem(answer, 403, "not_allowed")
    assert (await refresh(client)).status_code == 200


@ON_SQLITE
async def test_a_csrf_token_of_another_login_is_refused(client: httpx.AsyncClient) -> None:
    """An attacker may have planted a cookie, and so know its contents."""
    await register(client)
    async with page(client) as ben:
        theirs = (await register(ben, email="ben@example.com"))["csrf_token"]
    planted = {"leasehold_refresh": client.cookies["leasehold_refresh"], "leasehold_csrf": theirs}
    async with page(client, planted) as attacked:
        answer = await attacked.post("/api/auth/refresh", headers={"X-CSRF-Token": theirs})
    assert_problem(answer, 403, "not_allowed")


@ON_SQLITE
async def test_the_csrf_header_alone_is_not_enough(client: httpx.AsyncClient) -> None:
    await register(client)
    only = {"leasehold_refresh": client.cookies["leasehold_refresh"]}
    async with page(client, only) as other:
        answer = await other.post("/api/auth/refresh", headers=csrf(client))
    assert_problem(answer, 403, "not_allowed")
