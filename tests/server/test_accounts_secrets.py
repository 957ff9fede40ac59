"""No password and no token is in the log, or in a response that must not contain it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from tests.server.pages import ANA, LOGIN, bearer, csrf, make_older, page, refresh, register

from leasehold.server.auth.logins import GRACE
from leasehold.server.db.engine import reading
from leasehold.server.db.models import RefreshTokenRow, UserRow

if TYPE_CHECKING:
    import httpx
    import pytest
    from fastapi import FastAPI


CANARY = "canary-pässword-9b1d"


async def test_no_secret_is_in_any_answer_or_in_the_log(
    client: httpx.AsyncClient, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[httpx.Response] = []

    async def post(path: str, **options: Any) -> None:
        answers.append(await client.post(f"/api/auth/{path}", **options))

    tokens = [(await register(client, password=CANARY))["access_token"]]
    cookies = [dict(client.cookies)]
    await post("register", json=ANA | {"password": CANARY})
    await post("register", json=ANA | {"password": CANARY, "email": "no address"})
    await post("register", json={"password": CANARY, "unknown": CANARY})
    await post("register", json=[CANARY])
    await post("login", json=LOGIN | {"password": CANARY + "x"})
    await post("login", json=LOGIN | {"password": [CANARY]})
    await post("refresh", headers={"X-CSRF-Token": CANARY.encode()})
    answers.append(await client.get("/api/auth/me", headers=bearer("canary-token-4e.b.c")))
    assert all(answer.is_client_error for answer in answers)

    await post("login", json=LOGIN | {"password": CANARY})
    cookies.append(dict(client.cookies))
    await post("refresh", headers=csrf(client))
    cookies.append(dict(client.cookies))
    tokens += [answer.json()["access_token"] for answer in answers[-2:]]
    await make_older(app, GRACE)
    async with page(app, cookies[1]) as thief:
        answers.append(await refresh(thief))
    assert answers[-1].status_code == 401

    async with reading(app.state.services.database) as session:
        hashes = [*await session.scalars(select(UserRow.password_hash))]
        hashes += [*await session.scalars(select(RefreshTokenRow.hash))]
    secrets = [*hashes, *(each["leasehold_refresh"] for each in cookies), "canary-"]
    for answer in answers:
        assert not [secret for secret in secrets if secret in answer.text]
    written = "\n".join(f"{record.getMessage()} {record.exc_text}" for record in caplog.records)
    assert "its refresh token was used twice" in written
    assert not [secret for secret in [*secrets, *tokens] if secret in written]
