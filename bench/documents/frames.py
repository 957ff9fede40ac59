"""The part of the WebSocket protocol that a client with short texts needs."""

from typing import NamedTuple

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA

_FIN = 0x80
_MASKED = 0x80
# A mask of zeros is valid, and leaves the text unchanged.
_MASK = bytes(4)


class Frame(NamedTuple):
    opcode: int
    data: bytes


def handshake(port: int, path: str) -> bytes:
    """The handshake request. The key is constant, because the server's proof of it is not checked."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def client_frame(opcode: int, data: bytes) -> bytes:
    size = len(data)
    if size < 126:
        head = bytes((_FIN | opcode, _MASKED | size))
    else:
        head = bytes((_FIN | opcode, _MASKED | 126)) + size.to_bytes(2)
    return head + _MASK + data


def read_frame(data: bytes) -> tuple[Frame, int] | None:
    """The first frame of the server's data and its length in bytes; None if it is incomplete."""
    if len(data) < 2:
        return None
    size, begins_at = data[1], 2
    if size == 126:
        size, begins_at = int.from_bytes(data[2:4]), 4
    elif size == 127:
        size, begins_at = int.from_bytes(data[2:10]), 10
    end = begins_at + size
    return (
        (Frame(data[0] & 0xF, data[begins_at:end]), end)
        if begins_at <= len(data) and end <= len(data)
        else None
    )
