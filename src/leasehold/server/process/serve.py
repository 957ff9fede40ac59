"""``leasehold serve``: the supervisor process, which listens and keeps the workers running."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import leasehold
from leasehold.server.app.demo_team import TEAM, DemoUser
from leasehold.server.auth.signing_keys import load_keys
from leasehold.server.http.logs import configure_logs
from leasehold.server.process.listener import address_of, listen
from leasehold.server.process.metrics_port import metrics_directory, serve_metrics
from leasehold.server.process.supervisor import Supervisor
from leasehold.valkey.embedded import ensure_running
from leasehold.valkey.transport.store_url import parse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from leasehold.server.settings import Settings


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts about a running server. ``store`` is without its password; ``team`` is empty without the demo.

    ``metrics`` is the address of their separate port, if there is one. Without ``has_page`` only the API is served.
    """

    address: str
    store: str
    data_dir: Path
    workers: list[int]
    team: tuple[DemoUser, ...]
    metrics: str | None = None
    has_page: bool = True


async def run(settings: Settings, on_ready: Callable[[ServerInfo], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, and call ``on_ready`` as soon as every worker serves.

    Raises `leasehold.LeaseholdError` if it cannot start: `InvalidRequest` for wrong settings, `StoreError` if the lock
    store or the database does not answer. Afterwards only a signal ends it; a second one kills the workers.
    """
    configure_logs(settings)
    await asyncio.to_thread(load_keys, settings.secret_key, settings.data_dir)
    with listen(settings) as listener, metrics_directory(settings) as directory:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        supervisor = Supervisor(settings, listener, metrics_directory=directory)
        async with (
            serve_metrics(settings, directory) as metrics,
            _store(settings) as store,
            _stop_signals(supervisor) as stop,
        ):
            supervising = asyncio.create_task(supervisor.run())
            try:
                await _wait_for_first(supervising, supervisor.all_serve, stop)
                if supervisor.all_serve.is_set():
                    address = address_of(listener, settings)
                    team = TEAM if settings.demo else ()
                    has_page = (settings.page_dir / "index.html").is_file()
                    on_ready(
                        ServerInfo(
                            address, store, settings.data_dir, supervisor.pids, team, metrics, has_page
                        )
                    )
                await _wait_for_first(supervising, stop)
            finally:
                listener.close()  # connections are refused now, instead of waiting for no worker
                await supervisor.stop()
                await supervising


async def _wait_for_first(task: asyncio.Task[None], *events: asyncio.Event) -> None:
    """Wait for the task or one of the events; re-raises an error of the task."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    if task.done():
        task.result()


@asynccontextmanager
async def _store(settings: Settings) -> AsyncGenerator[str]:
    """The address of the lock store, after a check that it answers. This connection keeps an embedded one alive."""
    if settings.store_url is None:
        async with leasehold.connect(data_dir=settings.data_dir, timeout=settings.store_timeout):
            path = await asyncio.to_thread(ensure_running, settings.data_dir)
            yield f"unix://{quote(str(path))}"
    else:
        async with leasehold.connect(
            settings.store_url, timeout=settings.store_timeout, allow_eviction=settings.allow_eviction
        ):
            pass
        scheme = settings.store_url.partition(":")[0]
        server = str(parse(settings.store_url))
        yield server if scheme == "unix" else f"{scheme}://{server}"


@asynccontextmanager
async def _stop_signals(supervisor: Supervisor) -> AsyncGenerator[asyncio.Event]:
    """An event that is set by the signals that stop the server."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            supervisor.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
