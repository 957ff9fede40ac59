"""Wrong passwords: limited for each account, logged, and never a way to keep its owner out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.server.conftest import ADDRESS, ON_SQLITE
from tests.server.pages import ANA, LOGIN, assert_problem, bearer, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from fastapi import FastAPI
    from tests.server.conftest import MakeApp, MakeSettings

pytestmark = ON_SQLITE

WRONG = LOGIN | {"password": "incorrect horse"}
LIMIT = 10


@pytest.fixture
async def app(make_app: MakeApp, make_settings: MakeSettings) -> FastAPI:
    return await make_app(make_settings(rate_wrong_passwords=f"{LIMIT}/hour"))


def browser(app: FastAPI, address: str = "10.0.0.1") -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """One with cookies of its own, at an address."""
    transport = httpx.ASGITransport(app, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url=ADDRESS)


async def guess(app: FastAPI, times: int, addresses: int = 12) -> list[int]:
    """The statuses of wrong passwords for Ana's account, from several addresses in turn."""
    statuses: list[int] = []
    for number in range(times):
        async with browser(app, f"10.0.1.{number % addresses}") as guesser:
            statuses.append((await guesser.post("/api/auth/login", json=WRONG)).status_code)
    return statuses


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    caplog.set_level(logging.WARNING, "leasehold.server")
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("leasehold.server").addHandler(handler)
    yield messages
    logging.getLogger("leasehold.server").removeHandler(handler)


async def test_an_account_has_a_limit_however_many_addresses_ask(app: FastAPI) -> None:
    async with browser(app) as ana:
        await register(ana)
    statuses = await guess(app, 24)
    assert statuses == [401] * LIMIT + [429] * (24 - LIMIT)


async def test_beyond_the_limit_a_new_browser_is_refused_the_right_password_too(app: FastAPI) -> None:
    async with browser(app) as ana:
        await register(ana)
    await guess(app, LIMIT)
    async with browser(app) as other:
        answer = await other.post("/api/auth/login", json=LOGIN)
        assert_problem(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) > 60


async def test_a_browser_that_has_signed_in_before_is_not_kept_out(app: FastAPI) -> None:
    async with browser(app) as ana:
        await register(ana)
        await guess(app, 2 * LIMIT)
        assert (await ana.post("/api/auth/login", json=LOGIN)).status_code == 200
        # It has a limit of its own, which signing in again does not renew.
        wrong = [(await ana.post("/api/auth/login", json=WRONG)).status_code for _ in range(LIMIT + 1)]
        assert wrong == [401] * LIMIT + [429]
        assert (await ana.post("/api/auth/login", json=LOGIN)).status_code == 429


async def test_having_signed_in_to_one_account_is_no_help_with_another(app: FastAPI) -> None:
    async with browser(app) as ana, browser(app) as ben:
        await register(ana)
        await register(ben, email="ben@example.com")
        assert await guess(app, LIMIT) == [401] * LIMIT
        assert (await ben.post("/api/auth/login", json=WRONG)).status_code == 429
        # Nor is a cookie that the browser has made up.
        cookie = ben.cookies["leasehold_device"]
        for forged in (cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), "x", ".", "🔑"):
            headers = {"Cookie": f"leasehold_device={forged}".encode()}
            assert (await ben.post("/api/auth/login", json=WRONG, headers=headers)).status_code == 429


async def test_right_passwords_are_not_counted(app: FastAPI) -> None:
    async with browser(app) as ana:
        await register(ana)
    for _ in range(LIMIT + 1):
        async with browser(app) as other:
            assert (await other.post("/api/auth/login", json=LOGIN)).status_code == 200


async def test_an_address_without_an_account_is_limited_alike(app: FastAPI) -> None:
    assert await guess(app, LIMIT + 1) == [401] * LIMIT + [429]


async def test_the_current_password_cannot_be_guessed_with_a_token(app: FastAPI) -> None:
    async with browser(app) as ana:
        token = bearer((await register(ana))["access_token"])
        body = {"current_password": "incorrect horse", "new_password": "another password"}
        statuses = [
            (await ana.post("/api/auth/password", json=body, headers=token)).status_code
            for _ in range(LIMIT + 1)
        ]
        assert statuses == [403] * LIMIT + [429]
        assert (await ana.post("/api/auth/login", json=LOGIN)).status_code == 200


async def test_the_log_names_the_account_and_the_address(app: FastAPI, warnings: list[str]) -> None:
    async with browser(app, "10.0.0.7") as guesser:
        for _ in range(LIMIT + 1):
            await guesser.post("/api/auth/login", json=WRONG)
    assert warnings == ["wrong password for the account 'ana@example.com' from '10.0.0.7'"] * LIMIT + [
        "too many wrong passwords for the account 'ana@example.com': refused '10.0.0.7'"
    ]
    assert WRONG["password"] not in "".join(warnings)


async def test_an_address_that_a_proxy_passes_on_cannot_forge_a_line(
    app: FastAPI, warnings: list[str]
) -> None:
    async with browser(app, "\x1b[2J\n10.0.0.7\u2028") as guesser:
        await guesser.post("/api/auth/login", json=WRONG)
    assert all(line.isascii() and line.isprintable() for line in warnings)
    assert warnings


async def test_the_cookie_of_a_known_browser_is_for_us_alone(app: FastAPI) -> None:
    async with browser(app) as ana:
        answer = await ana.post("/api/auth/register", json=ANA)
    (line,) = (each for each in answer.headers.get_list("set-cookie") if each.startswith("leasehold_device="))
    assert {"HttpOnly", "Path=/api/auth", "SameSite=strict"} <= {part.strip() for part in line.split(";")}
