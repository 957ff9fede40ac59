"""What one connection may do before the application sees it: its head, its time, its unread responses, its place."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
import uvloop
from tests.server.served import QUICK
from tests.support.eventually import LIMIT, eventually_async
from tests.support.servers import reserve_port

from leasehold.documents.uvicorn import SocketProtocol
from leasehold.server import Settings
from leasehold.server.process.worker import configure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

UPGRADE = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 1 << 20


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body of a POST; answers every path with as many bytes as it names. Accepts sockets."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept", "headers": [(b"x-client", scope["client"][0].encode())]})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return
    body, more = 0, scope["method"] == "POST" and scope["path"] != "/early"
    while more:
        message = await receive()
        body, more = body + len(message.get("body", b"")), message.get("more_body", False)
    size = int(scope["path"][1:]) if scope["path"][1:].isdigit() else 2
    headers = [(b"content-length", str(size).encode()), (b"x-client", scope["client"][0].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"x" * size})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are pytest's


@asynccontextmanager
async def serving(
    address: str = "127.0.0.1", *, send_buffer: int = 16384, **settings: Any
) -> AsyncIterator[_Server]:
    """The application as a worker serves it, in this loop; ``port`` is where."""
    config = configure(application, Settings(**(QUICK | settings)))  # type: ignore[arg-type]
    server = _Server(config)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with reserve_port() as reservation, socket.socket(family) as listener:
        server.port = reservation.getsockname()[1]  # type: ignore[attr-defined]
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # The kernel would take megabytes for a client that does not read, and hide that it is slow.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        reservation.close()
        listener.bind((address, server.port))  # type: ignore[attr-defined]
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await eventually_async(lambda: server.started)
            yield server
        finally:
            server.should_exit = True
            for connection in tuple(server.server_state.connections):
                connection.transport.abort()
            await task


class Peer:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self) -> bytes:
        """All that comes until the server closes; the status line is first."""
        try:
            return await asyncio.wait_for(self.reader.read(), LIMIT)
        except ConnectionError:
            return b""

    async def status(self) -> int:
        """Of the next response, whose body has two bytes."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), LIMIT)
        await self.reader.readexactly(2)
        return int(head.split()[1])


@asynccontextmanager
async def connected(server: Any, source: str | None = None) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, local_addr=(source, 0) if source else None
    )
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


async def test_a_head_without_end_is_ended() -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(GET)
        sent = 0
        # It answers 431, which a client that goes on sending may not receive.
        while not peer.reader.at_eof() and peer.reader.exception() is None:
            peer.send(b"X-%d: %s\r\n" % (sent, b"a" * 1000))
            await asyncio.sleep(0)
            sent += 1
            assert sent < 97 * 1024


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"".join(b"a:\r\n" for _ in range(101)), id="many lines"),
        pytest.param(b"X: " + b"a" * 70_000 + b"\r\n", id="a long line"),
    ],
)
@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["unfinished", "complete"])
async def test_a_head_that_is_too_large_is_refused(head: bytes, end: bytes) -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(GET + head + end)
        assert (await peer.response()).startswith(b"HTTP/1.1 431 ")


async def test_a_large_head_and_a_large_body_are_accepted() -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(POST + b"X: %s\r\nContent-Length: %d\r\n\r\n" % (b"a" * 30_000, LARGE) + b"x" * LARGE)
        assert await peer.status() == 200
        peer.send(GET + b"\r\n")
        assert await peer.status() == 200


@pytest.mark.parametrize(
    "begun",
    [
        b"\r\n",
        GET,
        POST + b"Content-Length: 9\r\n\r\n1234",
        POST + b"Transfer-Encoding: chunked\r\n\r\n4;" + b"extension" * 2000,
    ],
    ids=["a blank line", "half a head", "half a body", "half a chunk"],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first request", "later request"])
async def test_a_request_that_does_not_arrive_is_ended(begun: bytes, is_first: bool) -> None:
    async with serving(request_seconds=0.2) as server, connected(server) as peer:
        if not is_first:
            peer.send(GET + b"\r\n")
            assert await peer.status() == 200
        peer.send(begun)
        response = await peer.response()
        assert response.startswith(b"HTTP/1.1 408 ")


async def test_a_silent_connection_is_ended() -> None:
    async with serving(request_seconds=0.2) as server, connected(server) as peer:
        assert await peer.response() == b""


async def test_a_body_that_keeps_coming_is_not_ended() -> None:
    async with serving(request_seconds=0.3) as server, connected(server) as peer:
        peer.send(POST + b"Content-Length: %d\r\n\r\n" % (20 * 4096))
        for _ in range(20):  # in all 2 s, and more than 4 KiB a second
            peer.send(b"x" * 4096)
            await asyncio.sleep(0.1)
        assert await peer.status() == 200


@pytest.mark.parametrize("path", [b"/", b"/early"])
async def test_a_body_in_tiny_chunks_is_refused(path: bytes) -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path)
        peer.send(b"1\r\nx\r\n" * 1000)
        assert (await peer.response()).count(b"HTTP/1.1 400 ") == 1


@pytest.mark.parametrize(
    "more",
    [b"0\r\n" + b"a:b\r\n" * 101, b"0\r\na: " + b"b" * 70_000, b"1;" + b"a" * 70_000],
    ids=["many trailers", "a long trailer", "a long extension of a chunk"],
)
@pytest.mark.parametrize("path", [b"/", b"/early"])
async def test_a_body_with_much_around_it_is_refused(path: bytes, more: bytes) -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path)
        peer.send(b"1\r\nx\r\n" + more)
        assert (await peer.response()).count(b"HTTP/1.1 431 ") == 1


async def test_a_body_in_small_chunks_is_accepted() -> None:
    async with serving() as server, connected(server) as peer:
        peer.send(
            POST
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"64\r\n%b\r\n" % (b"x" * 100) * 20_000
            + b"0\r\nX-Trailer: one\r\n\r\n"
        )
        assert await peer.status() == 200


async def test_the_rest_of_a_request_that_was_answered_early_is_not_read_for_ever(monkeypatch) -> None:
    from leasehold.server.process.connection_limits import ConnectionLimits

    usual = ConnectionLimits.of
    monkeypatch.setattr(
        ConnectionLimits,
        "of",
        lambda settings: ConnectionLimits(seconds=usual(settings).seconds, linger_seconds=0.2),
    )
    async with serving() as server, connected(server) as peer:
        peer.send(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        assert await peer.status() == 200
        async with asyncio.timeout(LIMIT):
            while not peer.reader.at_eof() and peer.reader.exception() is None:
                peer.send(b"x" * 1000)
                await asyncio.sleep(0.01)


async def test_a_connection_ends_when_nothing_follows_a_request_that_was_answered_early() -> None:
    async with serving(request_seconds=0.2) as server, connected(server) as peer:
        peer.send(b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n12")
        assert await peer.status() == 200
        peer.send(b"34")
        assert await peer.response() == b""


async def test_a_client_that_does_not_wait_for_responses_is_ended() -> None:
    async with serving() as server, connected(server) as peer:
        peer.send((GET + b"\r\n") * 1000)
        response = await peer.response()
        assert response.count(b"HTTP/1.1 200 ") < 50
        await eventually_async(lambda: not server.server_state.connections)


async def test_a_few_pipelined_requests_are_answered() -> None:
    async with serving() as server, connected(server) as peer:
        peer.send((GET + b"\r\n") * 10)
        assert [await peer.status() for _ in range(10)] == [200] * 10


async def test_a_client_that_does_not_read_its_response_is_ended() -> None:
    async with serving(request_seconds=0.2) as server, connected(server) as peer:
        peer.writer.transport.pause_reading()
        peer.send(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (16 * LARGE))
        await eventually_async(lambda: server.server_state.total_requests == 1)
        await eventually_async(lambda: not server.server_state.connections)


@pytest.mark.parametrize("at_once", [True, False], ids=["unanswered", "unread"])
async def test_a_connection_with_open_responses_does_not_become_a_socket(
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,
) -> None:
    upgraded: list[object] = []
    monkeypatch.setattr(SocketProtocol, "connection_made", lambda self, _: upgraded.append(self))
    get = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (16 * LARGE)
    async with serving() as server, connected(server) as peer:
        peer.writer.transport.pause_reading()
        peer.send(get)
        if not at_once:
            await eventually_async(lambda: server.server_state.total_requests == 1)
        peer.send(GET + UPGRADE + b"\r\n")
        await eventually_async(lambda: upgraded or not server.server_state.connections)
        assert not upgraded


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"], ids=["kept alive", "closed after it"])
async def test_a_client_that_reads_its_response_slowly_gets_all_of_it(more: bytes) -> None:
    size = 16 * LARGE
    async with serving(request_seconds=2, send_buffer=4 * LARGE) as server:
        server.config.timeout_keep_alive = 0
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, b"GET /%d HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (size, more))
            received = 0
            while received < size and (piece := await asyncio.wait_for(loop.sock_recv(client, 16384), LIMIT)):
                received += len(piece)
                if received < LARGE:
                    await asyncio.sleep(0.05)
        assert received >= size


async def test_unread_responses_to_one_address_are_limited() -> None:
    async with serving() as server, AsyncExitStack() as clients:
        for number in range(10):
            peer = await clients.enter_async_context(connected(server, "127.0.0.2"))
            peer.writer.transport.pause_reading()
            peer.send(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (8 * LARGE))
            await eventually_async(lambda done=number + 1: server.server_state.total_requests == done)
        await eventually_async(lambda: len(server.server_state.connections) < 5)
        peer = await clients.enter_async_context(connected(server))
        peer.send(b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % LARGE)
        head = await peer.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert len(await asyncio.wait_for(peer.reader.readexactly(LARGE), LIMIT)) == LARGE


async def test_connections_of_one_address_are_limited_and_others_are_served() -> None:
    async with serving(max_connections_per_address=3) as server, AsyncExitStack() as clients:
        peers = [await clients.enter_async_context(connected(server, "127.0.0.2")) for _ in range(4)]
        assert (await peers[3].response()).startswith(b"HTTP/1.1 429 ")
        other = await clients.enter_async_context(connected(server))
        other.send(GET + b"\r\n")
        assert await other.status() == 200
        peers[0].writer.close()
        await eventually_async(lambda: len(server.server_state.connections) == 3)
        late = await clients.enter_async_context(connected(server, "127.0.0.2"))
        late.send(GET + b"\r\n")
        assert await late.status() == 200


async def test_connections_of_a_trusted_proxy_are_not_limited_by_address() -> None:
    async with (
        serving(max_connections_per_address=1, trusted_proxies="127.0.0.0/8") as server,
        connected(server) as first,
        connected(server) as second,
    ):
        for peer in (first, second):
            peer.send(GET + b"X-Forwarded-For: 192.0.2.7\r\n\r\n")
            assert b"x-client: 192.0.2.7" in await peer.reader.readuntil(b"\r\n\r\n")


async def test_all_connections_are_limited() -> None:
    async with serving(max_connections=1) as server, connected(server) as first, connected(server) as second:
        assert (await second.response()).startswith(b"HTTP/1.1 429 ")
        first.send(GET + b"\r\n")
        assert await first.status() == 200


async def test_a_socket_is_not_counted_as_a_connection_of_its_address() -> None:
    async with serving(max_connections_per_address=1) as server, connected(server) as first:
        first.send(GET + UPGRADE + b"\r\n")
        assert b" 101 " in await first.reader.readuntil(b"\r\n\r\n")
        async with connected(server) as second:
            second.send(GET + b"\r\n")
            assert await second.status() == 200


@pytest.mark.parametrize("upgrade", [b"", UPGRADE], ids=["request", "socket"])
@pytest.mark.parametrize(
    ("forwarded", "client"), [(b"", b"127.0.0.1"), (b"X-Forwarded-For: 192.0.2.7\r\n", b"192.0.2.7")]
)
async def test_an_ipv4_client_of_an_ipv6_listener_has_its_ipv4_address(
    upgrade: bytes, forwarded: bytes, client: bytes
) -> None:
    async with serving("::", trusted_proxies="127.0.0.1") as server, connected(server) as peer:
        peer.send(GET + upgrade + forwarded + b"\r\n")
        assert b"x-client: %b\r\n" % client in await peer.reader.readuntil(b"\r\n\r\n")


def test_a_connection_is_read_once_in_a_turn_of_the_loop() -> None:
    """libuv would read it up to 32 times before it looks at another one."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        turns = runner.run(_turns_of_reads())
    assert len(turns) > 5
    assert len(set(turns)) == len(turns)


async def _turns_of_reads() -> list[int]:
    """The turns in which a large piece of a body was received."""
    loop, turns, turn, is_on = asyncio.get_running_loop(), [], count(), True
    now = next(turn)

    def next_turn() -> None:
        nonlocal now
        now = next(turn)
        if is_on:
            loop.call_soon(next_turn)

    next_turn()
    async with serving() as server:
        (make,) = [server.config.http_protocol_class]

        def recording(*args: Any, **kwargs: Any) -> Any:
            protocol = make(*args, **kwargs)
            receive = protocol.data_received

            def data_received(data: bytes) -> None:
                if len(data) > 65536:
                    turns.append(now)
                receive(data)
                threading.Event().wait(0.005)  # while the client fills the kernel's buffer

            protocol.data_received = data_received
            return protocol

        server.config.http_protocol_class = recording  # type: ignore[assignment]

        def upload() -> bytes:
            with socket.create_connection(("127.0.0.1", server.port), LIMIT) as client:  # type: ignore[attr-defined]
                size = 16 * LARGE
                # Answered at once, so that uvicorn does not pause to let the application read.
                client.sendall(
                    b"POST /early HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size
                )
                client.sendall(b"x" * size)
                return client.recv(12)

        assert await asyncio.to_thread(upload) == b"HTTP/1.1 200"
    is_on = False
    return turns
