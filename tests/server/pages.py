"""Requests for accounts, as a page sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
from sqlalchemy import update
from tests.server.conftest import ADDRESS

from leasehold.server.db.engine import writing
from leasehold.server.db.models import RefreshTokenRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

ANA = {"email": "ana@example.com", "password": "correct horse battery", "display_name": "Ana"}
LOGIN = {"email": ANA["email"], "password": ANA["password"]}


def page(asked: FastAPI | httpx.AsyncClient, cookies: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A separate browser for the application or the client's server, with these cookies."""
    transport = asked._transport if isinstance(asked, httpx.AsyncClient) else httpx.ASGITransport(asked)
    return httpx.AsyncClient(transport=transport, base_url=ADDRESS, cookies=dict(cookies or {}))


async def register(client: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    """Registers a user, who is then signed in."""
    answer = await client.post("/api/auth/register", json=ANA | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def refresh(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/api/auth/refresh", headers=csrf(client))


async def me(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get("/api/auth/me", headers=bearer(token))


def csrf(client: httpx.AsyncClient) -> dict[str, str]:
    """The CSRF token, which our page reads from its cookie."""
    return {"X-CSRF-Token": client.cookies["leasehold_csrf"]}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def cookies_of(answer: httpx.Response) -> dict[str, tuple[str, dict[str, str]]]:
    """Value and attributes of each cookie that the response sets, by name."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for line in answer.headers.get_list("set-cookie"):
        first, *rest = (part.strip() for part in line.split(";"))
        name, _, value = first.partition("=")
        attributes = (part.partition("=") for part in rest)
        found[name] = unquote(value), {key.lower(): text for key, _, text in attributes}
    return found


def assert_problem(answer: httpx.Response, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code


async def make_older(app: FastAPI, seconds: float) -> None:
    """Moves the use of every refresh token into the past."""
    async with writing(app.state.services.database) as session:
        await session.execute(update(RefreshTokenRow).values(used_at=RefreshTokenRow.used_at - seconds))
