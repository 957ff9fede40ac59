"""The WebSocket protocol as far as a client needs it that sends little and is told short texts."""

from typing import NamedTuple

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA

_FIN = 0x80
_MASKED = 0x80
# A mask of zeros is one like any other, and leaves the text as it is.
_MASK = bytes(4)


class Frame(NamedTuple):
    opcode: int
    data: bytes


def handshake(port: int, path: str) -> bytes:
    """The key is always the same one: nobody here needs proof that the other side read it."""
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
    """The first frame that a server has sent and how many bytes it takes; None if there is not all of it."""
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
