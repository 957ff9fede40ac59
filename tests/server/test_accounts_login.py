"""Login, and the cookies and tokens that it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jwt
import pytest
from sqlalchemy import select
from tests.server.conftest import ON_SQLITE
from tests.server.pages import ANA, LOGIN, assert_problem, bearer, cookies_of, csrf, page, register

from leasehold.server.auth.passwords import Passwords
from leasehold.server.db.engine import reading
from leasehold.server.db.models import UserRow

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI
    from tests.server.conftest import MakeApp, MakeSettings


async def test_login_returns_the_same_fields_as_registration(client: httpx.AsyncClient) -> None:
    registered = await register(client)
    answer = await client.post("/api/auth/login", json=LOGIN | {"email": "ANA@example.com"})
    assert answer.status_code == 200
    signed_in = answer.json()
    assert signed_in.keys() == registered.keys()
    assert signed_in["id"] == registered["id"]
    assert signed_in["access_token"] != registered["access_token"]


async def test_a_failed_login_does_not_tell_which_of_address_and_password_was_wrong(
    client: httpx.AsyncClient,
) -> None:
    await register(client)
    wrong = await client.post("/api/auth/login", json=LOGIN | {"password": "incorrect horse"})
    unknown = await client.post("/api/auth/login", json=LOGIN | {"email": "ben@example.com"})
    told = [
        {key: value for key, value in answer.json().items() if key != "request_id"}
        for answer in (wrong, unknown)
    ]
    assert_problem(wrong, 401, "not_signed_in")
    assert told[0] == told[1]
    assert wrong.headers["www-authenticate"] == "Bearer"


@ON_SQLITE
async def test_a_body_with_unknown_fields_is_not_valid(client: httpx.AsyncClient) -> None:
    await register(client)
    answer = await client.post("/api/auth/login", json=LOGIN | {"display_name": "Ana"})
    assert_problem(answer, 422, "invalid_request")


async def test_an_outdated_hash_is_replaced(
    make_app: MakeApp, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, verified = Passwords.verify, []

    async def recorded(self: Passwords, password: str, password_hash: str | None) -> bool:
        verified.append(password_hash)
        return await verify(self, password, password_hash)

    monkeypatch.setattr(Passwords, "verify", recorded)
    before = await make_app(make_settings(argon2_time_cost=1))
    async with page(before) as client:
        await register(client)
    after = await make_app(make_settings(argon2_time_cost=2))
    async with page(after) as client:
        for _ in range(2):
            assert (await client.post("/api/auth/login", json=LOGIN)).status_code == 200
    async with reading(after.state.services.database) as session:
        replaced = await session.scalar(select(UserRow.password_hash))
    assert ",t=2," in replaced
    assert [each == replaced for each in verified] == [False, True]


@ON_SQLITE
async def test_too_many_logins_are_refused(make_app: MakeApp, make_settings: MakeSettings) -> None:
    async with page(await make_app(make_settings(rate_sign_in="5/minute"))) as client:
        tries = [await client.post("/api/auth/login", json=LOGIN) for _ in range(6)]
        assert [answer.status_code for answer in tries] == [401] * 5 + [429]
        assert_problem(tries[-1], 429, "rate_limited")
        assert int(tries[-1].headers["retry-after"]) >= 1


@ON_SQLITE
async def test_the_refresh_token_is_only_in_a_cookie_for_our_path(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/auth/register", json=ANA)
    cookies = cookies_of(answer)
    token, attributes = cookies["leasehold_refresh"]
    assert len(token) > 60
    assert attributes["path"] == "/api/auth"
    assert attributes["samesite"] == "strict"
    assert "httponly" in attributes
    assert "secure" not in attributes
    assert "domain" not in attributes
    assert 13 * 86_400 < int(attributes["max-age"]) <= 14 * 86_400
    value, attributes = cookies["leasehold_csrf"]
    assert value == answer.json()["csrf_token"]
    assert (attributes["path"], attributes["samesite"]) == ("/", "strict")
    assert "httponly" not in attributes
    assert token not in answer.text


@ON_SQLITE
async def test_cookies_set_over_https_are_secure(app: FastAPI) -> None:
    async with page(app) as client:
        answer = await client.post("https://127.0.0.1:8000/api/auth/register", json=ANA)
    assert all("secure" in attributes for _, attributes in cookies_of(answer).values())


@ON_SQLITE
async def test_a_setting_makes_cookies_secure(make_app: MakeApp, make_settings: MakeSettings) -> None:
    async with page(await make_app(make_settings(secure_cookies=True))) as client:
        answer = await client.post("/api/auth/register", json=ANA)
    assert all("secure" in attributes for _, attributes in cookies_of(answer).values())


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Token abc", "Bearer a.b.c", "bearer"]
)
@ON_SQLITE
async def test_a_request_without_a_valid_access_token_is_not_signed_in(
    client: httpx.AsyncClient, header: str
) -> None:
    answer = await client.get("/api/auth/me", headers={"Authorization": header})
    assert_problem(answer, 401, "not_signed_in")
    assert answer.headers["www-authenticate"] == "Bearer"


@ON_SQLITE
async def test_an_access_token_in_the_url_is_ignored(client: httpx.AsyncClient) -> None:
    token = (await register(client))["access_token"]
    answer = await client.get("/api/auth/me", params={"access_token": token, "token": token})
    assert_problem(answer, 401, "not_signed_in")


@ON_SQLITE
async def test_the_cookie_alone_does_not_sign_in(client: httpx.AsyncClient) -> None:
    await register(client)
    assert_problem(await client.get("/api/auth/me", headers=csrf(client)), 401, "not_signed_in")


@ON_SQLITE
async def test_a_setting_gives_the_lifetime_of_an_access_token(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    async with page(await make_app(make_settings(access_token_seconds=60))) as client:
        user = await register(client)
    claims = jwt.decode(user["access_token"], options={"verify_signature": False})
    assert user["expires_in"] == claims["exp"] - claims["iat"] == 60
    assert jwt.get_unverified_header(user["access_token"])["alg"] == "HS256"


@ON_SQLITE
async def test_a_token_of_another_installation_is_refused(
    client: httpx.AsyncClient, make_app: MakeApp, make_settings: MakeSettings
) -> None:
    token = (await register(client))["access_token"]
    other = await make_app(make_settings(secret_key="another secret, which is long enough too"))
    async with page(other) as elsewhere:
        answer = await elsewhere.get("/api/auth/me", headers=bearer(token))
    assert_problem(answer, 401, "not_signed_in")
