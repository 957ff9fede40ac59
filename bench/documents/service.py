"""`leasehold serve` with one worker, and clients that create its users and documents."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.documents.http import Caller, request_of
from bench.documents.processes import serving

# No limits of requests and sockets, and cheap password hashes, because neither is measured.
SETTINGS = {
    "RATE_ACQUIRE": "off",
    "RATE_KEEP": "off",
    "RATE_SIGN_IN": "off",
    "RATE_ADD_MEMBER": "off",
    "RATE_OTHER": "off",
    "MAX_SOCKETS_PER_USER": "100000",
    "MAX_UNKNOWN_SOCKETS_PER_ADDRESS": "100000",
    "ARGON2_TIME_COST": "1",
    "ARGON2_MEMORY_KIB": "8",
}


@dataclass(frozen=True, slots=True)
class Person:
    email: str
    token: str

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        return request_of(method, path, headers={"Authorization": f"Bearer {self.token}"}, body=body)


@dataclass(frozen=True, slots=True)
class Service:
    """``pid`` is the worker's."""

    port: int
    pid: int
    caller: Caller

    async def register(self, name: str) -> Person:
        email = f"{name.lower()}@example.com"
        asked = {"email": email, "password": "correct horse battery", "display_name": name}
        made = await self._create(request_of("POST", "/api/auth/register", body=asked))
        return Person(email, made["access_token"])

    async def create_documents(self, owner: Person, count: int, *, viewers: list[Person]) -> list[str]:
        """Create documents that the viewers may watch, and return their ids."""
        team = await self._create(owner.request("POST", "/api/applications", {"name": "Team"}))
        for viewer in viewers:
            member = {"email": viewer.email, "role": "viewer"}
            await self._create(owner.request("POST", f"/api/applications/{team['id']}/members", member))
        documents = [{"title": f"Document {number}", "application_id": team["id"]} for number in range(count)]
        return [
            (await self._create(owner.request("POST", "/api/documents", each)))["id"] for each in documents
        ]

    async def _create(self, request: bytes) -> Any:
        return await self.caller.ask(request, expect=201)


@asynccontextmanager
async def running(store_url: str) -> AsyncIterator[Service]:
    """A new service on SQLite in a temporary directory. On exit it has ended."""
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as directory:
        settings = SETTINGS | {"STORE_URL": store_url, "DATA_DIR": directory}
        environment = {f"LEASEHOLD_{name}": value for name, value in settings.items()}
        command = ("-m", "leasehold", "serve", "--json", "--port", "0", "--workers", "1")
        async with serving(*command, environment=environment) as told:
            port = urlsplit(told["address"]).port
            assert port is not None
            with closing(Caller(port)) as caller:
                yield Service(port, told["workers"][0], caller)
