"""Very many WebSocket clients in one thread, cheap enough that the server is the bottleneck."""

import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from bench.documents import frames

AT_ONCE = 100
NO_CODE = 1005
LOST = 1006

Hear = Callable[["SocketClient", bytes], None]


@dataclass(slots=True, eq=False)
class SocketClient:
    """One client. It sends its lines, each after the reply to the previous one; then it is ready, and only listens.

    ``code`` is None until its connection has ended.
    """

    number: int
    connection: socket.socket
    lines: Iterator[str]
    is_ready: bool = False
    code: int | None = None
    unread: bytes = b""
    is_connected: bool = False
    last_received: bytes = field(default=b"", repr=False)


class ClientsFailed(Exception):
    """A client could not connect, or was disconnected before it was ready."""


class WebSocketClients:
    """``hear`` is called with every message to a client that is ready."""

    def __init__(self, port: int, path: str, hear: Hear) -> None:
        self._port = port
        self._hear = hear
        self._hello = frames.handshake(port, path)
        self._poll = select.epoll()
        self._by_fd: dict[int, SocketClient] = {}
        self.clients: list[SocketClient] = []

    def connect(
        self, scripts: Sequence[Sequence[str]], *, within: float = 60, receive_buffer: int | None = None
    ) -> list[SocketClient]:
        """Connect a client for each script; on return all are ready."""
        deadline = time.monotonic() + within
        new: list[SocketClient] = []
        left = iter(scripts)
        opening: list[SocketClient] = []
        while True:
            while len(opening) < AT_ONCE and (script := next(left, None)) is not None:
                opening.append(self._open(script, receive_buffer))
                new.append(opening[-1])
            if not opening:
                return new
            self.pump(0.1)
            for client in opening:
                if client.code is not None:
                    raise ClientsFailed(
                        f"a client was disconnected ({client.code}): {client.last_received!r}"
                    )
            opening = [client for client in opening if not client.is_ready]
            if time.monotonic() > deadline:
                raise ClientsFailed(f"{len(opening)} of {len(scripts)} are not ready after {within:g} s")

    def pump(self, timeout: float) -> None:
        """Read available data; wait for it at most ``timeout`` seconds."""
        for fd, _ in self._poll.poll(timeout):
            client = self._by_fd.get(fd)
            if client is not None:
                self._read(client)

    def pump_until(self, is_done: Callable[[], bool], *, within: float) -> bool:
        """Read data until ``is_done``; False if that takes too long."""
        deadline = time.monotonic() + within
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.pump(min(left, 0.1))
        return True

    def stall(self, client: SocketClient) -> None:
        """Stop reading from the client's socket."""
        self._poll.unregister(self._forget(client))

    def wake(self, client: SocketClient) -> None:
        """Read from the client's socket again."""
        self._watch(client)

    def close(self) -> None:
        for client in self.clients:
            client.connection.close()
        self._poll.close()

    def fileno(self) -> int:
        """The descriptor that is readable when data is available."""
        return self._poll.fileno()

    def _open(self, script: Sequence[str], receive_buffer: int | None) -> SocketClient:
        connection = socket.socket()
        if receive_buffer is not None:  # before connecting, which tells the server the window
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self._port))
        connection.setblocking(False)
        client = SocketClient(len(self.clients), connection, iter(script))
        self.clients.append(client)
        self._watch(client)
        connection.send(self._hello)
        return client

    def _watch(self, client: SocketClient) -> None:
        self._by_fd[client.connection.fileno()] = client
        self._poll.register(client.connection.fileno(), select.EPOLLIN)

    def _forget(self, client: SocketClient) -> int:
        fd = client.connection.fileno()
        del self._by_fd[fd]
        return fd

    def _read(self, client: SocketClient) -> None:
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(client, LOST)
            return
        unread = client.unread + data if client.unread else data
        if not client.is_connected:
            unread = self._read_handshake(client, unread)
        while unread and client.code is None and (found := frames.read_frame(unread)) is not None:
            frame, end = found
            unread = unread[end:] if end < len(unread) else b""
            self._take(client, frame)
        client.unread = unread

    def _read_handshake(self, client: SocketClient, unread: bytes) -> bytes:
        head, end, rest = unread.partition(b"\r\n\r\n")
        if not end:
            return unread
        if not head.startswith(b"HTTP/1.1 101 "):
            client.last_received = head
            self._end(client, LOST)
            return b""
        client.is_connected = True
        self._send_next(client)
        return rest

    def _take(self, client: SocketClient, frame: frames.Frame) -> None:
        if frame.opcode == frames.TEXT:
            if client.is_ready:
                self._hear(client, frame.data)
            else:
                client.last_received = frame.data
                self._send_next(client)
        elif frame.opcode == frames.PING:
            with suppress(OSError):
                client.connection.send(frames.client_frame(frames.PONG, frame.data))
        elif frame.opcode == frames.CLOSE:
            self._end(client, int.from_bytes(frame.data[:2]) if frame.data else NO_CODE)

    def _send_next(self, client: SocketClient) -> None:
        line = next(client.lines, None)
        if line is None:
            client.is_ready = True
        else:
            client.connection.send(frames.client_frame(frames.TEXT, line.encode()))

    def _end(self, client: SocketClient, code: int) -> None:
        if client.code is None:
            client.code = code
            if client.connection.fileno() in self._by_fd:
                self._poll.unregister(self._forget(client))
            client.connection.close()
