"""Very many WebSocket clients in one thread, so light that it is the server that is measured."""

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

Hear = Callable[["Member", bytes], None]


@dataclass(slots=True, eq=False)
class Member:
    """One client. It says its lines, each after the answer to the one before; then it is ready, and only listens.

    ``code`` is None until its connection has ended.
    """

    number: int
    connection: socket.socket
    lines: Iterator[str]
    is_ready: bool = False
    code: int | None = None
    unread: bytes = b""
    is_connected: bool = False
    last_said: bytes = field(default=b"", repr=False)


class CrowdFailed(Exception):
    """Somebody did not get in, or was sent away while getting in."""


class Crowd:
    """``hear`` is called with every text that a member is told once it is ready."""

    def __init__(self, port: int, path: str, hear: Hear) -> None:
        self._port = port
        self._hear = hear
        self._hello = frames.handshake(port, path)
        self._poll = select.epoll()
        self._by_fd: dict[int, Member] = {}
        self.members: list[Member] = []

    def gather(
        self, scripts: Sequence[Sequence[str]], *, within: float = 60, receive_buffer: int | None = None
    ) -> list[Member]:
        """One more member for each script: on return all are ready."""
        deadline = time.monotonic() + within
        new: list[Member] = []
        left = iter(scripts)
        opening: list[Member] = []
        while True:
            while len(opening) < AT_ONCE and (script := next(left, None)) is not None:
                opening.append(self._open(script, receive_buffer))
                new.append(opening[-1])
            if not opening:
                return new
            self.pump(0.1)
            for member in opening:
                if member.code is not None:
                    raise CrowdFailed(f"one was sent away ({member.code}): {member.last_said!r}")
            opening = [member for member in opening if not member.is_ready]
            if time.monotonic() > deadline:
                raise CrowdFailed(f"{len(opening)} of {len(scripts)} are not in after {within:g} s")

    def pump(self, timeout: float) -> None:
        """Take in what is there; wait for it no longer than ``timeout``."""
        for fd, _ in self._poll.poll(timeout):
            member = self._by_fd.get(fd)
            if member is not None:
                self._read(member)

    def pump_until(self, is_done: Callable[[], bool], *, within: float) -> bool:
        """Take in what comes until ``is_done``; False if that took too long."""
        deadline = time.monotonic() + within
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.pump(min(left, 0.1))
        return True

    def stall(self, member: Member) -> None:
        """The member reads nothing any more."""
        self._poll.unregister(self._forget(member))

    def wake(self, member: Member) -> None:
        """It reads again."""
        self._watch(member)

    def close(self) -> None:
        for member in self.members:
            member.connection.close()
        self._poll.close()

    def fileno(self) -> int:
        """Readable when there is something to take in."""
        return self._poll.fileno()

    def _open(self, script: Sequence[str], receive_buffer: int | None) -> Member:
        connection = socket.socket()
        if receive_buffer is not None:  # before connecting: afterwards the window is known to the server
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(("127.0.0.1", self._port))
        connection.setblocking(False)
        member = Member(len(self.members), connection, iter(script))
        self.members.append(member)
        self._watch(member)
        connection.send(self._hello)
        return member

    def _watch(self, member: Member) -> None:
        self._by_fd[member.connection.fileno()] = member
        self._poll.register(member.connection.fileno(), select.EPOLLIN)

    def _forget(self, member: Member) -> int:
        fd = member.connection.fileno()
        del self._by_fd[fd]
        return fd

    def _read(self, member: Member) -> None:
        try:
            data = member.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(member, LOST)
            return
        unread = member.unread + data if member.unread else data
        if not member.is_connected:
            unread = self._shake_hands(member, unread)
        while unread and member.code is None and (found := frames.read_frame(unread)) is not None:
            frame, end = found
            unread = unread[end:] if end < len(unread) else b""
            self._take(member, frame)
        member.unread = unread

    def _shake_hands(self, member: Member, unread: bytes) -> bytes:
        head, end, rest = unread.partition(b"\r\n\r\n")
        if not end:
            return unread
        if not head.startswith(b"HTTP/1.1 101 "):
            member.last_said = head
            self._end(member, LOST)
            return b""
        member.is_connected = True
        self._say_next(member)
        return rest

    def _take(self, member: Member, frame: frames.Frame) -> None:
        if frame.opcode == frames.TEXT:
            if member.is_ready:
                self._hear(member, frame.data)
            else:
                member.last_said = frame.data
                self._say_next(member)
        elif frame.opcode == frames.PING:
            with suppress(OSError):
                member.connection.send(frames.client_frame(frames.PONG, frame.data))
        elif frame.opcode == frames.CLOSE:
            self._end(member, int.from_bytes(frame.data[:2]) if frame.data else NO_CODE)

    def _say_next(self, member: Member) -> None:
        line = next(member.lines, None)
        if line is None:
            member.is_ready = True
        else:
            member.connection.send(frames.client_frame(frames.TEXT, line.encode()))

    def _end(self, member: Member, code: int) -> None:
        if member.code is None:
            member.code = code
            if member.connection.fileno() in self._by_fd:
                self._poll.unregister(self._forget(member))
            member.connection.close()
