"""Large request bodies, decoded a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

_LARGE = 65_536

AT_ONCE = 2
"""Decoded JSON takes up to 25 times the memory of its text. More than one, so that a slow store does not stop all saves."""


class LargeBodyRoute(APIRoute):
    """A route whose requests with large bodies wait for their turn; see `Services.decoding`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handle = super().get_route_handler()

        async def handle_in_turn(request: Request) -> Response:
            # Read first, because a client may take its time to send; the request keeps it for its handler.
            if len(await request.body()) <= _LARGE:
                return await handle(request)
            turn: asyncio.Semaphore = request.app.state.services.decoding
            async with turn:
                return await handle(request)

        return handle_in_turn
