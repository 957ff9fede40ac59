"""Registration over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.pages import ANA, assert_problem, bearer, page, register

if TYPE_CHECKING:
    import httpx
    from tests.server.conftest import MakeApp, MakeSettings


BAD = {
    "no address": {"email": ""},
    "no at": {"email": "ana"},
    "no name before the @": {"email": "@example.com"},
    "nowhere": {"email": "ana@"},
    "two ats": {"email": "ana@b@c"},
    "a space": {"email": "a na@example.com"},
    "a line end": {"email": "ana@example.com\n"},
    "a NUL": {"email": "ana\0@example.com"},
    "an empty label": {"email": "ana@example..com"},
    "a long address": {"email": "ana@" + ".".join(["x" * 60] * 5)},
    "an address that is a number": {"email": 5},
    "a short password": {"password": "1234567"},
    "a long password": {"password": "x" * 257},
    "no password": {"password": None},
    "a password that is a list": {"password": ["correct horse battery"]},
    "a lone surrogate in the password": {"password": "correct \ud800 horse"},
    "no name": {"display_name": ""},
    "an invisible name": {"display_name": " \t "},
    "only joiners": {"display_name": "\u200d\u200d"},
    "a name with a line end": {"display_name": "Ana\nadmin"},
    "a name that turns around": {"display_name": "Ana\u202enimda"},
    "a name with a NUL": {"display_name": "A\0na"},
    "a lone surrogate": {"display_name": "\ud800"},
    "a long name": {"display_name": "x" * 81},
    "a field that clients may not set": {"id": "somebody else's"},
    "a field that clients may not see": {"password_hash": "$argon2id$"},
}


@ON_SQLITE
async def test_a_setting_closes_registration(make_app: MakeApp, make_settings: MakeSettings) -> None:
    async with page(await make_app(make_settings(registration=False))) as client:
        assert_problem(await client.post("/api/auth/register", json=ANA), 403, "not_allowed")
        login = {"email": ANA["email"], "password": ANA["password"]}
        assert_problem(await client.post("/api/auth/login", json=login), 401, "not_signed_in")


async def test_registering_makes_an_account_and_signs_in(client: httpx.AsyncClient) -> None:
    before = time.time()
    answer = await client.post("/api/auth/register", json=ANA)
    assert answer.status_code == 201
    user = answer.json()
    assert user.keys() == {
        "id", "email", "display_name", "created_at",
        "access_token", "token_type", "expires_in", "csrf_token",
    }  # fmt: skip
    assert (user["email"], user["display_name"], user["token_type"]) == (
        "ana@example.com",
        "Ana",
        "bearer",
    )
    assert before - 1 <= user["created_at"] <= time.time() + 1
    assert user["expires_in"] == 900
    me = await client.get("/api/auth/me", headers=bearer(user["access_token"]))
    assert me.json() == {key: user[key] for key in ("id", "email", "display_name", "created_at")}


@pytest.mark.both_databases
async def test_the_same_address_in_any_case_is_taken(client: httpx.AsyncClient) -> None:
    user = await register(client, email="Ana@Example.COM")
    assert user["email"] == "ana@example.com"
    again = await client.post("/api/auth/register", json=ANA | {"email": "ANA@example.com"})
    assert_problem(again, 409, "already_exists")
    assert "set-cookie" not in again.headers


@pytest.mark.both_databases
async def test_of_many_concurrent_registrations_with_one_address_one_succeeds(
    client: httpx.AsyncClient,
) -> None:
    asked = [client.post("/api/auth/register", json=ANA) for _ in range(8)]
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*asked))
    assert statuses == [201] + [409] * 7


async def test_a_name_is_trimmed(client: httpx.AsyncClient) -> None:
    assert (await register(client, display_name="  Ana Ünal  "))["display_name"] == "Ana Ünal"


@pytest.mark.parametrize(
    "name",
    [
        "Ana",
        "李小龍",
        "محمد",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "👩\u200d🔬 Ana",
        "O'Neil-Smith, Jr.",
        "x" * 80,
    ],
    ids=ascii,
)
@ON_SQLITE
async def test_names_of_all_languages_are_names(client: httpx.AsyncClient, name: str) -> None:
    assert (await register(client, display_name=name))["display_name"] == name


@pytest.mark.parametrize(
    "email", ["a@b", "a.b+c@mail.example.co.uk", "o'neil@example.com", "x" * 64 + "@example.com"]
)
@ON_SQLITE
async def test_addresses_that_a_browser_accepts(client: httpx.AsyncClient, email: str) -> None:
    assert (await register(client, email=email))["email"] == email


@pytest.mark.parametrize("what", BAD)
@ON_SQLITE
async def test_other_values_are_not_valid(client: httpx.AsyncClient, what: str) -> None:
    # Written in ASCII, so that a lone surrogate can be sent.
    body = json.dumps(ANA | BAD[what])
    answer = await client.post(
        "/api/auth/register", content=body, headers={"Content-Type": "application/json"}
    )
    assert_problem(answer, 422, "invalid_request")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("missing", ANA)
@ON_SQLITE
async def test_every_field_is_required(client: httpx.AsyncClient, missing: str) -> None:
    body = {key: value for key, value in ANA.items() if key != missing}
    assert_problem(await client.post("/api/auth/register", json=body), 422, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"ana"', b"\x80"],
    ids=["nothing", "half of it", "a list", "null", "a text", "not UTF-8"],
)
@ON_SQLITE
async def test_a_body_that_is_no_object_is_not_valid(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post(
        "/api/auth/register", content=body, headers={"Content-Type": "application/json"}
    )
    assert_problem(answer, 422, "invalid_request")
