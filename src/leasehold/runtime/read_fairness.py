"""Reads one connection at most once in each turn of the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LARGE_READ = 65536
"""A read of at least this many bytes is a reason to call `pause_for_one_turn`: there is probably more to read."""


def pause_for_one_turn(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, may_resume: Callable[[], bool]
) -> None:
    """Stop reading ``transport`` until the next turn of ``loop``, or longer unless ``may_resume``.

    libuv reads a connection that has more data up to 32 times in a row, each time up to 256 KiB, before it looks at
    another connection. If parsing that takes a few microseconds for each handful of bytes, all others wait for seconds.
    """
    transport.pause_reading()
    loop.call_soon(_resume, transport, may_resume)


def _resume(transport: asyncio.Transport, may_resume: Callable[[], bool]) -> None:
    if not transport.is_closing() and may_resume():
        transport.resume_reading()
