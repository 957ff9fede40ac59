"""A host application behind real sockets: its users are their own tokens, its documents are in a dict."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import uvicorn
import websockets
from fastapi import FastAPI, Header
from tests.documents.host import DictStore
from tests.support.eventually import LIMIT
from tests.support.servers import reserve_port

import leasehold
from leasehold.documents import Access, Times
from leasehold.documents.fastapi import LockRouter, lock_router
from leasehold.documents.ports import Principal
from leasehold.documents.uvicorn import SocketProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from leasehold.documents.ports import Authenticate

TIMES = Times(ttl=60, heartbeat=10, idle=30, save_within=30)
"""Nothing runs out during a test, however slow the machine."""


class Roles:
    """Permissions: Ana and Bob edit, Olga owns, Vera views, Zoe is an outsider."""

    def __init__(self) -> None:
        self.documents = {"doc", "other", "diary"}
        self.roles: dict[str, str | None] = {
            "ana": "editor",
            "bob": "editor",
            "olga": "owner",
            "vera": "viewer",
        }
        self.asked = 0
        self.failing: Exception | None = None

    async def access(self, user_id: str, document_id: str) -> Access | None:
        await asyncio.sleep(0)
        self.asked += 1
        if self.failing is not None:
            raise self.failing
        if document_id not in self.documents:
            return None
        if document_id == "diary":  # Olga's own
            return Access("owner" if user_id == "olga" else None, is_personal=True)
        return Access(self.roles.get(user_id))


class SignIns:
    """A token is USER, or USER.SESSION; each ends when a test ends it."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.expires_at: dict[str, float] = {}

    async def authenticate(self, token: str) -> Principal | None:
        await asyncio.sleep(0)
        user, _, session = token.partition(".")
        if not user.isalpha() or token in self.ended:
            return None
        until = self.expires_at.get(token)
        who = Principal(user, user.capitalize(), session_id=session)
        return who if until is None else Principal(who.user_id, who.user_name, until, session)

    async def current_user(self, authorization: Annotated[str, Header()] = "") -> Principal:
        principal = await self.authenticate(authorization.removeprefix("Bearer "))
        if principal is None:
            raise leasehold.NotSignedIn("who are you?")
        return principal


class Worker:
    """One process's application, served in this very loop."""

    def __init__(
        self, host: Host, app: FastAPI, router: LockRouter, server: uvicorn.Server, port: int
    ) -> None:
        self.host = host
        self.app = app
        self.router = router
        self.server = server
        self.port = port
        self._opened = AsyncExitStack()
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False)
        self._opened.push_async_callback(self._client.aclose)

    @property
    def hub(self) -> Any:
        return self.router.hub

    async def ask(
        self, token: str | None, method: str, path: str, *, tab: str | None = None, **more: Any
    ) -> httpx.Response:
        """One request, as a user at a tab."""
        headers = httpx.Headers(more.pop("headers", None))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if tab is not None:
            headers["Leasehold-Tab"] = tab
        return await self._client.request(method, f"/api{path}", headers=headers, **more)

    async def lock(self, token: str, document_id: str = "doc", *, tab: str | None = None) -> httpx.Response:
        return await self.ask(token, "POST", f"/documents/{document_id}/lock", tab=tab)

    async def unlock(self, token: str, document_id: str = "doc", *, tab: str | None = None) -> httpx.Response:
        return await self.ask(token, "DELETE", f"/documents/{document_id}/lock", tab=tab)

    async def connect(self, **options: Any) -> LiveSocket:
        """A socket that is not authenticated."""
        return await self.connect_to("/ws", **options)

    async def connect_to(self, path: str, **options: Any) -> LiveSocket:
        """A socket somewhere else in the application."""
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        peer.connect(("127.0.0.1", self.port))
        options = {
            "compression": None,
            "open_timeout": LIMIT,
            "ping_interval": None,
            "close_timeout": 1,
            **options,
        }
        made = await websockets.connect(f"ws://127.0.0.1:{self.port}{path}", sock=peer, **options)
        self._opened.push_async_callback(made.close)
        return LiveSocket(made)

    async def socket(self, token: str, tab: str | None = None, *join: str, **options: Any) -> LiveSocket:
        """A socket that has, and watches some documents."""
        return await self.authenticate(await self.connect(**options), token, tab, *join)

    async def authenticate(
        self, live_socket: LiveSocket, token: str, tab: str | None = None, *join: str
    ) -> LiveSocket:
        """Authenticates, and joins documents."""
        credentials = {"token": token} if tab is None else {"token": token, "tab": tab}
        await live_socket.send("authenticate", **credentials)
        await live_socket.receive("authenticated")
        for document_id in join:
            await live_socket.send("join", document_id=document_id)
            await live_socket.receive("joined")
        return live_socket

    async def close(self) -> None:
        await self._opened.aclose()


class LiveSocket:
    """A client's end of a socket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket

    async def send(self, kind: str, **data: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, "data": data}))

    async def receive(self, *kinds: str, within: float = LIMIT) -> dict[str, Any]:
        """The next message, which is of one of these kinds, if any are named: its data, with its type as "type"."""
        message = json.loads(await asyncio.wait_for(self.socket.recv(), within))
        assert not kinds or message["type"] in kinds, message
        return {"type": message["type"], **message["data"]}

    async def ask(self, kind: str, **data: Any) -> dict[str, Any]:
        """Sends a message and returns the reply, which is the next message."""
        await self.send(kind, **data)
        return await self.receive()

    async def assert_no_message(self) -> None:
        """No message is pending: the answer to a ping comes next."""
        await self.send("ping")
        await self.receive("pong")

    async def closed(self, within: float = LIMIT) -> int | None:
        """The code that the server closed with; earlier messages are skipped."""
        try:
            while True:
                await asyncio.wait_for(self.socket.recv(), within)
        except websockets.ConnectionClosed as end:
            return None if end.rcvd is None else end.rcvd.code


class Host:
    """What the workers of one application share."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = DictStore("doc", "other", "diary")
        self.roles = Roles()
        self.sign_ins = SignIns()
        self._opened = AsyncExitStack()

    async def worker(
        self,
        *,
        url: str | None = None,
        times: Times = TIMES,
        authenticate: Authenticate | str | None = "ours",
        timeout: float = 20,
        **options: Any,
    ) -> Worker:
        """One more worker, with a client of its own."""
        uvicorn_options = {
            name.removeprefix("uvicorn_"): options.pop(name)
            for name in tuple(options)
            if name.startswith("uvicorn_")
        }
        client = await self._opened.enter_async_context(leasehold.connect(url or self.url, timeout=timeout))
        router = lock_router(
            client,
            current_user=self.sign_ins.current_user,
            access=self.roles,
            store=self.store,
            times=times,
            authenticate=self.sign_ins.authenticate if authenticate == "ours" else authenticate,
            **options,
        )
        app = FastAPI()
        app.include_router(router)
        server, port = await self._opened.enter_async_context(serving(app, **uvicorn_options))
        worker = Worker(self, app, router, server, port)
        self._opened.push_async_callback(worker.close)
        return worker

    async def close(self) -> None:
        await self._opened.aclose()


@asynccontextmanager
async def host(url: str) -> AsyncIterator[Host]:
    """A host application without workers yet, on the store of locks at ``url``."""
    made = Host(url)
    try:
        yield made
    finally:
        await made.close()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are pytest's


@asynccontextmanager
async def serving(app: FastAPI, **options: Any) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """The application behind a real socket, in this very loop: the server and its port."""
    with reserve_port() as reservation:
        port = reservation.getsockname()[1]
        options = {"ws": SocketProtocol, "ws_per_message_deflate": False, "ws_ping_interval": None, **options}
        server = _Server(
            uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=10, **options)
        )
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The kernel would take megabytes for a peer that does not read, and hide that it is slow.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        listener.bind(("127.0.0.1", port))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(LIMIT):
                while not server.started:
                    assert not task.done()
                    await asyncio.sleep(0.01)
            yield server, port
        finally:
            server.should_exit = True
            await task
