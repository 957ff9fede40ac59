"""Several workers of the document service in one thread of this process, each with its own port and time settings,
over one database and one Valkey: real servers over real connections."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any, Self, TypeVar

import uvicorn
import uvloop
from tests.support.eventually import LIMIT
from tests.support.servers import reserve_port

from leasehold.server import Settings, create_app
from leasehold.server.process.worker import configure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

T = TypeVar("T")


class WorkerGroup:
    """Runs workers until the end of its context. `run` runs a coroutine in the workers' thread."""

    def __init__(self, data_dir: Path, **workers: Settings) -> None:
        self._database = data_dir / "documents.sqlite"
        self._settings = workers
        self._thread = threading.Thread(target=self._serve, name="worker-group", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self.urls: dict[str, str] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs ``work`` in the workers' thread, and returns its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * LIMIT)

    def call(self, work: Callable[[], object]) -> None:
        """Schedules ``work`` in the workers' thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Queries the database."""
        with closing(sqlite3.connect(self._database)) as database:
            return database.execute(query, parameters).fetchall()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(LIMIT), "the workers did not start"
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the workers did not end"
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._keep_serving())
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits
            self._failure = failure
        finally:
            self._started.set()

    async def _keep_serving(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as running:
            for name, settings in self._settings.items():
                self.urls[name] = await _start(running, settings)
            self._started.set()
            await self._stop.wait()


async def _start(running: AsyncExitStack, settings: Settings) -> str:
    """Starts a worker that ends with ``running``, and returns its URL."""
    listener = running.enter_context(reserve_port())
    app = create_app(settings)
    await running.enter_async_context(app.router.lifespan_context(app))
    config = configure(app, settings)
    # A server that closes an idle connection while the next request is on its way would fail the test without a defect.
    config.timeout_keep_alive = 3600
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    running.push_async_callback(_end, server, serving)
    while not server.started:
        if serving.done():
            await serving
            raise AssertionError("a worker ended at once")
        await asyncio.sleep(0.01)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def _end(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    server.should_exit = True
    await serving
