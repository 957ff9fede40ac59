"""Clients that try to keep a worker busy: `python -m tests.server.hostile_clients`, in a process of their own.

One line of JSON on stdin is the order; another one ends it. Standard library only, so that it starts at once.
"""

from __future__ import annotations

import base64
import json
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, repeat

Pieces = Iterator[bytes]


@dataclass(frozen=True)
class Order:
    """What to attack. ``document`` has 1 MiB of content, ``nested`` has `many_objects` and the draft ``draft``; ``token``
    is that of their owner."""

    port: int
    attack: str
    connections: int
    token: str
    document: str
    nested: str
    draft: str


@dataclass(frozen=True)
class Attack:
    """What each connection sends, for as long as it lasts; a new one follows. Without ``reads`` it never reads."""

    pieces: Callable[[Order], Pieces]
    reads: bool = True
    receive_buffer: int | None = None


def head(order: Order, line: str, *headers: str) -> bytes:
    return "\r\n".join([line, f"Host: 127.0.0.1:{order.port}", *headers, ""]).encode()


def authorized(order: Order) -> str:
    return f"Authorization: Bearer {order.token}"


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True) -> bytes:
    assert len(payload) < 126
    return bytes([(0x80 if fin else 0) | opcode, 0x80 | len(payload)]) + b"\0\0\0\0" + payload


def handshake(order: Order) -> bytes:
    key = base64.b64encode(b"k" * 16).decode()
    headers = (
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    return head(order, "GET /ws HTTP/1.1", *headers) + b"\r\n"


def get(order: Order, path: str, *headers: str) -> bytes:
    return head(order, f"GET /api/documents/{path} HTTP/1.1", authorized(order), *headers) + b"\r\n"


def put(order: Order, *headers: str) -> bytes:
    line = f"PUT /api/documents/{order.document}/content HTTP/1.1"
    return head(order, line, "Content-Type: application/json", *headers) + b"\r\n"


def endless_head(order: Order) -> Pieces:
    yield head(order, "GET / HTTP/1.1")
    yield from repeat(b"".join(b"X-%d: %b\r\n" % (number, b"a" * 100) for number in range(500)))


def half_head(order: Order) -> Pieces:
    yield head(order, "GET / HTTP/1.1", *(f"X-{number}: {'a' * 300}" for number in range(90)))


def half_body(order: Order) -> Pieces:
    yield head(order, "POST /api/auth/login HTTP/1.1", "Content-Length: 16000") + b"\r\n" + b" " * 15_000


def oversized(order: Order) -> Pieces:
    yield put(order, "Content-Length: 4200000") + b"[" + b" " * 4_100_000


def oversized_signed_in(order: Order) -> Pieces:
    yield put(order, "Content-Length: 4200000", authorized(order)) + b"[" + b" " * 4_100_000


def tiny_chunks(order: Order) -> Pieces:
    yield put(order, "Transfer-Encoding: chunked", authorized(order))
    yield from repeat(b"1\r\n \r\n" * 10_000)


def json_body(order: Order, *pieces: bytes) -> bytes:
    body = b"".join(pieces)
    return put(order, f"Content-Length: {len(body)}", authorized(order)) + body


def save_of(content: bytes, *, base: int = 0, fence: str = "1") -> bytes:
    return b'{"fence":"%b","base_version":%d,"content":%b}' % (fence.encode(), base, content)


def many_objects(number: int) -> bytes:
    """Of 8 bytes each, deep down: they take 200 bytes when decoded, and a long line each when indented."""
    return b'{"a":' + b"[" * 190 + b'{"a":1},' * (number - 1) + b"{}" + b"]" * 190 + b"}"


def nested_contents(order: Order) -> Pieces:
    yield from repeat(json_body(order, save_of(many_objects(65_000))))


def nested_comparison(order: Order) -> Pieces:
    yield get(order, f"{order.nested}/drafts/{order.draft}/compare", "Connection: close")


def unknown_members(order: Order) -> Pieces:
    yield from repeat(json_body(order, b"{", *(b'"%x":1,' % each for each in range(130_000)), b'"a":1}'))


def pipelined(order: Order) -> Pieces:
    yield from repeat((head(order, "GET /healthz HTTP/1.1") + b"\r\n") * 5000)


def unread_response(order: Order) -> Pieces:
    yield get(order, order.document)


def empty_fragments(order: Order) -> Pieces:
    yield handshake(order)
    yield frame(1, b"{", fin=False)
    yield from repeat(frame(0, fin=False) * 40_000)


def unread_pongs(order: Order) -> Pieces:
    yield handshake(order)
    yield from repeat(frame(9, b"p" * 125) * 500)


def tiny_messages(order: Order) -> Pieces:
    yield handshake(order)
    said = {"type": "authenticate", "data": {"token": order.token}}
    text = json.dumps(said).encode()
    middle = cycle(text[number : number + 100] for number in range(100, len(text), 100))
    yield frame(1, text[:100], fin=False)
    yield b"".join(frame(0, next(middle), fin=False) for _ in range(100, len(text), 100)) + frame(0)
    yield from repeat(frame(1, b"x") * 1000)


def silent(_: Order) -> Pieces:
    return iter(())


def silent_socket(order: Order) -> Pieces:
    yield handshake(order)


ATTACKS = {
    # flooding
    "endless heads": Attack(endless_head),
    "tiny chunks": Attack(tiny_chunks),
    "empty fragments": Attack(empty_fragments),
    "tiny messages": Attack(tiny_messages),
    # slow
    "unread pongs": Attack(unread_pongs, reads=False, receive_buffer=4096),
    "unread responses": Attack(unread_response, reads=False, receive_buffer=4096),
    "pipelined requests": Attack(pipelined, reads=False, receive_buffer=4096),
    # half-open
    "half heads": Attack(half_head),
    "half bodies": Attack(half_body),
    # oversized
    "oversized bodies": Attack(oversized),
    "oversized bodies of a user": Attack(oversized_signed_in),
    # nested
    "nested contents": Attack(nested_contents),
    "nested comparisons": Attack(nested_comparison),
    "unknown members": Attack(unknown_members),
    # many
    "silent connections": Attack(silent),
    "silent sockets": Attack(silent_socket),
}
"""An attack is what one connection sends: add another one here."""


class Client:
    """One connection at a time."""

    def __init__(self, order: Order, attack: Attack) -> None:
        self._order, self._attack = order, attack
        self.opened = -1
        self.connect()

    def connect(self) -> None:
        self.opened += 1
        self.connection = socket.socket()
        if self._attack.receive_buffer:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._attack.receive_buffer)
        self.connection.setblocking(False)
        self.connection.connect_ex(("127.0.0.1", self._order.port))
        self._pieces = self._attack.pieces(self._order)
        self._unsent = b""
        self.wants_to_send = True

    def proceed(self, events: int) -> None:
        """Send and read what is possible; connect anew at the end."""
        try:
            if events & (select.POLLERR | select.POLLHUP):
                raise ConnectionError
            if events & select.POLLIN and self._attack.reads and not self.connection.recv(65536):
                raise ConnectionError
            if events & select.POLLOUT:
                self._unsent = self._unsent or next(self._pieces, b"")
                self.wants_to_send = bool(self._unsent)
                self._unsent = self._unsent[self.connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.connection.close()
            self.connect()

    @property
    def events(self) -> int:
        return (select.POLLIN if self._attack.reads else 0) | (select.POLLOUT if self.wants_to_send else 0)


def main() -> None:
    order = Order(**json.loads(sys.stdin.readline()))
    clients = [Client(order, ATTACKS[order.attack]) for _ in range(order.connections)]
    print("attacking", flush=True)
    while True:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        by_fd = {client.connection.fileno(): client for client in clients}
        for fd, client in by_fd.items():
            poll.register(fd, client.events)
        for fd, events in poll.poll(100):
            if fd == 0:
                print(json.dumps({"opened": sum(client.opened for client in clients)}), flush=True)
                return
            by_fd[fd].proceed(events)
        time.sleep(0.001)  # a client that is refused at once would need a processor of its own


if __name__ == "__main__":
    main()
