"""One application for the many tests that only send requests: starting one takes longer than the requests."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import httpx
from sqlalchemy import text
from tests.support.eventually import LIMIT
from tests.support.loop_thread import LoopThread

from leasehold.server import create_app
from leasehold.server.db.engine import writing_rows
from leasehold.server.db.models import Row

if TYPE_CHECKING:
    from fastapi import FastAPI

    from leasehold.server import Settings


class SharedApp(httpx.AsyncBaseTransport):
    """Runs in a thread of its own until the end of its context; a test sends requests from its own event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = LoopThread("shared application")
        self._running = AsyncExitStack()

    def empty(self) -> None:
        """Delete all rows."""
        self._thread.run(self._empty(), LIMIT)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = asyncio.run_coroutine_threadsafe(
            self._transport.handle_async_request(request), self._thread.loop
        )
        return await asyncio.wrap_future(asked)

    def __enter__(self) -> Self:  # of tests; httpx uses the asynchronous one, which does nothing
        self._app: FastAPI = self._thread.run(self._start(), LIMIT)
        self._transport = httpx.ASGITransport(self._app)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.run(self._running.aclose(), LIMIT)
        self._thread.close()

    async def _start(self) -> FastAPI:
        app = create_app(self._settings)
        await self._running.enter_async_context(app.router.lifespan_context(app))
        return app

    async def _empty(self) -> None:
        async with writing_rows(self._app.state.services.database) as connection:
            if connection.dialect.name == "sqlite":
                for table in reversed(Row.metadata.sorted_tables):
                    await connection.execute(table.delete())
            else:
                names = ", ".join(table.name for table in Row.metadata.sorted_tables)
                await connection.execute(text(f"TRUNCATE {names}"))
