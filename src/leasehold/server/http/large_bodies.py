"""Large request bodies: few values, decoded one at a time, and with pauses."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

_LARGE = 65_536

AT_ONCE = 1
"""Decoded JSON takes many times the memory of its text: of two at once, more than 64 MiB were seen."""

# Decoding stops the event loop for up to half of this, so that it has a third of the time at most.
_PAUSE_PER_BYTE = 100e-9

_BYTES_PER_VALUE = 8
_BYTES_PER_CONTAINER = 16
# A string without its end reaches to the end of the body, so that no byte is looked at twice.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'


class LargeBodyRoute(APIRoute):
    """A route whose requests with large bodies wait for their turn; see `Services.decoding`.

    One with too many values is refused before it is decoded; see `check_values`.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def handle_in_turn(request: Request) -> Response:
            # Read first, because a client may take its time to send; the request keeps it for its handler.
            body = await request.body()
            if len(body) <= _LARGE:
                return await handle(request)
            services = request.app.state.services
            turn: asyncio.Semaphore = services.decoding
            await turn.acquire()
            try:
                check_values(body, max_content=services.settings.max_content_bytes)
                return await handle(request)
            finally:
                # The next turn begins after a pause, in which other requests are served; this response does not wait.
                asyncio.get_running_loop().call_later(_PAUSE_PER_BYTE * len(body), turn.release)

        return handle_in_turn


def check_values(body: bytes, *, max_content: int) -> None:
    """`InvalidRequest` if this JSON has more values than a content of ``max_content`` bytes may have.

    A value takes up to 60 bytes, an object 200, however short its text is. Documents of editors have some 20 bytes for each
    object or array.
    """
    values = max(_LARGE, max_content // _BYTES_PER_VALUE)
    if _has_more(body, b",[{", values):  # one for each value: the first of a container is its bracket's
        raise InvalidRequest(f"content must not have more than {values} values")
    containers = max(_LARGE, max_content // _BYTES_PER_CONTAINER)
    if _has_more(body, b"[{", containers):
        raise InvalidRequest(f"content must not have more than {containers} objects and arrays")


def _has_more(body: bytes, marks: bytes, most: int) -> bool:
    """Whether there are more than ``most`` of these characters outside strings."""
    if sum(body.count(mark) for mark in marks) <= most:
        return False
    return _more_than(marks, most).match(body) is not None


@cache
def _more_than(marks: bytes, most: int) -> re.Pattern[bytes]:
    # In one match, because an object for each string would take as much memory as decoding them. Possessive, so that
    # nothing is kept for going back.
    between = b'[^"' + re.escape(marks) + b"]*+"
    mark = between + b"(?:" + _STRING + between + b")*+[" + re.escape(marks) + b"]"
    return re.compile(b"(?:" + mark + b"){%d}+" % (most + 1), re.DOTALL)
