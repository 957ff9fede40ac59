"""A page that uses the document service as docs/protocol.md says: REST, and a socket that watches one document."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
from tests.support.eventually import LIMIT
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from leasehold.documents.state import Editor

if TYPE_CHECKING:
    from tests.server.model import Tab
    from tests.server.secrets_check import SecretsCheck

PASSWORD = "correct horse battery"
PATIENCE = LIMIT
"""Seconds to wait for messages that no request causes."""

CHANGES = {
    "document_locked",
    "document_unlocked",
    "document_force_taken",
    "document_lock_expired",
    "document_force_save_requested",
}


class WatchingSocket:
    """One socket, from its handshake to its close, and the state of the document that it received.

    ``lock`` is what a page would show. ``violations`` lists messages that the protocol forbids.
    """

    def __init__(self, connection: ClientConnection, document_id: str, secrets: SecretsCheck) -> None:
        self._connection = connection
        self._document_id = document_id
        self._secrets = secrets
        self._replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_joined = False
        self.lock: dict[str, Any] = {}
        self.change: dict[str, Any] | None = None
        """The last message since joining."""
        self.beats_requested = 0
        self.violations: list[str] = []
        self.close_code: int | None = None
        self._reading = asyncio.create_task(self._read())

    async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        """Sends a message and returns the reply.

        A page that joins a room again is in it until the reply, so it may get a message in between.
        """
        await self._connection.send(json.dumps({"type": kind, "data": data}))
        async with asyncio.timeout(PATIENCE):
            return await self._replies.get()

    async def close(self) -> None:
        await self._connection.close()
        await self._reading

    def cut(self) -> None:
        """Drops the connection without a closing handshake."""
        self._connection.transport.abort()

    async def ended(self) -> int | None:
        """Waits until the server closes the socket, and returns the close code."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._reading)
        return self.close_code

    async def _read(self) -> None:
        try:
            async for text in self._connection:
                assert isinstance(text, str)
                self._secrets.check(text)
                message = json.loads(text)
                self._receive(message["type"], message["data"])
        except ConnectionClosed:
            pass
        except Exception as error:  # noqa: BLE001 - reported when the violations are checked
            self.violations.append(repr(error))
        self.is_joined = False
        self.close_code = self._connection.close_code

    def _receive(self, kind: str, data: dict[str, Any]) -> None:
        if kind in CHANGES:
            self._change(kind, data)
        elif kind == "heartbeat_requested":
            self.beats_requested += 1
            self._expect(data == {"document_ids": [self._document_id]}, f"{kind}: {data}")
        elif kind == "room_closed":
            self._expect(data == {"document_id": self._document_id, "code": "not_allowed"}, f"{kind}: {data}")
            self.is_joined = False
        else:
            if kind == "joined":
                self.is_joined, self.lock, self.change = True, data["lock"], None
            elif kind == "left":
                self.is_joined = False
            self._replies.put_nowait({"type": kind, **data})

    def _change(self, kind: str, data: dict[str, Any]) -> None:
        lock = data["lock"]
        self._expect(self.is_joined, f"{kind} in a room that was not joined")
        # A page drops a state that is not newer, so the service must not send it.
        self._expect(
            _version(lock) > _version(self.lock), f"{kind} {lock['version']} after {self.lock['version']}"
        )
        self._expect(data["lock_holder"] == lock["lock_holder"], f"{kind} names two holders: {data}")
        self._expect(data["document_id"] == lock["document_id"] == self._document_id, f"{kind}: {data}")
        self.lock, self.change = lock, {"type": kind, **data}

    def _expect(self, is_right: bool, violation: str) -> None:
        if not is_right:
            self.violations.append(violation)


class Browser:
    """One tab: signed in on its own, sends its requests to one worker, and watches through another."""

    def __init__(self, tab: Tab, *, rest_url: str, socket_url: str, secrets: SecretsCheck) -> None:
        self.tab = tab
        self.email = f"{tab.user}@example.com"
        self.user_id = ""
        self.watching: WatchingSocket | None = None
        self._secrets = secrets
        self._socket_url = socket_url.replace("http", "ws", 1) + "/ws"
        self._token = ""
        self._csrf = ""
        self._http = httpx.AsyncClient(base_url=rest_url, headers={"Leasehold-Tab": tab.name}, timeout=LIMIT)

    async def sign_in(self, *, register: bool = False) -> None:
        who = {"email": self.email, "password": PASSWORD}
        if register:
            who["display_name"] = self.tab.user.title()
        answer = await self._http.post(f"/api/auth/{'register' if register else 'login'}", json=who)
        assert answer.is_success, answer.text
        signed_in = answer.json()
        self.user_id, self._token, self._csrf = (
            signed_in[name] for name in ("id", "access_token", "csrf_token")
        )
        self._secrets.add(
            self.tab.name,
            Editor.at_tab("", "", self.tab.name).tab,
            self._token,
            self._csrf,
            *self._http.cookies.values(),
        )
        self._http.headers["Authorization"] = f"Bearer {self._token}"

    async def sign_out(self) -> None:
        """Signs out but keeps the token, so that tests can check that it is refused."""
        answer = await self._http.post("/api/auth/logout", headers={"X-CSRF-Token": self._csrf})
        assert answer.status_code == 204, answer.text

    async def ask(self, method: str, path: str, *, at: str = "", **options: Any) -> httpx.Response:
        """Sends a request, to the tab's own worker unless ``at`` names another."""
        answer = await self._http.request(method, at + path, **options)
        self._secrets.check(answer.text)
        return answer

    async def connect(self, document_id: str, *, by_ticket: bool) -> None:
        """Opens a socket and authenticates it."""
        credentials = {"token": self._token}
        if by_ticket:
            answer = await self._http.post("/api/live/ticket")
            assert answer.status_code == 200, answer.text
            credentials = {"ticket": answer.json()["ticket"]}
            self._secrets.add(credentials["ticket"])
        connection = await connect(self._socket_url, compression=None, ping_interval=None)
        self.watching = WatchingSocket(connection, document_id, self._secrets)
        answer = await self.watching.ask("authenticate", tab=self.tab.name, **credentials)
        assert answer["type"] == "authenticated", answer
        assert answer["user_id"] == self.user_id

    async def disconnect(self) -> None:
        if self.watching is not None:
            with suppress(ConnectionClosed):
                await self.watching.close()
            self.watching = None

    async def close(self) -> None:
        await self.disconnect()
        await self._http.aclose()


def _version(lock: dict[str, Any]) -> tuple[int, int]:
    return int(lock["version"]["fence"]), lock["version"]["step"]
