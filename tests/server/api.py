"""Users, and the objects that they create, through the routes that every client uses."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import httpx

if TYPE_CHECKING:
    from types import TracebackType

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Person:
    """A signed-in user. `http` sends the access token, and its own cookies, with every request."""

    id: str
    name: str
    email: str
    token: str
    http: httpx.AsyncClient

    async def create(self, path: str, **members: Any) -> dict[str, Any]:
        """Sends a POST that must return 201, and returns the created object."""
        answer = await self.http.post(path, json=members)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def create_application(self, name: str = "Team") -> str:
        return (await self.create("/api/applications", name=name))["id"]

    async def add_member(self, application_id: str, person: Person, role: str) -> None:
        await self.create(f"/api/applications/{application_id}/members", email=person.email, role=role)

    async def create_project(self, application_id: str, name: str = "Project") -> str:
        return (await self.create("/api/projects", application_id=application_id, name=name))["id"]

    async def create_document(self, title: str = "Document", **scope: str) -> str:
        """`application_id=` or `project_id=`, or neither for a personal one."""
        return (await self.create("/api/documents", title=title, **scope))["id"]


class Api:
    """Registers users; each uses the same server as `client` through a client of its own."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def register(self, name: str = "Ana", *, tab: str | None = None) -> Person:
        """Registers a user with a new address, signed in at a tab."""
        email = f"{name.lower()}-{uuid4().hex[:8]}@example.com"
        asked = {"email": email, "password": PASSWORD, "display_name": name}
        answer = await self._client.post("/api/auth/register", json=asked)
        assert answer.status_code == 201, answer.text
        return await self._signed_in(answer.json(), tab)

    async def sign_in(self, email: str, password: str = PASSWORD, *, tab: str | None = None) -> Person:
        """Signs in a registered user."""
        answer = await self._client.post("/api/auth/login", json={"email": email, "password": password})
        assert answer.status_code == 200, answer.text
        return await self._signed_in(answer.json(), tab)

    async def at_tab(self, person: Person, tab: str) -> Person:
        """The same user at another tab."""
        return Person(person.id, person.name, person.email, person.token, await self._http(person.token, tab))

    async def _signed_in(self, answer: dict[str, Any], tab: str | None) -> Person:
        token = answer["access_token"]
        http = await self._http(token, tab)
        return Person(answer["id"], answer["display_name"], answer["email"], token, http)

    async def _http(self, token: str, tab: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"} | ({"Leasehold-Tab": tab} if tab else {})
        # The transport is shared and closed with the first client, so it is not closed here.
        return httpx.AsyncClient(
            transport=self._client._transport, base_url=self._client.base_url, headers=headers, timeout=30
        )
