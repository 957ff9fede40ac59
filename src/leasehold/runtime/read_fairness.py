"""Reads one connection at most once in each turn of the event loop, and shows how fast its peer reads."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LARGE_READ = 65536
"""A read of at least this many bytes is a reason to call `pause_reading`: there is probably more to read."""


def pause_reading(
    loop: asyncio.AbstractEventLoop,
    transport: asyncio.Transport,
    may_resume: Callable[[], bool],
    *,
    seconds: float = 0,
) -> None:
    """Stop reading ``transport`` for ``seconds``, at least until the next turn of ``loop``; longer unless ``may_resume``.

    libuv reads a connection that has more data up to 32 times in a row, each time up to 256 KiB, before it looks at
    another connection. If parsing that takes a few microseconds for each handful of bytes, all others wait for seconds.
    """
    transport.pause_reading()
    loop.call_later(seconds, _resume, transport, may_resume)


def _resume(transport: asyncio.Transport, may_resume: Callable[[], bool]) -> None:
    if not transport.is_closing() and may_resume():
        transport.resume_reading()


def limit_unsent(transport: asyncio.BaseTransport, size: int) -> None:
    """Let the kernel take more only while it has less than about ``size`` bytes to send.

    Otherwise it buffers megabytes for a peer that does not read, and hides here that it is slow. Data in flight to a peer
    that does read is not limited by this.
    """
    with suppress(AttributeError, OSError):  # not on every system, and not for every kind of connection
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, size)
