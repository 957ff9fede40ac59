"""A TCP proxy in front of a server that injects the faults of a bad network."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

from tests.support.eventually import LIMIT
from tests.support.loop_thread import LoopThread
from tests.support.resp import FrameSplitter
from tests.support.servers import reserve_port

Direction = Literal["requests", "replies", "both"]
_Way = Literal["requests", "replies"]
_WAYS: tuple[_Way, _Way] = ("requests", "replies")


@dataclass(eq=False)
class _Trap:
    """Springs on the next matching request."""

    match: bytes | None
    deliver: bool
    is_cut: bool = True
    sprung: threading.Event = field(default_factory=threading.Event)


class FaultProxy:
    """`with FaultProxy(server.port) as proxy: connect(proxy.url)`.

    All controls are plain methods, may be called from any thread, hold for old and new connections, and are
    in force when they return. Directions: "requests" (to the server), "replies" (to the client), "both".
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.connections = 0
        """Accepted since the start."""
        self.bytes = dict.fromkeys(_WAYS, 0)
        """Forwarded, by direction."""
        self.pushes_dropped = 0
        self.is_dropping_pushes = False
        self.latency = dict.fromkeys(_WAYS, 0.0)
        self.traps: list[_Trap] = []
        self.errors: list[Exception] = []
        self.dropped: list[bytes] = []
        """What `cut_before_request` kept from the server, for `deliver_dropped`."""
        self._reservation = reserve_port()
        self._thread = LoopThread("fault-proxy")
        self.flowing = {way: asyncio.Event() for way in _WAYS}
        self._links: dict[_Link, asyncio.Task[None]] = {}
        self._resets_new = False
        self._listener: socket.socket | None = None
        self._thread.call(self._flow, "both")
        self._thread.call(self._listen)

    @property
    def port(self) -> int:
        return self._reservation.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open_connections(self) -> int:
        return len(self._links)

    # Controls

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Deliver what comes from now on `seconds` later, in order. Latency, not throughput. 0 ends it."""
        self._thread.call(self.latency.update, dict.fromkeys(_ways(direction), seconds))

    def stall(self, direction: Direction = "both") -> None:
        """Holds all data back. Connections stay open, and new ones are accepted."""
        self._thread.call(self._stall, direction)

    def flow(self, direction: Direction = "both") -> None:
        """End a stall: what was held back is delivered, late."""
        self._thread.call(self._flow, direction)

    def cut(self) -> None:
        """Reset (RST) all connections now, both sides. What was held back is lost."""
        self._thread.run(self._cut_all())

    def refuse(self, on: bool = True, *, accept_first: bool = False) -> None:  # noqa: FBT002 - reads as a switch
        """Refuse new connections (old ones live on): as a closed port, or `accept_first` and then reset."""
        self._thread.run(self._refuse(on, accept_first))

    def cut_after_request(self, match: bytes | None = None) -> threading.Event:
        """The reply gets lost: the next request that contains `match` reaches the server and is executed, then
        its connection is reset; no reply to it, or to requests before it still unanswered, is seen, and requests
        behind it in the pipeline never arrive. The answer is set once that has happened."""
        return self._set_trap(_Trap(match, deliver=True))

    def cut_before_request(self, match: bytes | None = None) -> threading.Event:
        """The request gets lost: the next one that contains `match` is dropped, its connection reset. Requests
        before it are delivered. The answer is set once that has happened."""
        return self._set_trap(_Trap(match, deliver=False))

    def deliver_dropped(self) -> bytes:
        """Send the server what was dropped last, late and on a connection of its own; the beginning of the reply."""
        with socket.create_connection(("127.0.0.1", self.target_port), timeout=LIMIT) as late:
            late.sendall(self.dropped[-1])
            return late.recv(4096)

    def stall_after_request(self, match: bytes | None = None) -> threading.Event:
        """The reply is held back: from the next request that contains `match` on, no reply passes until `flow`.
        The answer is set once that has happened."""
        return self._set_trap(_Trap(match, deliver=True, is_cut=False))

    def disarm(self) -> None:
        """Forget cuts that have not happened yet."""
        self._thread.call(self.traps.clear)

    def drop_pushes(self, on: bool = True) -> None:  # noqa: FBT002 - reads as a switch
        """Swallow RESP3 push frames, which include SUBSCRIBE's confirmations; pass everything else."""
        self._thread.call(setattr, self, "is_dropping_pushes", on)

    def close(self) -> None:
        if self._thread.loop.is_closed():
            return
        self._thread.run(self._refuse(True, False))
        self._thread.run(self._cut_all())
        self._thread.close()
        self._reservation.close()
        if self.errors:
            raise ExceptionGroup("the proxy itself failed", self.errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # In the loop's thread

    def _stall(self, direction: Direction) -> None:
        for way in _ways(direction):
            self.flowing[way].clear()

    def _flow(self, direction: Direction) -> None:
        for way in _ways(direction):
            self.flowing[way].set()

    def _set_trap(self, trap: _Trap) -> threading.Event:
        self._thread.call(self.traps.append, trap)
        return trap.sprung

    async def _cut_all(self) -> None:
        # Sockets are closed only when nothing waits for them: the loop knows them by number, and a
        # number that is taken again at once would wake the wrong one.
        tasks = list(self._links.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refuse(self, on: bool, accept_first: bool) -> None:
        self._resets_new = on and accept_first
        if not on or accept_first:
            self._listen()
        elif self._listener:
            self._thread.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _listen(self) -> None:
        if not self._listener:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
            self._listener.setblocking(False)
            # Not a task that accepts: one that is cancelled in a bad moment would lose a connection, unclosed.
            self._thread.loop.add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # gone before it was accepted
        self.connections += 1
        if self._resets_new:
            _reset(client)
            return
        client.setblocking(False)
        link = _Link(self, client)
        task = self._links[link] = asyncio.ensure_future(link.run())
        task.add_done_callback(lambda task, link=link: self._ended(link, task))

    def _ended(self, link: _Link, task: asyncio.Task[None]) -> None:
        del self._links[link]
        link.reset()
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.errors.append(error)


class _Link:
    """One client's connection and its counterpart to the server."""

    def __init__(self, proxy: FaultProxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = socket.socket()
        self.server.setblocking(False)
        self.server_ended = asyncio.Event()
        self.trap: _Trap | None = None
        """Once sprung: no further reply may pass."""

    def reset(self) -> None:
        """End both sides with RST, unless they have ended in peace; then tell the test, if it set a trap."""
        _reset(self.client)
        _reset(self.server)
        if self.trap:
            self.trap.sprung.set()

    async def run(self) -> None:
        for side in (self.client, self.server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(self.server, ("127.0.0.1", self.proxy.target_port))
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump("requests", self.client, self.server))
                both.create_task(self._pump("replies", self.server, self.client))
        except* OSError:
            pass  # reset, when this task has ended
        else:
            # Plain closes, so that the last bytes are not overtaken by a reset.
            self.client.close()
            self.server.close()

    async def _pump(self, way: _Way, source: socket.socket, sink: socket.socket) -> None:
        # Bounded, so that a stalled proxy pushes back like a full socket.
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        async with asyncio.TaskGroup() as ends:
            ends.create_task(self._receive(way, source, chunks))
            ends.create_task(self._send(way, sink, chunks))

    async def _receive(
        self, way: _Way, source: socket.socket, chunks: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        loop = asyncio.get_running_loop()
        data = b"-"
        while data:
            data = await loop.sock_recv(source, 65536)
            if way == "replies" and not data:
                self.server_ended.set()
            await chunks.put((loop.time() + self.proxy.latency[way], data))

    async def _send(self, way: _Way, sink: socket.socket, chunks: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        stream = _Requests(self) if way == "requests" else _Replies(self)
        while True:
            due_at, data = await chunks.get()
            if (early := due_at - loop.time()) > 0:
                await asyncio.sleep(early)
            await self.proxy.flowing[way].wait()
            if not data:
                if not self.trap:
                    sink.shutdown(socket.SHUT_WR)
                return
            passed = stream.filter(data)
            if passed and not (way == "replies" and self.trap):
                self.proxy.bytes[way] += len(passed)  # first: what a test has seen must have been counted
                await loop.sock_sendall(sink, passed)
            if way == "requests" and self.trap:
                if self.trap.deliver:
                    await self._let_the_server_finish()
                raise ConnectionResetError

    async def _let_the_server_finish(self) -> None:
        """A half-close is read after all the requests, and the server closes when it has executed them: so the
        client learns of the cut only after its request took effect. Do not combine it with a paused server."""
        self.server.shutdown(socket.SHUT_WR)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.server_ended.wait(), LIMIT)


class _Stream:
    """Lets bytes through at once, and keeps track of frames for the moment when a filter needs them."""

    def __init__(self, link: _Link) -> None:
        self.link = link
        self.proxy = link.proxy
        self._splitter = FrameSplitter()
        self._passed = 0  # bytes of the current, incomplete frame that have been let through

    def is_filtering(self) -> bool:
        raise NotImplementedError

    def judge(self, frame: bytes) -> bool:
        """Whether the frame goes through; may spring the link's trap, which ends the stream."""
        raise NotImplementedError

    def filter(self, data: bytes) -> bytes:
        held = bytes(self._splitter.rest[self._passed :])
        frames = self._splitter.feed(data)
        if not self.is_filtering():
            self._passed = len(self._splitter.rest)
            return held + data
        out = bytearray()
        for frame in frames:
            if self.judge(frame):
                out += frame[self._passed :]
            self._passed = 0
            if self.link.trap:
                break
        return bytes(out)


class _Requests(_Stream):
    def is_filtering(self) -> bool:
        return bool(self.proxy.traps)

    def judge(self, frame: bytes) -> bool:
        for trap in self.proxy.traps:
            if trap.match is None or trap.match in frame:
                self.proxy.traps.remove(trap)
                if not trap.deliver:
                    self.proxy.dropped.append(frame)
                if trap.is_cut:
                    self.link.trap = trap
                else:
                    self.proxy.flowing["replies"].clear()
                    trap.sprung.set()
                return trap.deliver
        return True


class _Replies(_Stream):
    def is_filtering(self) -> bool:
        return self.proxy.is_dropping_pushes

    def judge(self, frame: bytes) -> bool:
        # A push whose beginning has gone out must be finished, or the stream would be garbage.
        if frame.startswith(b">") and not self._passed:
            self.proxy.pushes_dropped += 1
            return False
        return True


def _ways(direction: Direction) -> tuple[_Way, ...]:
    return _WAYS if direction == "both" else (direction,)


def _reset(side: socket.socket) -> None:
    """Close with RST, if still open."""
    if side.fileno() >= 0:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.close()
