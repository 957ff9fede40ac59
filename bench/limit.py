"""The limit: the same work over bare hiredis. No objects, no checks, no fence, one token per worker."""

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import hiredis

from bench.work import AsyncCycles, BlockingCycles, Names, Window

COMPARE_AND_DELETE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
)
TTL_MS = "30000"
TOKEN = b"0123456789abcdef0123456789abcdef"


class LimitConnection(asyncio.Protocol):
    """One connection: all commands of a loop tick are sent in one write, replies are matched in order."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._outgoing: list[bytes] = []
        self._awaited: deque[asyncio.Future[object]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._awaited.popleft().set_result(reply)

    def request(self, *command: str | bytes) -> asyncio.Future[object]:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(hiredis.pack_command(command))
        future = self._loop.create_future()
        self._awaited.append(future)
        return future

    def close(self) -> None:
        self._transport.close()

    def _flush(self) -> None:
        self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()


@asynccontextmanager
async def tasks(url: str) -> AsyncIterator[AsyncCycles]:
    address = urlsplit(url)
    _, connection = await asyncio.get_running_loop().create_connection(
        LimitConnection, address.hostname, address.port
    )
    sha = await connection.request("SCRIPT", "LOAD", COMPARE_AND_DELETE)
    request = connection.request

    async def cycles(names: Names, window: Window) -> int:
        done = 0
        while window.is_open:
            name = next(names)
            await request("SET", name, TOKEN, "NX", "PX", TTL_MS)
            await request("EVALSHA", sha, "1", name, TOKEN)
            done += 1
        return done

    try:
        # Checked once here, because the loop checks nothing: granted, refused, released.
        _expect(await request("SET", "deal:0", TOKEN, "NX", "PX", TTL_MS), b"OK")
        _expect(await request("SET", "deal:0", TOKEN, "NX", "PX", TTL_MS), None)
        _expect(await request("EVALSHA", sha, "1", "deal:0", TOKEN), 1)
        yield cycles
    finally:
        connection.close()


@contextmanager
def threads(url: str) -> Iterator[BlockingCycles]:
    """A plain socket per thread."""
    address = (urlsplit(url).hostname, urlsplit(url).port)

    def cycles(names: Names, window: Window) -> int:
        done = 0
        with socket.create_connection(address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = hiredis.Reader()

            def call(*command: str | bytes) -> object:
                connection.sendall(hiredis.pack_command(command))
                while (reply := reader.gets()) is False:
                    reader.feed(connection.recv(65536))
                return reply

            sha = call("SCRIPT", "LOAD", COMPARE_AND_DELETE)
            while window.is_open:
                name = next(names)
                call("SET", name, TOKEN, "NX", "PX", TTL_MS)
                call("EVALSHA", sha, "1", name, TOKEN)
                done += 1
        return done

    yield cycles


def _expect(reply: object, expected: object) -> None:
    if reply != expected:
        raise RuntimeError(f"the limit's commands failed: {reply!r} instead of {expected!r}")
