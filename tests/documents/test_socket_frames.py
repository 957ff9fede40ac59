"""What a peer may do below the messages: frames of every kind, and not reading what comes back."""

from __future__ import annotations

import asyncio
import base64
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.documents.workers import host
from tests.support.eventually import LIMIT, eventually_async
from websockets.frames import Close, Frame, Opcode

from leasehold.documents.fastapi import SocketLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MANY = 5000
EMPTY = Frame(Opcode.CONT, b"", fin=False)
FLOODS = {
    "empty fragments": [Frame(Opcode.TEXT, b"{", fin=False), *[EMPTY] * MANY],
    "empty messages": [Frame(Opcode.TEXT, b"")] * MANY,
    "pings": [Frame(Opcode.PING, b"p" * 125)] * MANY,
    "pongs": [Frame(Opcode.PONG, b"")] * MANY,
}


@pytest.fixture
async def made(valkey):
    async with host(valkey.url) as application:
        yield application


class RawPeer:
    """A peer that sends the frames that it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *frames: Frame) -> None:
        self.writer.write(b"".join(frame.serialize(mask=True) for frame in frames))

    async def close_code(self) -> int | None:
        """The code of the close frame, which is the last one; None if the connection was aborted."""
        try:
            data = await asyncio.wait_for(self.reader.read(), LIMIT)
        except ConnectionError:
            return None
        return Close.parse(data[-2:]).code if data[-4:-2] == b"\x88\x02" else None


@asynccontextmanager
async def connected(worker) -> AsyncIterator[RawPeer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", worker.port)
    try:
        key = base64.b64encode(b"k" * 16).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{worker.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)
        yield RawPeer(reader, writer)
    finally:
        writer.close()


@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("is_signed_in", [False, True], ids=["before sign-in", "signed in"])
async def test_too_many_frames_end_the_socket(made, kind: str, is_signed_in: bool) -> None:
    worker = await made.worker(limits=SocketLimits(authenticate_within=600, burst=10**6))
    async with connected(worker) as peer:
        if is_signed_in:
            peer.send(Frame(Opcode.TEXT, b'{"type":"authenticate","data":{"token":"ana"}}'))
            await eventually_async(lambda: worker.hub.presence.of("ana"))
        peer.send(*FLOODS[kind])
        assert await peer.close_code() in {4429, None}  # None: it was still sending
    await eventually_async(lambda: not worker.server.server_state.connections)


async def test_the_frames_of_a_usual_message_are_few(made) -> None:
    worker = await made.worker()
    async with connected(worker) as peer:
        text = b'{"type":"authenticate","data":{"token":"ana"}}'
        pieces = [Frame(Opcode.CONT, text[number : number + 1], fin=False) for number in range(1, len(text))]
        peer.send(Frame(Opcode.TEXT, text[:1], fin=False), *pieces, Frame(Opcode.CONT, b""))
        await eventually_async(lambda: worker.hub.presence.of("ana"))


async def test_pongs_for_a_peer_that_does_not_read_are_not_kept(made) -> None:
    worker = await made.worker(limits=SocketLimits(authenticate_within=600))
    async with connected(worker) as peer:
        (protocol,) = worker.server.server_state.connections
        protocol.frames_per_second = protocol.frame_burst = 10**9  # so that only the memory counts
        peer.writer.transport.pause_reading()
        pings = b"".join(frame.serialize(mask=True) for frame in FLOODS["pings"])
        for _ in range(20):
            peer.writer.write(pings)
            await asyncio.wait_for(peer.writer.drain(), LIMIT)
        largest = 0

        def is_read() -> bool:
            nonlocal largest
            largest = max(largest, protocol.transport.get_write_buffer_size())
            return peer.writer.transport.get_write_buffer_size() == 0

        await eventually_async(is_read)
        assert 0 < largest < 262_144


async def test_a_peer_that_neither_reads_nor_answers_pings_is_aborted(made, monkeypatch) -> None:
    monkeypatch.setattr("leasehold.documents.uvicorn._ABORT_AFTER", 0.1)
    worker = await made.worker(
        limits=SocketLimits(authenticate_within=600),
        uvicorn_ws_ping_interval=0.2,
        uvicorn_ws_ping_timeout=0.2,
    )
    async with connected(worker) as peer:
        (protocol,) = worker.server.server_state.connections
        peer.writer.transport.pause_reading()
        while protocol.writable.is_set() and not protocol.transport.is_closing():
            peer.send(*FLOODS["pings"][:500])
            await asyncio.sleep(0.05)
        await eventually_async(lambda: not worker.server.server_state.connections)


async def test_one_address_cannot_take_the_places_of_all_sockets(made) -> None:
    worker = await made.worker(
        limits=SocketLimits(authenticate_within=600, unauthenticated=5, unauthenticated_per_address=2)
    )
    async with connected(worker), connected(worker):
        with pytest.raises(AssertionError):
            async with connected(worker):
                pass
        reader, writer = await asyncio.open_connection("127.0.0.1", worker.port, local_addr=("127.0.0.2", 0))
        key = base64.b64encode(b"k" * 16).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{worker.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        assert b" 101 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT)
        writer.close()
